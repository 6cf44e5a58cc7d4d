"""Worlds of the simulation end with a seal: what was acknowledged lies before it, and all servers end."""

from collections import deque

import pytest

from proof.simulation import sealing
from proof.simulation.simulation import Simulation
from proxy.log.follow.log_order import RecordChanged
from proxy.log.follow.seen_record import SeenRecord
from schema.record import decode_record
from tests.proof.simulation.worlds import small


def _world() -> Simulation:
    return small(1, 0.005, ("new leader",))


def test_a_world_ends_with_a_seal_and_its_removal() -> None:
    world = _world()
    world.world.lines = deque()  # all lines: what comes after the seal may push it out of the last ones
    assert world.run().violations == []
    lines = "\n".join(world.world.lines)
    assert "the tree is sealed at" in lines
    assert "the seal is removed" in lines


def test_a_server_that_serves_behind_the_seal_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def ignore(seen: SeenRecord, item: RecordChanged) -> None:
        assert item.value is not None
        seen.take(decode_record(item.value), item.revision)

    monkeypatch.setattr(SeenRecord, "changed", ignore)
    monkeypatch.setattr(sealing, "LIMIT", 15.0)
    violations = _world().run().violations
    words = "behind the seal", "the log has None there", "has not ended at the seal"
    assert any(word in each for each in violations for word in words), violations
