"""The command `python -m proof.fuzzing`."""

import argparse
from functools import partial
from pathlib import Path
from typing import cast
from unittest import mock

import pytest

from proof.fuzzing import __main__ as command
from proof.fuzzing import corpus, engine
from proof.fuzzing.engine import Explored, Explorer
from proof.fuzzing.target import Target
from proof.fuzzing.targets import TARGETS
from tests.proof.fuzzing import defects

needs_atheris = pytest.mark.skipif(not engine.is_installed(), reason="it has no wheel for this machine")


def options(folder: Path, *more: str) -> list[str]:
    return [*more, "--corpus", str(folder / "corpus"), "--findings", str(folder / "findings")]


@needs_atheris
def test_a_run_that_finds_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(options(tmp_path, "--targets", "key,framing", "--seconds", "2")) == 0
    output = capsys.readouterr().out
    assert "0 findings" in output.splitlines()[-1]
    assert "executions" in output
    assert not (tmp_path / "findings").exists()


@needs_atheris
def test_a_run_that_finds_something_ends_and_can_be_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "TARGETS", defects.TARGETS)
    monkeypatch.setattr(command, "Explorer", partial(Explorer, defects.__name__, (defects.__name__,)))
    monkeypatch.setattr(corpus, "committed", lambda _name: [b"\x15\x25\x35" + defects.GOOD])
    assert command.main(options(tmp_path, "--targets", "IndexError", "--seconds", "1")) == 1
    output = capsys.readouterr().out
    assert "FINDING in IndexError: IndexError" in output
    file = next((tmp_path / "findings").iterdir())
    assert command.main(["--targets", "IndexError", "--repeat", str(file)]) == 1
    assert "IndexError" in capsys.readouterr().out
    file.write_bytes(b"")
    assert command.main(["--targets", "IndexError", "--repeat", str(file)]) == 0


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


@pytest.mark.parametrize(
    ("names", "seconds", "expected"),
    [
        ("abcdefghij", 100.0, pytest.approx([10.0, *[8.0] * 9], abs=1.0)),
        ("abcd", 4.0, [1.0, 0.0, 0.0, 0.0]),  # the first one takes all of it
        ("ab", None, [5.0, 5.0, 10.0, 10.0, 20.0, 20.0, 40.0, 40.0, *[60.0] * 4]),
    ],
)
def test_targets_share_the_time_although_turns_take_longer(
    names: str, seconds: float | None, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, turns = 0.0, []

    def turn(
        target: str, _given: object, _explorer: object, turn_s: float, seed: int, found: set[str]
    ) -> int:
        nonlocal now
        now += turn_s + 2.0
        turns.append(turn_s)
        if seed == 6:
            found.add(target)
        return 1

    monkeypatch.setattr(command, "_turn", turn)
    monkeypatch.setattr(command, "time", mock.Mock(monotonic=lambda: now))
    targets = cast(list[Target], list(names))
    command._fuzz(targets, mock.Mock(), argparse.Namespace(seconds=seconds, seed=1))
    assert turns == expected


def test_what_is_found_only_once_is_a_finding() -> None:
    explored = Explored([], [b"\0" * 8], "ZeroDivisionError", 5, 1)
    assert {
        signature: (data, finding.what)
        for signature, (data, finding) in command.findings_of(TARGETS["key"], explored).items()
    } == {command.NOT_REPEATED: (b"\0" * 8, "atheris found it, once: ZeroDivisionError")}


def test_without_atheris_the_command_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "is_installed", lambda: False)
    with pytest.raises(SystemExit):
        command.main([])
    assert "atheris is not installed" in capsys.readouterr().err
