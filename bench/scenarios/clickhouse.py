"""Real ClickHouse servers that insert: two of them, replicas of each other, each beside a proxy of its own.

Small inserts into replicated tables are what ZooKeeper's users feel: each insert takes several round trips
of ClickHouse's one session.

A cluster on ZooKeeper and one on zketcd live all the time and take turns, in an order that changes each
round: a machine that slows down under load slows both. ClickHouse's own CPU time an insert shows how much.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import NamedTuple

from bench.run import rotated
from bench.scenarios import Cell, Table
from bench.scenarios.many_inserts import ROWS, TABLES, Figures, check, create_tables, insert_for
from bench.scenarios.many_servers import Servers
from bench.servers import ETCD_OPTIONS
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer
from lab.servers.clickhouse import ClickHouseServer, replicas_at

WRITERS = 12
ROUNDS = 12
SECONDS = 10.0
_WARM_UP = -1  # the round that is not counted


class Cluster(NamedTuple):
    """Two ClickHouse servers, and what serves them."""

    servers: Servers
    replicas: tuple[ClickHouseServer, ...]


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
                figures, acknowledged = insert_for(seconds, *cluster, WRITERS)
                inserts[cluster.servers.label] += acknowledged
                if turn != _WARM_UP:
                    found[cluster.servers.label].append(figures)
        for cluster in clusters:
            check(cluster.replicas, inserts[cluster.servers.label])
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
        create_tables(*replicas)
        yield replicas
