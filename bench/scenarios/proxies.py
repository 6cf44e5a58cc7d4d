"""Two proxies whose clients create in one directory at once, beside one proxy with all the clients."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from bench import summary, wire
from bench.load import Admin, Timing, connected, drive
from bench.scenarios import Table
from bench.servers import ETCD_OPTIONS
from bench.workloads import SequentialCreate, prepare
from tests.harness import EtcdServer, ZketcdServer

CONNECTIONS = 32
DEPTHS = (1, 32)
SECONDS = 2.0


def run(scale: float) -> Table:
    """Two seconds a run at scale 1; sequential nodes, all in one directory."""
    seconds = max(0.2, SECONDS * scale)
    rows: list[list[float | str | int]] = []
    with EtcdServer(*ETCD_OPTIONS) as etcd:
        for depth in DEPTHS:
            rows += ([depth, count, *_rate(etcd, count, depth, seconds)] for count in (1, 2))
    return Table(
        f"{CONNECTIONS} connections that create sequential nodes in one directory",
        ["depth", "proxies", "op/s", "p50, ms", "p99, ms", "p99 / p50"],
        rows,
    )


def _rate(etcd: EtcdServer, proxies: int, depth: int, seconds: float) -> list[float]:
    workload = SequentialCreate(b"/all", CONNECTIONS, 0)
    timings: list[Timing] = []
    with ExitStack() as stack:
        servers = [
            stack.enter_context(
                ZketcdServer(etcd.endpoint, max_client_connections=0, prefix=f"/p{proxies}-{depth}")
            )
            for _ in range(proxies)
        ]
        admin = stack.enter_context(Admin(servers[0].port))
        prepare(workload, admin)
        loads = [
            stack.enter_context(
                connected(server.port, [workload.stream(i) for i in range(CONNECTIONS // proxies)])
            )
            for server in servers
        ]
        with ThreadPoolExecutor(proxies) as pool:
            timings += pool.map(lambda load: drive(load, depth, seconds), loads)
        admin.call(wire.SYNC, wire.text(workload.root))  # what the other proxy has written last
        workload.verify(admin, [count for timing in timings for count in timing.counts])
    total = sum(sum(timing.counts) / timing.seconds for timing in timings)
    p50, p99 = summary.percentiles([sample for timing in timings for sample in timing.samples], (0.5, 0.99))
    return [total, p50 / 1e6, p99 / 1e6, p99 / p50]
