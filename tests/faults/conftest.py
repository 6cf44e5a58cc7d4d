"""Starters of proxies for tests of faults."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from lab.client.blocking import Client, Disconnected
from lab.servers import EtcdServer, ZketcdServer
from tests.conftest import TICK_TIME_MS

# Clients that live through an outage need longer timeouts than 20 short ticks.
_OPTIONS: dict[str, object] = {
    "tick_time": TICK_TIME_MS,
    "max_session_timeout": 40_000,
    "max_client_connections": 0,
}

Start = Callable[..., ZketcdServer]


@pytest.fixture
def start() -> Iterator[Start]:
    """A function that starts a proxy, which the test may stop, on an etcd (None: embedded)."""
    with ExitStack() as stack:

        def started(etcd: EtcdServer | str | None, **options: object) -> ZketcdServer:
            endpoint = etcd.endpoint if isinstance(etcd, EtcdServer) else etcd
            return stack.enter_context(ZketcdServer(endpoint, **{**_OPTIONS, **options}))  # type: ignore[arg-type]

        yield started


@pytest.fixture
def pair(start: Start, etcd_server: EtcdServer, etcd_prefix: str) -> tuple[ZketcdServer, ZketcdServer]:
    """Two proxies that serve one tree on the shared etcd."""
    return start(etcd_server, prefix=etcd_prefix), start(etcd_server, prefix=etcd_prefix)


@pytest.hookimpl(tryfirst=True)
def comes_back(client: Client, port: int) -> bool:
    """Whether a client can continue its session at this server."""
    try:
        client.reconnect(port)
    except Disconnected:
        return False
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start a proxy need real servers."""
    for item in items:
        if "tests/faults/" in item.nodeid and "start" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.real)
