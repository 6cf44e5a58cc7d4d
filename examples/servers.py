"""Starts what `--start` measures: zketcd with its own etcd, and real ZooKeeper."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from bench.servers import ETCD_OPTIONS
from lab.client.session import Address
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer


class Server(NamedTuple):
    """What a workload runs against: one ensemble, or proxies that share a tree."""

    label: str
    addresses: Sequence[Address]


@contextmanager
def started(proxies: int) -> Iterator[list[Server]]:
    """zketcd, as so many proxies on one etcd, and one ZooKeeper. Raises what lab.servers raises."""
    with ExitStack() as stack:
        etcd = stack.enter_context(EtcdServer(*ETCD_OPTIONS))
        ports = [
            stack.enter_context(ZketcdServer(etcd.endpoint, max_client_connections=0)).port
            for _ in range(proxies)
        ]
        # The JVM's default heap: the harness's small one is for tests.
        zookeeper = stack.enter_context(ZooKeeperServer(max_client_connections=0, java_options=()))
        yield [
            Server("zketcd", [Address("127.0.0.1", port) for port in ports]),
            Server("ZooKeeper", [Address("127.0.0.1", zookeeper.port)]),
        ]
