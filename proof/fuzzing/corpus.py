"""Each target's inputs in the repository, as lines of hexadecimal."""

from collections.abc import Iterable
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
MOST_COMMITTED = 40  # inputs of a target


def committed(name: str) -> list[bytes]:
    """A target's inputs. Raises ValueError for a file that is damaged."""
    file = CORPUS / f"{name}.txt"
    if not file.is_file():
        return []
    return [bytes.fromhex(line) for line in file.read_text().splitlines() if not line.startswith("#")]


def commit(name: str, about: str, inputs: Iterable[bytes]) -> None:
    """Write a target's inputs, the smallest first."""
    lines = sorted((data.hex() for data in inputs), key=lambda line: (len(line), line))
    text = "\n".join([f"# {about} One input a line; written by python -m proof.fuzzing --distill.", *lines])
    (CORPUS / f"{name}.txt").write_text(text + "\n")


def write(name: str, folder: Path) -> Path:
    """Write a target's inputs into files of their own, as libFuzzer reads them; returns their folder."""
    files = folder / "committed"
    files.mkdir()
    for number, data in enumerate(committed(name)):
        (files / str(number)).write_bytes(data)
    return files
