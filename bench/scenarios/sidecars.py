"""A proxy beside every client, as a sidecar at every ClickHouse host: 1 to 16 proxies on one etcd.

Sixteen clients, each with one request in flight, share the proxies. Three workloads write what all share or
what is each client's own; the fourth hands locks round (see `bench.scenarios.locks`). ZooKeeper serves the
same clients.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial

from bench import summary
from bench.load import Timing
from bench.scenarios import Cell, Table
from bench.scenarios.locks import hand_round
from bench.scenarios.many_servers import Servers, charged, drive_all
from bench.servers import ETCD_OPTIONS
from bench.workloads import Create, Multi, SequentialCreate, Workload
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer

CLIENTS = 16
PROXIES = (1, 4, 8, 16)
SECONDS = 3.0
WARM_UP = 0.5
"""Length of the untimed run of each workload that comes first, as a share of the timed one's."""
WORKLOADS: dict[str, type[Workload]] = {
    "multi on one table": Multi,
    "sequential creates in one directory": SequentialCreate,
    "creates in directories of their own": Create,
}
LOCKS = "locks that change hands"


def run(scale: float) -> Table:
    """Three seconds a workload at scale 1; at a small scale with fewer proxies."""
    seconds = max(0.3, SECONDS * scale)
    rows: list[list[Cell]] = []
    for start in (_zookeeper, *(_proxies(count) for count in PROXIES if scale > 0.05 or count <= 4)):
        with start() as servers:
            rows += _measure(servers, seconds)
    return Table(
        f"{CLIENTS} clients with one request at a time, by the number of proxies that they share",
        [
            "server",
            "workload",
            "op/s",
            "p50, ms",
            "p99, ms",
            "longest, ms",
            "p99 / p50",
            "cores of the servers",
            "cores of etcd",
            "calculated: op/s with a core for each proxy",
        ],
        rows,
    )


@contextmanager
def _zookeeper() -> Iterator[Servers]:
    with ZooKeeperServer(max_client_connections=0, java_options=()) as server:
        yield Servers("ZooKeeper", [server.port], [server.pid], [])


def _proxies(count: int) -> Callable[[], AbstractContextManager[Servers]]:
    @contextmanager
    def start() -> Iterator[Servers]:
        with ExitStack() as stack:
            etcd = stack.enter_context(EtcdServer(*ETCD_OPTIONS))
            proxies = [
                stack.enter_context(ZketcdServer(etcd.endpoint, max_client_connections=0))
                for _ in range(count)
            ]
            label = f"{count} {'proxy' if count == 1 else 'proxies'}"
            yield Servers(label, [proxy.port for proxy in proxies], [p.pid for p in proxies], [etcd.pid])

    return start


def _measure(servers: Servers, seconds: float) -> list[list[Cell]]:
    # The JVM compiles what is hot only after some ten thousand calls.
    for number, kind in enumerate(WORKLOADS.values()):
        drive_all(servers.ports, kind(b"/warm-%d" % number, CLIENTS, 0), seconds * WARM_UP)
    rows: list[list[Cell]] = []
    for number, (name, kind) in enumerate(WORKLOADS.items()):
        workload = kind(b"/sidecars-%d" % number, CLIENTS, 0)
        rows.append(
            [servers.label, name, *_figures(servers, partial(drive_all, servers.ports, workload, seconds))]
        )
    locks = partial(hand_round, servers.ports, CLIENTS, seconds, b"/sidecars-locks")
    rows.append([servers.label, LOCKS, *_figures(servers, locks)])
    return rows


def _figures(servers: Servers, measured: Callable[[], Timing]) -> list[Cell]:
    """The figures of one run, with the cores that servers and etcd took.

    The last one is no measurement: the rate at which each proxy, at the CPU time that it took a request here,
    would fill one core. Every proxy applies every write, so it already counts what others write.
    """
    run = charged(servers, measured)
    seconds = run.timing.seconds
    p50, p99, longest = (v / 1e6 for v in summary.percentiles(run.timing.samples, (0.5, 0.99, 1.0)))
    rate = sum(run.timing.counts) / seconds
    cores = run.proxies / seconds
    full: Cell = rate * len(servers.proxies) / cores if servers.etcd else ""
    return [rate, p50, p99, longest, p99 / p50, cores, run.etcd / seconds, full]
