"""A new process takes over from a simulated proxy: no client loses its connection."""

from random import Random

import pytest
from typing_extensions import override

from proof.simulation import nemesis
from proof.simulation.hunt import Hunt, hunt_in
from proof.simulation.knobs import Knobs
from proof.simulation.planted import planted, read_planted
from proof.simulation.simulation import Simulation
from proof.simulation.sometimes import BETWEEN
from proxy.frontend.connection import Connection
from proxy.frontend.sessions import ServedSession
from proxy.state.pause import LENGTHS
from tests.proof.simulation.worlds import small

_HOURS = 0.012


class _Counted(Simulation):
    """A world without a rolling upgrade, which counts what is in its trace."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, _HOURS, ("hot restart",))
        self.taken_over = 0
        self.lost: list[float] = []  # when clients lost their connections
        trace = self.world.trace

        def counting(who: str, what: str) -> None:
            self.taken_over += what == "a new process takes over"
            if what.startswith("loses the connection"):
                self.lost.append(self.world.now)
            trace(who, what)

        self.world.trace = counting  # type: ignore[method-assign]

    def upgrade(self) -> None:
        """None."""

    @override
    def _drawn(self, rng: Random) -> Knobs:
        """Usual slices: in the shortest ones, a list of many names takes longer than a client waits."""
        return super()._drawn(rng)._replace(lengths=LENGTHS)


def test_no_client_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nemesis, "any_trouble", lambda _rng: None)
    world = _Counted(1)
    assert world.run().violations == []
    assert world.taken_over > 3
    assert [when for when in world.lost if when < _HOURS * 3600] == [], "before clients stop"


def test_bytes_that_are_lost_would_cost_clients_their_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that the old process has read, and not handled."""
    monkeypatch.setattr(nemesis, "any_trouble", lambda _rng: None)
    continued = Connection.continued

    def losing(connection: Connection, session: ServedSession | None, _unhandled: bytes) -> None:
        continued(connection, session, b"")

    monkeypatch.setattr(Connection, "continued", losing)

    def loses(seed: int) -> bool:
        world = _Counted(seed)
        world.run()
        return any(when < _HOURS * 3600 for when in world.lost)

    assert any(map(loses, (3, 4, 6))), "in most of them a client is just sending something"


def test_a_restart_that_fails_at_some_step_does_no_harm() -> None:
    world = _Counted(3)
    outcome = world.run()
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
    assert 0 < world.taken_over < outcome.faults["hot restart"]


def test_a_client_that_returns_amid_a_restart_and_loses_its_watches_is_found() -> None:
    """In short worlds; the usual ones are those of `test_planted`."""
    (fault,) = [each for each in read_planted() if each.name == "a handover misses who came meanwhile"]
    right = small(3, 0.004, tuple(fault.faults)).run()
    assert right.violations == []
    assert BETWEEN in right.branches
    with planted(fault) as source:
        assert hunt_in(source, Hunt("stormy", 1, 3, 0.015, fault.faults)) is not None
