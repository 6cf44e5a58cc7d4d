"""Connections and their limits: who gets in, what is counted, how all end."""

import logging
from types import SimpleNamespace
from typing import cast

import pytest

from proxy.frontend.admission import ConnectionLimits
from proxy.frontend.connection import Connection, Connections
from proxy.support.counters import Counters
from proxy.support.throttled_log import ThrottledLog


class Fake:
    """A connection that does at once what it is asked."""

    def __init__(
        self, connections: Connections | None = None, unread: int = 0, address: str = "10.0.0.1"
    ) -> None:
        self.admitted = False
        self.identity = SimpleNamespace(address=address)
        self.services = SimpleNamespace(throttled_log=ThrottledLog(logging.getLogger(__name__)))
        self.did: list[str] = []
        self.outbound = SimpleNamespace(unread=unread, abort=lambda: self.did.append("abort"))
        self._connections = connections

    @property
    def connection(self) -> Connection:
        """It stands for one."""
        return cast(Connection, self)

    def regulate(self) -> None:
        self.did.append("regulate")

    def thaw(self) -> None:
        self.did.append("thaw")

    def drain(self) -> None:
        self.did.append("drain")

    def close(self) -> None:
        self.did.append("close")
        if self._connections is not None:
            self._connections.gone(self.connection)


def _connections(per_address: int = 0) -> Connections:
    return Connections(ConnectionLimits(per_address, 0, Counters()))


@pytest.mark.parametrize(
    ("per_address", "in_all", "admitted"), [(2, 0, "aab"), (0, 2, "aa"), (3, 3, "aaa"), (0, 0, "aaab")]
)
def test_so_many_of_one_address_and_in_all(
    per_address: int, in_all: int, admitted: str, caplog: pytest.LogCaptureFixture
) -> None:
    counters = Counters()
    limits = ConnectionLimits(per_address, in_all, counters)
    assert "".join(address for address in "aaab" if limits.admit(address)) == admitted
    assert counters.rejected == 4 - len(admitted)
    assert ("too many connections from a: more than 2" in caplog.text) is (per_address == 2)
    limits.release("a")
    assert limits.admit("a")


@pytest.mark.parametrize(
    ("in_all", "files", "most", "why"), [(0, 2, 2, ", all that"), (3, 2, 2, ", all that"), (1, 2, 1, "")]
)
def test_clients_do_not_get_the_last_descriptors(
    in_all: int, files: int, most: int, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    limits = ConnectionLimits(0, in_all, Counters(), files)
    assert limits.most == most
    assert [limits.admit(address) for address in ("", "a", "b")].count(True) == most
    assert f"too many connections: more than {most}{why}" in caplog.text


def test_a_client_that_is_not_known_yet_counts_in_all_only() -> None:
    limits = ConnectionLimits(1, 2, Counters())
    assert limits.admit("")
    assert limits.admit("")
    assert not limits.admit("a")
    limits.release("")
    assert limits.admit("a")


async def test_a_connection_takes_a_place_and_gives_it_back() -> None:
    connections = _connections(1)
    first, second = Fake(), Fake()
    assert connections.opened(first.connection)
    assert not connections.opened(second.connection)
    connections.gone(second.connection)
    connections.gone(first.connection)
    assert len(connections) == 0
    assert connections.opened(Fake().connection)
    second.admitted = True  # one that has its place takes no other
    assert connections.opened(second.connection)


async def test_a_server_that_stops_takes_no_more_connections_and_closes_all() -> None:
    connections = _connections()
    here = [Fake(connections) for _ in range(3)]
    for connection in here:
        connections.opened(connection.connection)
    connections.drain()
    late = Fake(connections)
    assert not connections.opened(late.connection)
    connections.gone(late.connection)
    await connections.close(10.0)
    assert len(connections) == 0
    assert [connection.did for connection in here] == [["drain", "close"]] * 3


async def test_a_client_that_does_not_read_is_not_waited_for_long() -> None:
    connections = _connections()
    connections.opened(Fake().connection)
    connections.drain()
    await connections.close(0.01)
    assert len(connections) == 1


def test_while_another_process_takes_over_all_connections_are_frozen() -> None:
    connections = _connections()
    here = Fake()
    connections.opened(here.connection)
    connections.freeze()
    frozen = [connections.are_frozen]
    connections.thaw()
    frozen.append(connections.are_frozen)
    assert frozen == [True, False]
    assert here.did == ["regulate", "thaw"]


def test_of_clients_that_do_not_read_the_furthest_behind_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    """Who is far behind by 4 MiB, if they are so by 256 MiB together."""
    connections = _connections()
    here = [Fake(connections, unread=mib << 20) for mib in (4, 100, 150, 5, 4, 105, 0)]
    connections.behind |= {each.connection: None for each in here}
    connections.check()
    assert [len(each.did) for each in here] == [0, 0, 2, 0, 0, 0, 0]
    assert here[2].did == ["close", "abort"]
    assert here[2].connection not in connections.behind
    assert "closing 10.0.0.1, and 0 more: too many bytes" in caplog.text
    connections.check()
    assert sum(len(each.did) for each in here) == 2
    here[3].outbound.unread = 52 << 20  # 100 + 52 + 105
    connections.check()
    assert here[5].did == ["close", "abort"]


def test_many_that_do_not_read_push_no_client_of_another_host_out() -> None:
    connections = _connections()
    many = [Fake(connections, unread=27 << 20) for _ in range(8)]
    slow = Fake(connections, unread=105 << 20, address="10.0.0.2")
    connections.behind |= {each.connection: None for each in (*many, slow)}
    connections.check()
    assert sum(each.did == ["close", "abort"] for each in many) == 3
    assert slow.did == []
