"""The command `python -m proof.fuzzing`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pytest

from proof.fuzzing import __main__ as command
from proof.fuzzing import atheris_engine, corpus
from proof.fuzzing.atheris_engine import Explored
from proof.fuzzing.corpus import committed
from proof.fuzzing.targets import TARGETS
from tests.proof.fuzzing.defects import GOOD, TARGET


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table with one target, whose inputs are near a defect."""
    monkeypatch.setitem(TARGETS, "defects", TARGET)
    monkeypatch.setattr(corpus, "committed", lambda _name: [b"\x15\x25\x35\x00" + GOOD])


def options(folder: Path, *more: str) -> list[str]:
    return [*more, "--corpus", str(folder / "corpus"), "--findings", str(folder / "findings")]


def test_a_run_that_finds_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(options(tmp_path, "--targets", "key,framing", "--seconds", "0.5")) == 0
    output = capsys.readouterr().out
    assert "0 findings" in output.splitlines()[-1]
    assert "executions" in output
    assert not (tmp_path / "findings").exists()


@pytest.mark.usefixtures("planted")
def test_a_run_that_finds_something_ends_and_can_be_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(options(tmp_path, "--targets", "defects", "--seconds", "0.1")) == 1
    output = capsys.readouterr().out
    assert "FINDING in defects: IndexError" in output
    file = next((tmp_path / "findings").iterdir())
    assert command.main(["--targets", "defects", "--repeat", str(file)]) == 1
    assert "IndexError" in capsys.readouterr().out
    file.write_bytes(b"")
    assert command.main(["--targets", "defects", "--repeat", str(file)]) == 0


def test_the_list_of_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(TARGETS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--targets", "nothing"], "no target 'nothing'"),
        (["--seconds", "soon"], "'soon' is not a number above 0"),
        (["--repeat", "x"], "--repeat needs one target"),
        (["--corpus", "/dev/null/folder"], "/dev/null is not a folder"),
        (["--findings", "/dev/null/folder"], "/dev/null is not a folder"),
        (["--repeat", "/does/not/exist", "--targets", "key"], "cannot read /does/not/exist"),
    ],
)
def test_bad_usage(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


class _Lucky(atheris_engine.Explorer):
    """An engine that breaks the invariant by chance."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """No child runs."""

    def explore(self, name: str, inputs: Sequence[bytes], seed: int, seconds: float) -> Explored:
        assert inputs
        return Explored([], [b"\0" * 8], "ZeroDivisionError", 5)


def test_what_atheris_finds_only_once_is_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atheris_engine, "is_installed", lambda: True)
    monkeypatch.setattr(atheris_engine, "Explorer", _Lucky)
    arguments = options(tmp_path, "--targets", "framing,key", "--seconds", "1", "--engine", "atheris")
    assert command.main(arguments) == 1
    output = capsys.readouterr().out
    for name in ("framing", "key"):
        assert f"FINDING in {name}: atheris found it, once: ZeroDivisionError" in output
    assert [file.read_bytes() for file in (tmp_path / "findings").iterdir()] == [b"\0" * 8] * 2


def test_atheris_runs_the_same_targets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The set-up installs it where it has a wheel; elsewhere the command says so."""
    arguments = options(tmp_path, "--targets", "entry", "--seconds", "1", "--engine", "atheris")
    if not atheris_engine.is_installed():
        with pytest.raises(SystemExit):
            command.main(arguments)
        assert "atheris is not installed" in capsys.readouterr().err
        return
    assert command.main(arguments) == 0
    executions = int(capsys.readouterr().out.splitlines()[-1].split()[0])
    assert executions > 2 * len(committed("entry"))
