"""The servers that client tests run against: two zketcd proxies on one etcd, or one real ZooKeeper.

ZKETCD_TEST_SERVER=zookeeper chooses the latter: every test here must pass on it too.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from lab.servers import EtcdServer, UpgradableServer, ZooKeeperServer
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
