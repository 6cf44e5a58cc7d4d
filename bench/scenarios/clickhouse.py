"""Real ClickHouse servers that insert: two of them, replicas of each other, each beside a proxy of its own.

Small inserts into replicated tables are what ZooKeeper's users feel: each insert takes several round trips
of ClickHouse's one session. The wait for a request is what ClickHouse itself counts
(ZooKeeperWaitMicroseconds over ZooKeeperTransactions).

A cluster on ZooKeeper and one on zketcd live all the time and take turns, in an order that changes each
round: a machine that slows down under load slows both. ClickHouse's own CPU time an insert shows how much.
"""

import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import NamedTuple

from bench import costs
from bench.errors import EffectsDiffer
from bench.run import rotated
from bench.scenarios import Cell, Table
from bench.scenarios.many_servers import Servers
from bench.servers import ETCD_OPTIONS
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer, wait_until
from lab.servers.clickhouse import ClickHouseServer, replicas_at

TABLES = 6
WRITERS = 12
ROUNDS = 12
SECONDS = 10.0
ROWS = 10
_COUNTERS = ("ZooKeeperTransactions", "ZooKeeperWaitMicroseconds")
_WARM_UP = -1  # the round that is not counted


class Cluster(NamedTuple):
    """Two ClickHouse servers, and what serves them."""

    servers: Servers
    replicas: tuple[ClickHouseServer, ...]


class Figures(NamedTuple):
    """One round. Times in ms; CPU time an insert."""

    rate: float
    p50: float
    p99: float
    requests: float
    """An insert."""
    wait: float
    clickhouse: float
    proxies: float
    etcd: float


def run(scale: float) -> Table:
    """Twelve rounds of ten seconds for each cluster at scale 1; at a small scale fewer and shorter ones."""
    seconds = max(1.0, SECONDS * min(1.0, scale * 4))
    rounds = max(2, round(ROUNDS * min(1.0, scale)))
    with ExitStack() as stack:
        clusters = [
            Cluster(servers, stack.enter_context(_replicas(servers)))
            for servers in (stack.enter_context(_zookeeper()), stack.enter_context(_zketcd()))
        ]
        found: dict[str, list[Figures]] = {cluster.servers.label: [] for cluster in clusters}
        inserts = dict.fromkeys(found, 0)
        for turn in range(_WARM_UP, rounds):
            for cluster in rotated(clusters, turn):
                figures, acknowledged = _round(cluster, seconds, turn)
                inserts[cluster.servers.label] += acknowledged
                if turn != _WARM_UP:
                    found[cluster.servers.label].append(figures)
        for cluster in clusters:
            _check(cluster.replicas, inserts[cluster.servers.label])
    theirs, ours = found.values()
    shown = {name: Figures(*map(median, zip(*of, strict=True))) for name, of in found.items()}
    their, our = shown.values()
    ratios = [our.rate / their.rate for their, our in zip(theirs, ours, strict=True)]
    rows: list[list[Cell]] = [
        [name, of.rate, _range([each.rate for each in found[name]], 0), *of[1:]] for name, of in shown.items()
    ]
    beside: list[Cell] = [b / a if a else "" for a, b in zip(their[1:], our[1:], strict=True)]
    return Table(
        f"Two ClickHouse 18.16 servers, {WRITERS} writers of {ROWS} rows in {TABLES} replicated tables",
        [
            "server",
            "inserts/s",
            "of the rounds",
            "p50, ms",
            "p99, ms",
            "requests an insert",
            "wait for a request, ms",
            "CPU ms an insert: ClickHouse",
            "ZooKeeper or proxies",
            "etcd",
        ],
        [*rows, ["zketcd / ZooKeeper", our.rate / their.rate, _range(ratios, 2), *beside]],
    )


def _range(figures: list[float], digits: int) -> str:
    return f"{min(figures):.{digits}f} to {max(figures):.{digits}f}"


@contextmanager
def _zookeeper() -> Iterator[Servers]:
    with ZooKeeperServer(max_client_connections=0, java_options=()) as server:
        yield Servers("ZooKeeper", [server.port] * 2, [server.pid], [])


@contextmanager
def _zketcd() -> Iterator[Servers]:
    with EtcdServer(*ETCD_OPTIONS) as etcd, ExitStack() as stack:
        proxies = [
            stack.enter_context(ZketcdServer(etcd.endpoint, max_client_connections=0)) for _ in range(2)
        ]
        yield Servers("zketcd", [p.port for p in proxies], [p.pid for p in proxies], [etcd.pid])


@contextmanager
def _replicas(servers: Servers) -> Iterator[tuple[ClickHouseServer, ...]]:
    with replicas_at(*servers.ports, session_timeout_ms=30_000) as replicas:
        for table in range(TABLES):
            for replica in replicas:
                replica.query(
                    f"CREATE TABLE t{table} (day Date, writer UInt32, block UInt32, row UInt32)"
                    f" ENGINE = ReplicatedMergeTree('/clickhouse/tables/t{table}', '{replica.replica}')"
                    " PARTITION BY toYYYYMM(day) ORDER BY (writer, block, row)"
                )
        yield replicas


def _round(cluster: Cluster, seconds: float, turn: int) -> tuple[Figures, int]:
    """One turn of a cluster, and how many inserts were acknowledged."""
    servers, replicas = cluster

    def spent() -> list[float]:
        pids = [replica.pid for replica in replicas], servers.proxies, servers.etcd
        return [*map(costs.cpu_seconds, pids), *map(float, _counters(replicas))]

    before = spent()
    begun = time.perf_counter()
    times = sorted(_insert_for(replicas, seconds, first_writer=(turn + 1) * WRITERS))
    elapsed = time.perf_counter() - begun
    *cpu, requests, waited = (after - earlier for after, earlier in zip(spent(), before, strict=True))
    figures = Figures(
        len(times) / elapsed,
        times[len(times) // 2] * 1e3,
        times[int(len(times) * 0.99)] * 1e3,
        requests / len(times),
        waited / requests / 1e3,
        *(each / len(times) * 1e3 for each in cpu),
    )
    return figures, len(times)


def _insert_for(replicas: tuple[ClickHouseServer, ...], seconds: float, *, first_writer: int) -> list[float]:
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


def _counters(replicas: tuple[ClickHouseServer, ...]) -> list[int]:
    """The sums of ClickHouse's own counters of its ZooKeeper session."""
    found = dict.fromkeys(_COUNTERS, 0)
    for replica in replicas:
        names = ", ".join(f"'{name}'" for name in _COUNTERS)
        answer = replica.query(f"SELECT event, value FROM system.events WHERE event IN ({names})")
        for line in answer.splitlines():
            event, value = line.split("\t")
            found[event] += int(value)
    return list(found.values())


def _check(replicas: tuple[ClickHouseServer, ...], inserts: int) -> None:
    """Raises EffectsDiffer unless both replicas hold each acknowledged row once, soon."""
    tables = " UNION ALL ".join(f"SELECT writer, block, row FROM t{table}" for table in range(TABLES))
    query = f"SELECT count(), uniqExact(writer, block, row) FROM ({tables})"
    wanted = f"{inserts * ROWS}\t{inserts * ROWS}"
    for replica in replicas:
        try:
            wait_until(
                lambda replica=replica: replica.query(query) == wanted,  # type: ignore[misc]
                f"{replica.replica} holds all rows once",
                timeout=60,
                interval=0.5,
            )
        except TimeoutError:
            raise EffectsDiffer(f"{replica.replica}: rows {replica.query(query)}, not {wanted}") from None
