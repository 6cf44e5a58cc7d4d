"""The command line."""

from itertools import islice
from multiprocessing import active_children

import pytest

from lab.servers.waiting import wait_until
from proof.simulation.__main__ import main
from proof.simulation.campaign import worlds
from proof.simulation.kinds import run


def test_a_world_and_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--worlds", "calm", "--seed", "7", "--hours", "0.0005"]) == 0
    said = capsys.readouterr().out
    assert "calm seed 7: " in said
    assert ", 0 violations, trace " in said
    assert "simulated hours" in said


def test_several_processes_run_the_same_worlds_and_end_with_a_run_that_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proof.simulation.campaign.CALM_HOURS", (0.0005,))
    before = set(active_children())
    running = worlds(7, 1_000.0, processes=2, kind="calm")
    (seventh, first), (eighth, second) = islice(running, 2)
    begun = set(active_children()) - before
    assert begun
    running.close()  # as Ctrl-C does
    # A thread of the pool's waits for them as well: who comes second knows the exit code a moment later.
    wait_until(lambda: all(process.exitcode is not None for process in begun), "the end of the processes", 60)
    assert (seventh.seed, eighth.seed) == (7, 8)
    assert first.fingerprint != second.fingerprint == run(eighth).fingerprint
