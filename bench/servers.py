"""Starts the systems under test, all on one disk, and says whom to charge for each."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer

NAMES = ("zookeeper", "zketcd", "etcd")

# As docs/etcd.md asks for: a log entry may have 512 KiB, so etcd must not keep 100,000 requests in
# memory, and a bench writes gigabytes of revisions.
ETCD_OPTIONS = (
    "--quota-backend-bytes=8589934592",
    "--auto-compaction-mode=periodic",
    "--auto-compaction-retention=5m",
    "--snapshot-count=5000",
)


class Target(NamedTuple):
    """One system under test."""

    name: str
    protocol: str
    """"zookeeper" or "etcd"."""
    port: int
    processes: dict[str, int]
    """Role -> pid of the processes that do its work."""
    metrics_url: str | None
    """The client URL of the etcd behind it."""


@contextmanager
def targets(names: Sequence[str], versions: Sequence[str] = ("",)) -> Iterator[list[Target]]:
    """The named systems, started; zketcd and raw etcd each have an etcd of their own.

    Of several `versions` of etcd, zketcd and raw etcd are started on each, and named after it.
    """
    with ExitStack() as stack:
        started = []
        for system, version in ((n, v) for n in names for v in (versions if n != "zookeeper" else ("",))):
            name = system
            if len(versions) > 1 and version:
                name = f"etcd {version}" if system == "etcd" else f"{system} on etcd {version}"
            if system == "zookeeper":
                # The JVM's default heap: the harness's small one is for tests.
                server = stack.enter_context(ZooKeeperServer(max_client_connections=0, java_options=()))
                started.append(Target(name, "zookeeper", server.port, {"server": server.pid}, None))
                continue
            etcd = stack.enter_context(EtcdServer(*ETCD_OPTIONS, version=version))
            if system == "etcd":
                started.append(Target(name, "etcd", etcd.port, {"server": etcd.pid}, etcd.endpoint))
            else:
                proxy = stack.enter_context(ZketcdServer(etcd.endpoint, max_client_connections=0))
                processes = {"server": proxy.pid, "etcd": etcd.pid}
                started.append(Target(name, "zookeeper", proxy.port, processes, etcd.endpoint))
        yield started
