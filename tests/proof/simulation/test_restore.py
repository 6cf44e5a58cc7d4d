"""etcd is restored in the simulation: with all that it had, and from a backup without the newest writes."""

from collections import deque

import pytest

from proof.simulation.etcd import Store
from proof.simulation.simulation import Simulation
from tests.proof.simulation.worlds import small

NOTHING_ELSE = ("client dies",)


def test_zxids_continue_in_a_new_epoch() -> None:
    world = small(3, 0.004, ("restore etcd",))
    outcome = world.run()
    assert outcome.violations == []
    assert outcome.faults["restore etcd"] > 0
    assert world.oracle.machine.zxid >> 32 > 0


def _with_older_backup() -> Simulation:
    world = small(1, 0.006, NOTHING_ELSE)
    world.knobs = world.knobs._replace(backup=0.3)
    return world


def test_what_a_backup_lacks_is_gone_and_zxids_continue_above_it() -> None:
    world = _with_older_backup()
    world.world.lines = deque()  # all lines: the restore is followed by many
    assert world.run().violations == []
    assert any("restores a backup" in line for line in world.world.lines)


def test_a_lost_write_that_comes_back_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "restore", lambda _store, _data: None)
    (wrong, *_) = _with_older_backup().run().violations
    assert "which the backup lacks" in wrong
