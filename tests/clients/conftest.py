"""The servers that client tests run against: two zketcd proxies on one etcd, or one real ZooKeeper.

ZKETCD_TEST_SERVER=zookeeper chooses the latter: every test here must pass on it too.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import pytest
from kazoo.client import KazooClient

from lab.servers import EtcdServer, UpgradableServer, ZooKeeperServer
from lab.servers.clickhouse import ClickHouseServer, replicas_at
from lab.servers.process import ServerProcess
from tests.conftest import TICK_TIME_MS

_VARIABLE = "ZKETCD_TEST_SERVER"
ON_ZOOKEEPER = os.environ.get(_VARIABLE, "zketcd") == "zookeeper"

# Containers and nodes with a time to live are looked for every half second, not every minute.
_REAPING_MS = 500

# Clients reconnect when a server dies: their sessions have to live for longer than the server takes to start.
_MAX_SESSION_TIMEOUT_MS = 30_000


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All client tests need real servers."""
    for item in items:
        if "tests/clients/" in item.nodeid:
            item.add_marker(pytest.mark.real)


@contextmanager
def two_servers(
    etcd: EtcdServer, prefix: str, max_session_timeout: int = _MAX_SESSION_TIMEOUT_MS
) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """Two proxies on this etcd; on real ZooKeeper one server, twice.

    No session may be silent for longer than `max_session_timeout` milliseconds.
    """
    with ExitStack() as stack:
        if ON_ZOOKEEPER:
            server = stack.enter_context(
                ZooKeeperServer(
                    tick_time=TICK_TIME_MS,
                    max_session_timeout=max_session_timeout,
                    max_client_connections=0,
                    system_properties={
                        "zookeeper.extendedTypesEnabled": "true",  # zketcd's default
                        "znode.container.checkIntervalMs": str(_REAPING_MS),
                    },
                )
            )
            yield server, server
        else:
            first, second = (
                stack.enter_context(
                    UpgradableServer(
                        etcd.endpoint,
                        prefix=prefix,
                        tick_time=TICK_TIME_MS,
                        max_session_timeout=max_session_timeout,
                        max_client_connections=0,
                        container_check_interval=_REAPING_MS,
                    )
                )
                for _ in range(2)
            )
            yield first, second


@pytest.fixture
def pair(etcd_server: EtcdServer, etcd_prefix: str) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """Two servers of one tree that the test may stop, kill and start."""
    with two_servers(etcd_server, etcd_prefix) as servers:
        yield servers


class ClickHouses(NamedTuple):
    """Two ClickHouse servers, each at a server of its own, and a client that reads what they keep there."""

    first: ClickHouseServer
    second: ClickHouseServer
    zookeeper: KazooClient


@pytest.fixture(scope="module")
def running_clickhouses(etcd_server: EtcdServer, request: pytest.FixtureRequest) -> Iterator[ClickHouses]:
    """Two that all of a file shares."""
    with ExitStack() as stack:
        prefix = f"/test-{os.getpid()}-{request.path.stem}"
        ports = [server.port for server in stack.enter_context(two_servers(etcd_server, prefix))]
        first, second = stack.enter_context(replicas_at(*ports, session_timeout_ms=4000))
        client = KazooClient(f"127.0.0.1:{ports[0]}", timeout=_MAX_SESSION_TIMEOUT_MS / 1000)
        client.start(timeout=60)
        stack.callback(client.close)
        stack.callback(client.stop)
        yield ClickHouses(first, second, client)


@pytest.fixture
def clickhouses(running_clickhouses: ClickHouses) -> ClickHouses:
    """Both run, and have no table."""
    first, second, _ = running_clickhouses
    for server in (first, second):
        if not server.alive:
            server.start()
        for table in server.query("SHOW TABLES").split():
            server.query(f"DROP TABLE {table}")
    return running_clickhouses
