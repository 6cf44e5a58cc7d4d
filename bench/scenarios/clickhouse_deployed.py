"""ClickHouse as users deploy it, on three hosts: servers beside the proxies at two of them, then at all.

The hosts are those of `deployed`: three ZooKeepers, or three members of etcd with proxies that append each
for itself, or together. All systems live all the time and take turns.

ClickHouse 18.16 has no zero-copy replication: examples.zero_copy does what newer releases do, without
ClickHouse.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import NamedTuple

import uvloop

from bench import costs, summary
from bench.errors import BenchError
from bench.run import rotated
from bench.scenarios import Cell, Table
from bench.scenarios.deployed import CHOOSING, three_hosts
from bench.scenarios.many_inserts import ROWS, TABLES, Figures, check, create_tables, insert_for
from bench.scenarios.many_servers import Servers
from codec.client import create
from examples.tree import delete_tree
from examples.zero_copy.host import Settings
from examples.zero_copy.run import Findings
from examples.zero_copy.run import run as run_zero_copy
from examples.zero_copy.storage import Violation
from examples.zero_copy.surroundings import Connecting, Surroundings
from lab.client.meter import Meter
from lab.client.session import Address, ConnectionLost, ZooKeeperError, connected
from lab.servers.clickhouse import ClickHouseServer

ROUND_TRIPS_MS = (0.5, 2.0)
SERVERS = (2, 3)
WRITERS = (1, 12, 48)
ROUNDS = 4
SECONDS = 2.0
SIMULATED = 16
"""Servers that share the data of their parts."""


class Size(NamedTuple):
    """How much is measured."""

    round_trips: Sequence[float]
    servers: Sequence[int]
    writers: Sequence[int]
    rounds: int
    seconds: float
    simulated: int
    choosing: float
    """Seconds until proxies that may append together have chosen."""


def _size(scale: float) -> Size:
    if scale <= 0.05:
        return Size(ROUND_TRIPS_MS[:1], (1,), WRITERS[:1], 1, 1.0, 2, 0.2)
    seconds, rounds = max(1.0, SECONDS * scale), max(2, round(ROUNDS * scale))
    return Size(ROUND_TRIPS_MS, SERVERS, WRITERS, rounds, seconds, SIMULATED, CHOOSING)


@dataclass
class Cluster:
    """A system, and the ClickHouse servers at it."""

    servers: Servers
    replicas: list[ClickHouseServer] = field(default_factory=list)
    inserts: int = 0
    """Acknowledged so far."""

    def grow(self, count: int, stack: ExitStack) -> None:
        """Start servers until there are so many; each gets all rows."""
        for port in self.servers.ports[len(self.replicas) : count]:
            name = f"replica-{len(self.replicas) + 1}"
            replica = ClickHouseServer(port, replica=name, session_timeout_ms=30_000)
            self.replicas.append(stack.enter_context(replica))
            create_tables(replica)
        self.check()

    def insert_for(self, turn: int, *, seconds: float, writers: int) -> Figures:
        """A round of inserts. In each turn the writers begin at another server."""
        figures, acknowledged = insert_for(seconds, self.servers, rotated(self.replicas, turn), writers)
        self.inserts += acknowledged
        return figures

    def check(self) -> None:
        """Raises EffectsDiffer unless each server holds each row once."""
        check(self.replicas, self.inserts)


def run(scale: float) -> Table:
    """Four rounds of two seconds a row at scale 1; at a small scale a round of some rows."""
    size = _size(scale)
    rows: list[list[Cell]] = []
    for round_trip in size.round_trips:
        with three_hosts(round_trip) as systems:
            rows += ([f"{round_trip:g}", *row] for row in _rows_at(systems, size))
    return Table(
        f"ClickHouse 18.16 on three hosts: writers of {ROWS} rows in {TABLES} replicated tables",
        [
            "round trip between hosts, ms",
            "ClickHouse servers",
            "writers",
            "server",
            "inserts/s",
            "/ ZooKeeper",
            "of the rounds",
            "p50, ms",
            "p99, ms",
            "requests an insert",
            "wait for a request, ms",
            "CPU ms an insert: ClickHouse",
            "ZooKeeper or proxies",
            "etcd",
        ],
        rows,
    )


def _rows_at(systems: Sequence[Servers], size: Size) -> Iterator[list[Cell]]:
    clusters = [Cluster(servers) for servers in systems]
    with ExitStack() as stack:
        for count in size.servers:
            for cluster in clusters:
                cluster.grow(count, stack)
                cluster.insert_for(0, seconds=size.seconds, writers=size.writers[-1])
            for writers in size.writers:
                for cluster in clusters:
                    if cluster.servers.admins:
                        cluster.insert_for(0, seconds=size.choosing, writers=writers)
                measured = partial(Cluster.insert_for, seconds=size.seconds, writers=writers)
                yield from _rows([count, writers], _rounds(clusters, size.rounds, measured))
        for cluster in clusters:
            cluster.check()
    simulated = partial(_zero_copy, seconds=size.seconds, hosts=size.simulated)
    for cluster in clusters:
        if cluster.servers.admins:
            _zero_copy(cluster, 0, seconds=size.choosing, hosts=size.simulated)
    found = _rounds(clusters, max(1, size.rounds // 2), simulated)
    yield from _rows([f"{size.simulated} simulated, zero-copy", size.simulated], found)


def _rounds(
    clusters: Sequence[Cluster], rounds: int, measured: Callable[[Cluster, int], Figures]
) -> dict[str, list[Figures]]:
    found: dict[str, list[Figures]] = {cluster.servers.label: [] for cluster in clusters}
    for turn in range(rounds):
        for cluster in rotated(clusters, turn):
            found[cluster.servers.label].append(measured(cluster, turn))
    return found


def _rows(load: list[Cell], found: dict[str, list[Figures]]) -> Iterator[list[Cell]]:
    """A row for each system, compared with ZooKeeper, which comes first."""
    theirs = next(iter(found.values()))
    for label, rounds in found.items():
        ratios = [our.rate / their.rate for their, our in zip(theirs, rounds, strict=True)]
        middle = Figures(*map(median, zip(*rounds, strict=True)))
        compared: list[Cell] = ["", ""]
        if rounds is not theirs:
            compared = [
                middle.rate / median(each.rate for each in theirs),
                f"{min(ratios):.2f} to {max(ratios):.2f}",
            ]
        yield [*load, label, middle.rate, *compared, *(figure or "" for figure in middle[1:])]


def _zero_copy(cluster: Cluster, _turn: int, *, seconds: float, hosts: int) -> Figures:
    """Simulated servers insert, fetch, merge and drop parts whose data they share. Raises BenchError."""
    servers = cluster.servers
    before = [costs.cpu_seconds(pids) for pids in (servers.proxies, servers.etcd)]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            found, requests = runner.run(_zero_copy_run(servers.ports, seconds, hosts))
        except (Violation, ConnectionLost, ZooKeeperError) as error:
            raise BenchError(f"zero-copy at {servers.label}: {error}") from error
    cpu = [costs.cpu_seconds(pids) for pids in (servers.proxies, servers.etcd)]
    p50, p99 = summary.percentiles(found.latencies["insert"].items(), (0.5, 0.99))  # microseconds
    return Figures(
        found.inserts / found.seconds,
        p50 / 1e3,
        p99 / 1e3,
        requests / found.inserts,
        0.0,
        0.0,
        *((after - earlier) / found.inserts * 1e3 for after, earlier in zip(cpu, before, strict=True)),
    )


async def _zero_copy_run(ports: Sequence[int], seconds: float, hosts: int) -> tuple[Findings, int]:
    """One run below a node of its own, and how many requests it sent."""
    addresses = [Address("127.0.0.1", port) for port in ports]
    root, meter = f"/zero_copy-{secrets.token_hex(4)}", Meter()
    async with connected(addresses, timeout_s=0.0) as session:
        await session.call(create(root))
    found = await run_zero_copy(
        Surroundings(addresses, root, meter),
        hosts=hosts,
        seconds=seconds,
        seed=1,
        settings=Settings(Connecting()),
    )
    async with connected(addresses) as session:
        await delete_tree(session, root)
    return found, meter.requests.total()
