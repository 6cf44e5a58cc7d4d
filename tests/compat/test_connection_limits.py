"""maxClientCnxns and maxCnxns on real ZooKeeper and zketcd: which connection is one too many."""

import socket
from collections.abc import Iterator

import pytest

from lab.oracle import wire
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer, wait_until
from lab.servers.process import ServerProcess

pytestmark = pytest.mark.real

_EACH = 3
_ALL = 5


@pytest.fixture(scope="module", params=["zookeeper", "zketcd"])
def server(request: pytest.FixtureRequest, etcd_server: EtcdServer) -> Iterator[ServerProcess]:
    """Each server with the same limits."""
    with (
        ZooKeeperServer(max_client_connections=_EACH, system_properties={"zookeeper.maxCnxns": str(_ALL)})
        if request.param == "zookeeper"
        else ZketcdServer(
            etcd_server.endpoint, prefix="/compat-limits", max_client_connections=_EACH, max_connections=_ALL
        )
    ) as server:
        yield server


def lets_in(port: int, address: str, opened: list[socket.socket]) -> bool:
    """Try to open a session through a port from an address; the connection stays open."""
    # One that is turned away may find out while it still connects.
    try:
        opened.append(socket.create_connection(("127.0.0.1", port), 60, (address, 0)))
        opened[-1].sendall(wire.frame(wire.pack_connect(timeout_ms=40_000)))
        return opened[-1].recv(1) != b""
    except ConnectionError:
        return False


def test_one_too_many_is_turned_away(server: ServerProcess) -> None:
    opened: list[socket.socket] = []
    try:
        for address, room in (("127.0.0.1", _EACH), ("127.0.0.2", _ALL - _EACH)):
            for _ in range(room):  # who asked whether the server serves may still be counted
                wait_until(lambda: lets_in(server.port, address, opened), "there is room")  # noqa: B023
            assert not any(lets_in(server.port, address, opened) for _ in range(3))
        opened[0].close()
        wait_until(lambda: lets_in(server.port, "127.0.0.3", opened), "a place is free again")
        assert not lets_in(server.port, "127.0.0.3", opened)
    finally:
        for sock in opened:
            sock.close()
