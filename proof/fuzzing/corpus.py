"""Inputs in files: the repository's as lines of hexadecimal, those of a long run as one file each."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"


def committed(name: str, folder: Path = CORPUS) -> list[bytes]:
    """A target's inputs in the repository. Raises ValueError for a file that is damaged."""
    file = folder / f"{name}.txt"
    if not file.is_file():
        return []
    return [bytes.fromhex(line) for line in file.read_text().splitlines() if not line.startswith("#")]


def commit(name: str, about: str, inputs: Iterable[bytes], folder: Path = CORPUS) -> None:
    """Write a target's inputs, the smallest first."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = sorted((data.hex() for data in inputs), key=lambda line: (len(line), line))
    text = "\n".join([f"# {about} One input a line; written by python -m proof.fuzzing --distill.", *lines])
    (folder / f"{name}.txt").write_text(text + "\n")


def grown(name: str, folder: Path) -> list[bytes]:
    """A target's inputs that long runs have kept in `folder`."""
    files = sorted((folder / name).iterdir()) if (folder / name).is_dir() else []
    return [file.read_bytes() for file in files if file.is_file()]


def keep(name: str, folder: Path, inputs: Iterable[bytes]) -> None:
    """Keep inputs in `folder`, each under the sum of its bytes."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    for data in inputs:
        (folder / name / hashlib.sha1(data).hexdigest()).write_bytes(data)
