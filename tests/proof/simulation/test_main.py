"""The command line."""

from multiprocessing import active_children

import pytest

from lab.servers.waiting import wait_until
from proof.simulation.__main__ import main
from proof.simulation.campaign import worlds


def test_a_world_and_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "7", "--hours", "0.005"]) == 0
    said = capsys.readouterr().out
    assert "stormy seed 7: " in said
    assert ", 0 violations, trace " in said
    assert "simulated hours" in said


def test_several_processes_run_the_same_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proof.simulation.campaign.STORMY_HOURS", 0.002)
    alone, together = (
        [(world.seed, world.fingerprint) for _, world in worlds(7, 0.005, processes=processes, kind="stormy")]
        for processes in (1, 2)
    )
    assert [seed for seed, _ in alone] == [7, 8, 9]
    assert together == alone
    assert len({fingerprint for _, fingerprint in alone}) == 3


def test_processes_end_with_a_run_that_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proof.simulation.campaign.STORMY_HOURS", 0.002)
    before = set(active_children())
    running = worlds(7, 1_000.0, processes=2, kind="stormy")
    next(running)
    begun = set(active_children()) - before
    assert begun
    running.close()  # as Ctrl-C does
    # A thread of the pool's waits for them as well: who comes second knows the exit code a moment later.
    wait_until(lambda: all(process.exitcode is not None for process in begun), "the end of the processes", 60)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--hours", "0"],
        ["--hours", "x"],
        ["--worlds", "quiet"],
        ["--planted", "no such fault"],
        ["--processes", "0"],
        ["--processes", "1.5"],
        ["--tries", "0", "--planted"],
        ["--processes", "2", "--trace"],
        ["--processes", "2", "--planted"],
    ],
)
def test_bad_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
