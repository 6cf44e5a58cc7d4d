"""Real ClickHouse servers that insert: two of them, replicas of each other, each beside a proxy of its own.

Small inserts into replicated tables are what ZooKeeper's users feel: each insert takes several round trips
of ClickHouse's one session. The wait for a request is what ClickHouse itself counts
(ZooKeeperWaitMicroseconds over ZooKeeperTransactions).
"""

import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from bench.errors import EffectsDiffer
from bench.scenarios import Cell, Table
from bench.servers import ETCD_OPTIONS
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer, wait_until
from lab.servers.clickhouse import ClickHouseServer

TABLES = 6
WRITERS = 12
SECONDS = 20.0
ROWS = 10
_COUNTERS = ("ZooKeeperTransactions", "ZooKeeperWaitMicroseconds")

Ports = tuple[int, int]


def run(scale: float) -> Table:
    """Twenty seconds a server at scale 1."""
    seconds = max(1.0, SECONDS * scale)
    rows: list[list[Cell]] = []
    for name, start in (("ZooKeeper", _zookeeper), ("zketcd", _zketcd)):
        with start() as ports:
            rows.append([name, *_measure(ports, seconds)])
    ratios: list[Cell] = [float(b) / float(a) for a, b in zip(rows[0][1:], rows[1][1:], strict=True)]
    return Table(
        f"Two ClickHouse 18.16 servers, {WRITERS} writers of {ROWS} rows in {TABLES} replicated tables",
        ["server", "inserts/s", "p50, ms", "p99, ms", "ZooKeeper requests/s", "wait for a request, ms"],
        [*rows, ["zketcd / ZooKeeper", *ratios]],
    )


@contextmanager
def _zookeeper() -> Iterator[Ports]:
    with ZooKeeperServer(max_client_connections=0, java_options=()) as server:
        yield server.port, server.port


@contextmanager
def _zketcd() -> Iterator[Ports]:
    with EtcdServer(*ETCD_OPTIONS) as etcd, ExitStack() as stack:
        first, second = (
            stack.enter_context(ZketcdServer(etcd.endpoint, max_client_connections=0)) for _ in range(2)
        )
        yield first.port, second.port


def _measure(ports: Ports, seconds: float) -> list[Cell]:
    with ExitStack() as stack:
        replicas = [
            ClickHouseServer(port, replica=f"replica-{number}", session_timeout_ms=30_000)
            for number, port in enumerate(ports, 1)
        ]
        for replica in replicas:
            replica.join(replicas)
        for replica in replicas:
            stack.callback(replica.close)
            replica.start()
        for table in range(TABLES):
            for replica in replicas:
                replica.query(
                    f"CREATE TABLE t{table} (day Date, writer UInt32, block UInt32, row UInt32)"
                    f" ENGINE = ReplicatedMergeTree('/clickhouse/tables/t{table}', '{replica.replica}')"
                    " PARTITION BY toYYYYMM(day) ORDER BY (writer, block, row)"
                )
        _insert_for(replicas, 1.0, first_writer=WRITERS)  # what is new is slow
        before = _counters(replicas)
        begun = time.perf_counter()
        times = sorted(_insert_for(replicas, seconds, first_writer=0))
        elapsed = time.perf_counter() - begun
        requests, waited = (
            after - earlier for after, earlier in zip(_counters(replicas), before, strict=True)
        )
        _check(replicas, len(times))
    return [
        len(times) / elapsed,
        times[len(times) // 2] * 1e3,
        times[int(len(times) * 0.99)] * 1e3,
        requests / elapsed,
        waited / requests / 1e3,
    ]


def _insert_for(replicas: list[ClickHouseServer], seconds: float, *, first_writer: int) -> list[float]:
    """All writers insert for so long, one insert at a time each; the seconds that each insert took."""
    deadline = time.perf_counter() + seconds
    times: list[float] = []
    lock = threading.Lock()

    def write(writer: int) -> None:
        replica = replicas[writer % len(replicas)]
        for block in itertools.count():
            begun = time.perf_counter()
            if begun > deadline:
                return
            rows = "".join(f"2020-01-01\t{first_writer + writer}\t{block}\t{row}\n" for row in range(ROWS))
            replica.query(f"INSERT INTO t{writer % TABLES} FORMAT TabSeparated", rows)
            with lock:
                times.append(time.perf_counter() - begun)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    return times


def _counters(replicas: list[ClickHouseServer]) -> list[int]:
    """The sums of ClickHouse's own counters of its ZooKeeper session."""
    found = dict.fromkeys(_COUNTERS, 0)
    for replica in replicas:
        names = ", ".join(f"'{name}'" for name in _COUNTERS)
        answer = replica.query(f"SELECT event, value FROM system.events WHERE event IN ({names})")
        for line in answer.splitlines():
            event, value = line.split("\t")
            found[event] += int(value)
    return list(found.values())


def _check(replicas: list[ClickHouseServer], inserts: int) -> None:
    """Raises EffectsDiffer unless both replicas hold each measured row once, soon."""
    total = " + ".join(f"(SELECT count() FROM t{table} WHERE writer < {WRITERS})" for table in range(TABLES))
    for replica in replicas:
        wanted = str(inserts * ROWS)
        try:
            wait_until(
                lambda replica=replica, wanted=wanted: replica.query(f"SELECT {total}") == wanted,  # type: ignore[misc]
                f"{replica.replica} holds all rows",
                timeout=60,
                interval=0.5,
            )
        except TimeoutError:
            found = replica.query(f"SELECT {total}")
            raise EffectsDiffer(f"{replica.replica} holds {found} rows, not {wanted}") from None
