"""A JVM with Curator, and its clients of two servers."""

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from lab.servers import EtcdServer
from lab.servers.process import ServerProcess
from tests.clients.conftest import two_servers
from tests.clients.curator.shared import SESSION_MS, TIMEOUT_S, Client, Connect, seconds
from tests.clients.jvm import Jvm, java_virtual_machine


@pytest.fixture(scope="package")
def jvm() -> Iterator[Jvm]:
    with java_virtual_machine() as machine:
        yield machine


@pytest.fixture(scope="package")
def servers(etcd_server: EtcdServer) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    with two_servers(etcd_server, f"/test-curator-{os.getpid()}") as started:
        yield started


@pytest.fixture
def connect(jvm: Jvm, servers: tuple[ServerProcess, ServerProcess]) -> Iterator[Connect]:
    """Makes a started client of the servers with these indices, 0 and 1 (0 if none is given)."""
    with ExitStack() as stack:

        def new(*numbers: int) -> Client:
            addresses = ",".join(servers[number].address for number in numbers or (0,))
            policy = jvm.find("org.apache.curator.retry.RetryNTimes")(200, 100)
            factory = jvm.find("org.apache.curator.framework.CuratorFrameworkFactory")
            client = factory.newClient(addresses, SESSION_MS, TIMEOUT_S * 1000, policy)
            stack.callback(client.close)
            client.start()
            assert client.blockUntilConnected(TIMEOUT_S, seconds(jvm))
            return client

        yield new


@pytest.fixture
def clients(connect: Connect) -> tuple[Client, Client]:
    """One client of each server."""
    return connect(0), connect(1)


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    """A path of the test's own; nothing is there yet."""
    return f"/{request.node.name}"
