"""A campaign that was stopped continues with the file of its worlds."""

from pathlib import Path

import pytest

from proof.simulation import campaign, kinds, record
from proof.simulation.__main__ import main
from proof.simulation.outcome import Outcome
from proof.simulation.record import BadRecord, WorldSpec

_WORLD = WorldSpec("calm", 1, 0.001)


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return kinds.run(_WORLD)


def test_worlds_in_the_file_are_not_simulated_again(
    outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "worlds.jsonl"
    simulated: list[WorldSpec] = []

    def run(world: WorldSpec) -> Outcome:
        simulated.append(world)
        return outcome._replace(seed=world.seed)

    monkeypatch.setattr(campaign, "run", run)
    arguments = ["--worlds", "calm", "--hours", str(_WORLD.hours), "--record", str(file)]
    assert main(arguments) == 0
    first = capsys.readouterr().out
    assert main(arguments) == 0
    again = capsys.readouterr().out
    assert simulated == [_WORLD]
    assert again == first  # with the CPU time that the recorded world took
    assert main([*arguments, "--seed", "2"]) == 0
    assert [world.seed for world in simulated] == [1, 2]
    assert [world.seed for world in record.read(file)] == [1, 2]


def test_a_file_of_other_code_is_refused(
    outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "worlds.jsonl"
    record.append(file, _WORLD, outcome)
    assert list(record.read(file)) == [_WORLD]
    monkeypatch.setattr(record, "code", lambda: "other")
    with pytest.raises(BadRecord, match="line 1: the code has changed"):
        record.read(file)
