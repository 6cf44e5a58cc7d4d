"""A snapshot of a large tree while clients write: throughput, and how long a lone reader waits.

The same load runs twice: without a snapshot, and while `zketcd snapshot` writes one. A second
process reads one node, one request at a time, and remembers its longest wait: a server that pauses shows it
there. On few cores the load itself makes readers wait, so the run without a snapshot is the measure.
"""

import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing.connection import Connection as Pipe

from bench import costs, summary, wire
from bench.load import Admin, Timing, connected, drive
from bench.scenarios import Cell, Table
from bench.scenarios.memory import TIMEOUT_S, nodes, write_snapshot
from bench.servers import ETCD_OPTIONS
from bench.streams import RepeatedStream
from bench.workloads import DATA, DATA_REPLY, Mixed, prepare
from lab.servers import EtcdServer, ZketcdServer

ZNODES = 1_000_000
CONNECTIONS = 16
DEPTH = 4
SECONDS = 5.0
"""How long the load runs at least; a snapshot may take longer, then the load lasts until its end."""
READER_NODE = b"/reader"
MANY = (1 << 31) - 1


def run(scale: float) -> Table:
    """A million znodes at scale 1."""
    count = max(1000, round(ZNODES * scale))
    seconds = max(0.5, SECONDS * scale)
    rows: list[list[Cell]] = []
    with (
        EtcdServer(*ETCD_OPTIONS) as etcd,
        ZketcdServer(
            etcd.endpoint,
            max_client_connections=0,
            start_timeout=TIMEOUT_S,
            snapshot_log_bytes=MANY,  # none but the one that is asked for
            snapshot_log_requests=MANY,
        ) as zketcd,
    ):
        with Admin(zketcd.port) as admin:
            admin.call_many(nodes(count))
            admin.call(wire.CREATE, wire.create_body(READER_NODE, DATA))
            admin.close_session()
        for number, label in enumerate(("no snapshot", "a snapshot is written")):
            endpoint = etcd.endpoint if number else None
            rows.append([label, *_measure(zketcd, number, seconds, endpoint)])
    return Table(
        f"A snapshot of {count:,} znodes under load ({CONNECTIONS} connections x {DEPTH}, 10 % setData)",
        [
            "what",
            "op/s",
            "p50, ms",
            "p99, ms",
            "a lone reader's p99, ms",
            "its longest wait, ms",
            "snapshot, s",
            "cores of the proxy",
        ],
        rows,
    )


def _measure(server: ZketcdServer, number: int, seconds: float, endpoint: str | None) -> list[Cell]:
    """One run; with the endpoint of an etcd, while a snapshot is written there, and at least as long."""
    workload = Mixed(b"/load-%d" % number, CONNECTIONS, 0)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with ExitStack() as stack:
        with Admin(server.port) as admin:
            prepare(workload, admin)
            admin.close_session()
        connections = stack.enter_context(
            connected(server.port, [workload.stream(i) for i in range(CONNECTIONS)])
        )
        reader = context.Process(target=_read, args=(server.port, theirs), daemon=True)
        reader.start()
        ours.recv()  # it reads now
        before = costs.cpu_seconds([server.pid])
        begun = time.perf_counter()
        with ThreadPoolExecutor(1) as pool:
            snapshot = None if endpoint is None else pool.submit(_timed, endpoint)
            timings = [drive(connections, DEPTH, seconds)]
            while snapshot is not None and not snapshot.done():
                timings.append(drive(connections, DEPTH, 0.5))
        took = "" if snapshot is None else snapshot.result()
        cores = (costs.cpu_seconds([server.pid]) - before) / (time.perf_counter() - begun)
        ours.send("enough")
        p99, longest = ours.recv()
        reader.join()
        with Admin(server.port) as admin:  # another one: that session would have ended during a long snapshot
            workload.verify(admin, [connection.answered for connection in connections])
            admin.close_session()
    return [*_figures(timings), p99 / 1e6, longest / 1e6, took, cores]


def _figures(timings: Sequence[Timing]) -> list[float]:
    """Requests a second, and p50 and p99 in ms."""
    # The counts continue from one drive to the next, the samples are each the whole too: the last has all.
    rate = sum(timings[-1].counts) / sum(timing.seconds for timing in timings)
    p50, p99 = summary.percentiles(timings[-1].samples, (0.5, 0.99))
    return [rate, p50 / 1e6, p99 / 1e6]


def _timed(endpoint: str) -> float:
    """How many seconds a snapshot takes. Raises BenchError."""
    begun = time.perf_counter()
    write_snapshot(endpoint)
    return time.perf_counter() - begun


def _read(port: int, pipe: Pipe) -> None:
    """Read one node, one request at a time, until asked to end; send p99 and the longest wait in ns."""
    requests = [wire.packet(xid, wire.GET_DATA, wire.read_body(READER_NODE)) for xid in range(1, 257)]
    with connected(port, [RepeatedStream(requests, (DATA_REPLY,))]) as connections:
        pipe.send("reading")
        timing = drive(connections, 1, 0.2)
        while not pipe.poll():
            timing = drive(connections, 1, 0.2)
    p99, longest = summary.percentiles(timing.samples, (0.99, 1.0))
    pipe.send((p99, longest))
