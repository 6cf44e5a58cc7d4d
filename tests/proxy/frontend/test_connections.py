"""Connections and their limits: who gets in, what is counted, how all end."""

import logging

import pytest

from proxy.frontend.connections import ConnectionLimits, Connections
from proxy.support.counters import Counters


class Connection:
    """A connection that does what it is told at once."""

    def __init__(
        self, address: str = "10.0.0.1", connections: "Connections[Connection] | None" = None
    ) -> None:
        self.address = address
        self.admitted = False
        self.received = 0
        self.sent = 0
        self.did: list[str] = []
        self._connections = connections

    def drain(self) -> None:
        self.did.append("drain")

    def close(self) -> None:
        self.did.append("close")
        if self._connections is not None:
            self._connections.gone(self)


def _connections(per_address: int = 0) -> Connections[Connection]:
    return Connections(ConnectionLimits(per_address, 0, Counters()))


def test_so_many_of_one_address() -> None:
    counters = Counters()
    limits = ConnectionLimits(2, 0, counters)
    assert [limits.admit("a"), limits.admit("a"), limits.admit("a"), limits.admit("b")] == [
        True,
        True,
        False,
        True,
    ]
    limits.release("a")
    assert limits.admit("a")
    assert counters.rejected == 1


def test_so_many_in_all() -> None:
    limits = ConnectionLimits(0, 2, Counters())
    assert [limits.admit(name) for name in "abc"] == [True, True, False]
    limits.release("a")
    assert limits.admit("c")


def test_no_limit() -> None:
    limits = ConnectionLimits(0, 0, Counters())
    assert all(limits.admit("a") for _ in range(1000))


def test_a_rejected_client_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    limits = ConnectionLimits(1, 0, Counters())
    limits.admit("a")
    with caplog.at_level(logging.WARNING):
        limits.admit("a")
    assert "too many connections from a: more than 1" in caplog.text


async def test_a_connection_takes_a_place_and_gives_it_back() -> None:
    connections = _connections(1)
    first, second = Connection(), Connection()
    assert connections.opened(first)
    assert not connections.opened(second)
    connections.gone(second)
    connections.gone(first)
    assert len(connections) == 0
    assert connections.opened(Connection())


async def test_a_connection_that_has_its_place_takes_no_other() -> None:
    connections = _connections(1)
    connections.limits.admit("10.0.0.1")
    connection = Connection()
    connection.admitted = True
    assert connections.opened(connection)


async def test_packets_of_closed_connections_stay_counted() -> None:
    connections = _connections()
    connection = Connection()
    connections.opened(connection)
    connection.received, connection.sent = 3, 4
    connections.gone(connection)
    assert (connections.received, connections.sent) == (3, 4)


async def test_a_server_that_drains_takes_no_more_connections() -> None:
    connections = _connections()
    here = Connection(connections=connections)
    connections.opened(here)
    connections.drain()
    assert not connections.opened(Connection())
    assert here.did == ["drain"]


async def test_all_are_closed_in_the_end() -> None:
    connections = _connections()
    here = [Connection(connections=connections) for _ in range(3)]
    for connection in here:
        connections.opened(connection)
    connections.drain()
    await connections.close(10.0)
    assert len(connections) == 0
    assert [connection.did for connection in here] == [["drain", "close"]] * 3


async def test_a_client_that_does_not_read_is_not_waited_for_long() -> None:
    connections = _connections()
    connections.opened(Connection())
    connections.drain()
    await connections.close(0.01)
    assert len(connections) == 1
