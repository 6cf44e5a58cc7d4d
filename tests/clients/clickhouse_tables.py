"""Replicated tables of ClickHouse, and writers that know which of their blocks have to be in them."""

import http.client
import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from difflib import unified_diff
from typing import NamedTuple

from kazoo.client import KazooClient

from lab.servers import wait_until
from lab.servers.clickhouse import CLUSTER, ClickHouseServer, QueryRefused

Replicas = tuple[ClickHouseServer, ClickHouseServer]

# Waits for the replicas to do their part of an ALTER, OPTIMIZE or DROP.
ON_ALL = "2"

_tables = itertools.count(1)


def create_table(replica: ClickHouseServer, name: str, settings: str = "") -> None:
    """CREATE TABLE on both replicas by one ON CLUSTER query; raises QueryRefused if one of them fails.

    `settings`: of the table, e.g. "a = 1, b = 2".
    """
    answer = replica.query(
        f"CREATE TABLE {name} ON CLUSTER {CLUSTER} (day Date, writer UInt32, block UInt32, row UInt32)"
        f" ENGINE = ReplicatedMergeTree('/clickhouse/tables/{{shard}}/{name}-{next(_tables)}', '{{replica}}')"
        " PARTITION BY toYYYYMM(day) ORDER BY (writer, block)" + (f" SETTINGS {settings}" if settings else "")
    )
    statuses = [line.split("\t")[2] for line in answer.splitlines()]
    assert statuses == ["0", "0"], answer


def insert(replica: ClickHouseServer, rows: str, **settings: object) -> None:
    replica.query("INSERT INTO t VALUES", rows, **settings)


def try_insert(replica: ClickHouseServer, rows: str) -> bool:
    """Insert, and tell whether it was acknowledged. A refused block may be stored nevertheless."""
    try:
        insert(replica, rows)
    except (QueryRefused, OSError, http.client.HTTPException):
        return False
    return True


def wait_for_rows(replicas: Replicas, query: str, expected: str, timeout: float = 60.0) -> None:
    """Wait until both replicas answer `query` with `expected`, and say how they differ if they do not."""
    for replica in replicas:
        try:
            wait_until(
                lambda replica=replica: replica.query(query) == expected,  # type: ignore[misc]
                f"{replica.replica} has all rows",
                timeout,
                interval=0.1,
            )
        except TimeoutError as late:
            late.add_note(
                "\n".join(unified_diff(expected.splitlines(), replica.query(query).splitlines(), n=1))
            )
            raise


def leader_of(replicas: Replicas) -> ClickHouseServer:
    """Wait until one of them leads the table `t`, and return it."""

    def leading() -> list[ClickHouseServer]:
        leads = "SELECT is_leader FROM system.replicas WHERE table = 't'"
        return [replica for replica in replicas if replica.query(leads) == "1"]

    return wait_until(leading, "one of them leads")[0]


def path_of_table(replica: ClickHouseServer) -> str:
    """Where the table `t` is in ZooKeeper."""
    return replica.query("SELECT zookeeper_path FROM system.replicas WHERE table = 't'")


class LogEntry(NamedTuple):
    """An entry in the log of a replicated table, as 18.16 writes it."""

    created: str
    source: str
    """The replica that has appended it; empty for clear_column."""
    kind: str


def log_of_table(client: KazooClient, path: str) -> list[LogEntry]:
    """All entries of the table at `path`, in order."""
    entries = []
    for name in sorted(client.get_children(f"{path}/log")):
        _, created, source, _, kind, *_ = client.get(f"{path}/log/{name}")[0].decode().splitlines()
        entries.append(
            LogEntry(created.removeprefix("create_time: "), source.removeprefix("source replica: "), kind)
        )
    return entries


class Writer:
    """Inserts numbered blocks on one replica, each until it is acknowledged."""

    def __init__(self, number: int, replica: ClickHouseServer) -> None:
        self.number = number
        #: How many were acknowledged.
        self.blocks = 0
        #: Seconds from the first try to the acknowledgement.
        self.longest_wait = 0.0
        self.ended = threading.Event()
        #: The test has failed: the block that is on its way is not waited for.
        self.given_up = False
        self._replica = replica

    def run(self) -> None:
        """Insert until `ended` is set; the block that is on its way then is finished."""
        while not self.ended.wait(0.1):  # each part costs both servers a merge
            self.write(1)

    def write(self, blocks: int) -> None:
        """Insert so many."""
        for _ in range(blocks):
            begun = time.monotonic()
            self.send(self.blocks)
            self.longest_wait = max(self.longest_wait, time.monotonic() - begun)
            self.blocks += 1

    def send(self, block: int) -> None:
        """Insert a block. ClickHouse knows one that it has by a node in ZooKeeper, and stores it once."""
        rows = f"('2020-01-01', {self.number}, {block}, 1)"
        wait_until(lambda: self.given_up or try_insert(self._replica, rows), "a block is taken", 90)


@contextmanager
def writing(writers: Sequence[Writer]) -> Iterator[None]:
    """Let all of them insert meanwhile."""
    with ThreadPoolExecutor(len(writers)) as threads:
        futures = [threads.submit(writer.run) for writer in writers]
        try:
            yield
        except BaseException:
            for writer in writers:
                writer.given_up = True
            raise
        finally:
            for writer in writers:
                writer.ended.set()
        for future in futures:
            future.result()


def wait_for_progress(writers: Sequence[Writer]) -> None:
    """Wait until each has had a few more blocks acknowledged."""
    goals = [(writer, writer.blocks + 5) for writer in writers]
    wait_until(lambda: all(w.blocks >= goal for w, goal in goals), "all writers go on", 90)


def check(writers: Sequence[Writer], replicas: Replicas) -> None:
    """Wait until both replicas have every block that was acknowledged, once, and nothing else."""
    wait_for_rows(
        replicas,
        "SELECT writer, block, count() FROM t GROUP BY writer, block ORDER BY writer, block",
        "\n".join(f"{w.number}\t{block}\t1" for w in writers for block in range(w.blocks)),
    )
