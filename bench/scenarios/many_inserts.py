"""What the scenarios of ClickHouse have in common: replicated tables, writers that insert, and a last check.

The wait for a request is what ClickHouse itself counts (ZooKeeperWaitMicroseconds over
ZooKeeperTransactions).
"""

import itertools
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

from bench import costs
from bench.errors import EffectsDiffer
from bench.scenarios.many_servers import Servers
from lab.servers import wait_until
from lab.servers.clickhouse import ClickHouseServer

TABLES = 6
ROWS = 10
_COUNTERS = ("ZooKeeperTransactions", "ZooKeeperWaitMicroseconds")
_SETTLE_SECONDS = 1.5  # that fetches and merges get at most before another system's turn

_writers = itertools.count()  # in all rows: ClickHouse drops an insert that it has seen before


class Figures(NamedTuple):
    """One round. Times in ms; CPU time an insert, 0 where there is none."""

    rate: float
    p50: float
    p99: float
    requests: float
    """An insert."""
    wait: float
    clickhouse: float
    proxies: float
    etcd: float


def create_tables(*replicas: ClickHouseServer) -> None:
    """Make these servers replicas of all tables."""
    for table in range(TABLES):
        for replica in replicas:
            replica.query(
                f"CREATE TABLE t{table} (day Date, writer UInt32, block UInt32, row UInt32)"
                f" ENGINE = ReplicatedMergeTree('/clickhouse/tables/t{table}', '{replica.replica}')"
                " PARTITION BY toYYYYMM(day) ORDER BY (writer, block, row)"
                # Usually ClickHouse delays inserts from 150 unmerged parts on, and refuses them from 300 on.
                " SETTINGS parts_to_delay_insert = 10000, parts_to_throw_insert = 10000"
            )


def insert_for(
    seconds: float, servers: Servers, replicas: Sequence[ClickHouseServer], writers: int
) -> tuple[Figures, int]:
    """All writers insert, one insert at a time each; the figures, and how many inserts were acknowledged.

    The first writer is at the first server, and so on. What follows inserts, such as fetches, is in their CPU
    time.
    """

    def spent() -> list[float]:
        pids = [replica.pid for replica in replicas], servers.proxies, servers.etcd
        return [*map(float, _counters(replicas)), *map(costs.cpu_seconds, pids)]

    before = spent()
    begun = time.perf_counter()
    times = sorted(_times(replicas, seconds, writers))
    elapsed = time.perf_counter() - begun
    with suppress(TimeoutError):
        wait_until(
            lambda: not any(map(_queued, replicas)), "empty queues", timeout=_SETTLE_SECONDS, interval=0.1
        )
    requests, waited, *cpu = (after - earlier for after, earlier in zip(spent(), before, strict=True))
    figures = Figures(
        len(times) / elapsed,
        times[len(times) // 2] * 1e3,
        times[int(len(times) * 0.99)] * 1e3,
        requests / len(times),
        waited / requests / 1e3,
        *(each / len(times) * 1e3 for each in cpu),
    )
    return figures, len(times)


def check(replicas: Iterable[ClickHouseServer], inserts: int) -> None:
    """Raises EffectsDiffer unless each replica holds each acknowledged row once, soon."""
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


def _times(replicas: Sequence[ClickHouseServer], seconds: float, writers: int) -> list[float]:
    """The seconds that each insert took."""
    deadline = time.perf_counter() + seconds
    times: list[float] = []
    lock = threading.Lock()

    def write(number: int) -> None:
        replica = replicas[number % len(replicas)]
        writer = next(_writers)
        for block in itertools.count():
            begun = time.perf_counter()
            rows = "".join(f"2020-01-01\t{writer}\t{block}\t{row}\n" for row in range(ROWS))
            replica.query(f"INSERT INTO t{number % TABLES} FORMAT TabSeparated", rows)
            ended = time.perf_counter()
            with lock:
                times.append(ended - begun)
            if ended > deadline:  # so each writer inserts once at least, also on a busy machine
                return

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    return times


def _queued(replica: ClickHouseServer) -> int:
    """How many fetches and merges wait."""
    return int(replica.query("SELECT count() FROM system.replication_queue"))


def _counters(replicas: Iterable[ClickHouseServer]) -> list[int]:
    """The sums of ClickHouse's own counters of its ZooKeeper session."""
    found = dict.fromkeys(_COUNTERS, 0)
    names = ", ".join(f"'{name}'" for name in _COUNTERS)
    for replica in replicas:
        answer = replica.query(f"SELECT event, value FROM system.events WHERE event IN ({names})")
        for line in answer.splitlines():
            event, value = line.split("\t")
            found[event] += int(value)
    return list(found.values())
