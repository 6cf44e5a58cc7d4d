"""`python -m proof.fuzzing`: it finds defects three comparisons deep, and repeats what it has found."""

from pathlib import Path

import pytest

from proof.fuzzing import __main__ as command
from proof.fuzzing import libfuzzer
from proof.fuzzing.targets import TARGETS
from tests.proof.fuzzing import defects

needs_atheris = pytest.mark.skipif(not libfuzzer.is_installed(), reason="it has no wheel for this machine")
on_small_targets = pytest.mark.usefixtures("_small_targets")


@pytest.fixture
def _small_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """atheris instruments all that a table's targets import, for seconds."""
    monkeypatch.setattr(command, "TARGETS", defects.TARGETS)
    monkeypatch.setattr(libfuzzer, "TABLE", defects.__name__)


@needs_atheris
@on_small_targets
@pytest.mark.long
@pytest.mark.parametrize("kind", defects.KINDS)
def test_planted_defects_are_found_and_repeated(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "SLOW", 2)
    target = defects.TARGETS[kind]
    kept = tmp_path / "corpus" / kind
    kept.mkdir(parents=True)
    (kept / "good").write_bytes(defects.GOOD)
    # A turn is bounded by time, and the machine may be busy. Too much memory ends no turn.
    for seed in range(1, 51):
        if command.fuzz(target, tmp_path, 2, seed):
            break
    else:
        pytest.fail("not found")
    file = min((tmp_path / "findings").iterdir())
    capsys.readouterr()
    if kind != "endless":  # that would take a minute
        assert command.main(["--targets", kind, "--repeat", str(file)]) == 1
        assert kind in capsys.readouterr().out
    file.write_bytes(b"")
    assert command.main(["--targets", kind, "--repeat", str(file)]) == 0


@needs_atheris
@on_small_targets
def test_a_run_that_finds_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--targets", defects.NONE, "--seconds", "1", "--once", "--build", str(tmp_path)]
    assert command.main(options) == 0
    assert "executions" in capsys.readouterr().out
    assert not any((tmp_path / "findings").iterdir())
    assert any((tmp_path / "corpus" / defects.NONE).iterdir())


@needs_atheris
@on_small_targets
def test_distilled_inputs_reach_what_all_reach(tmp_path: Path) -> None:
    for number, begin in enumerate((b"", b"\x15", b"\x15\x25") * 20):
        (tmp_path / str(number)).write_bytes(begin + bytes(len(defects.GOOD) + number))
    best = command.distilled(defects.TARGETS["memory"], tmp_path)
    assert sorted(defects.decode(data, "memory") for data in best) == [1, 2, 3]


def test_the_list_of_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(TARGETS)


def test_a_target_may_search_by_itself(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it needs no atheris."""
    own = TARGETS["costs"]._replace(search=lambda seconds, seed: (9, [f"seed {seed}"] * int(seconds - 1)))
    monkeypatch.setattr(command, "TARGETS", {"costs": own})
    monkeypatch.setattr(libfuzzer, "is_installed", lambda: False)
    assert command.main(["--seconds", "1", "--once"]) == 0
    assert command.main(["--seconds", "2", "--seed", "7"]) == 1
    assert "FINDING in costs: seed 7" in capsys.readouterr().out
