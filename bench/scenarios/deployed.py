"""As users deploy it: three hosts, on each a ZooKeeper, or on each a member of etcd with a proxy.

The proxies append each for itself, or may do so together (--peer-listen), on another etcd: they choose the
quicker way, for which they have some seconds before each row.

Relays put the hosts apart: what one member sends to another, and a proxy to the other hosts' members, takes
half a round trip. Clients talk to the server on their own host. All systems run all the time and take turns,
so that a machine which slows down under load slows all; a single client moves to the next host each round.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median
from typing import Any, NamedTuple

from bench import summary
from bench.errors import EffectsDiffer
from bench.run import rotated
from bench.scenarios import Cell, Table
from bench.scenarios.many_servers import Servers, charged, drive_all
from bench.servers import ETCD_OPTIONS
from bench.workloads import Create, Get, Mixed, Multi, Workload
from lab.servers import ZketcdServer, free_port, wait_until
from lab.servers.clusters import Relay, running_cluster, running_ensemble
from lab.servers.operator import metric
from lab.servers.relay import Quality, Relays

ROUND_TRIPS_MS = (0.1, 0.5, 1.0, 2.0, 5.0)
ROUNDS = 6  # each host is the first twice
SECONDS = 1.0
CHOOSING = 15.0  # seconds until proxies that may append together have chosen
_ONE, _OTHER = "a host", "another host"


class Load(NamedTuple):
    """A row: what clients do."""

    label: str
    workload: type[Workload]
    clients: int
    depth: int = 1


LOADS = (
    *(Load("create, one at a time", Create, clients) for clients in (1, 4, 16, 64)),
    Load("create, pipelined", Create, 16, 32),
    Load("multi of ClickHouse, one at a time", Multi, 16),
    Load("mixed, one at a time", Mixed, 16),
    Load("get, one at a time", Get, 16),
    Load("get, pipelined", Get, 16, 32),
)


class Figures(NamedTuple):
    """One round of one system: requests a second, median latency (ms), CPU time a request (us)."""

    rate: float
    p50: float
    proxies: float
    etcd: float
    combined: float
    """Percent of the log's entries that shared a Txn."""


def run(scale: float) -> Table:
    """Six rounds of a second a row at scale 1, half an hour; at a small scale two of the first rows."""
    rows: list[list[Cell]] = []
    seconds = max(0.2, SECONDS * scale)
    rounds = max(2, round(ROUNDS * min(scale, 1)))
    for round_trip in ROUND_TRIPS_MS if scale > 0.05 else ROUND_TRIPS_MS[:1]:
        with three_hosts(round_trip) as systems:
            for number, load in enumerate(LOADS if scale > 0.05 else LOADS[:2]):
                found: dict[str, list[Figures]] = {servers.label: [] for servers in systems}
                for servers in systems:
                    chooses = servers.admins and load.workload is not Get and scale > 0.05
                    _measured(servers, load, CHOOSING if chooses else seconds, f"/{number}", 0)
                for turn in range(rounds):
                    for servers in rotated(systems, turn):
                        figures = _measured(servers, load, seconds, f"/{number}-{turn}", turn)
                        found[servers.label].append(figures)
                rows += _rows([f"{round_trip:g}", load.label, load.clients], found)
    return Table(
        "Three hosts: three ZooKeepers, or three members of etcd with a proxy beside each",
        [
            "round trip between hosts, ms",
            "requests",
            "clients",
            "server",
            "CPU us a request",
            "of this etcd",
            "% of the entries appended together",
            "op/s",
            "/ ZooKeeper",
            "of the rounds",
            "p50, ms",
        ],
        rows,
    )


def _rows(load: list[Cell], found: dict[str, list[Figures]]) -> Iterator[list[Cell]]:
    """A row for each system, beside ZooKeeper, which comes first."""
    theirs = next(iter(found.values()))
    for label, rounds in found.items():
        ratios = sorted(our.rate / their.rate for their, our in zip(theirs, rounds, strict=True))
        middle = Figures(*map(median, zip(*rounds, strict=True)))
        beside = [middle.rate / median(each.rate for each in theirs), f"{ratios[0]:.2f} to {ratios[-1]:.2f}"]
        is_first = rounds is theirs
        combined: Cell = "" if is_first else round(middle.combined)
        costs: list[Cell] = [middle.proxies + middle.etcd, middle.etcd or "", combined]
        yield [*load, label, *costs, middle.rate, *(("", "") if is_first else beside), middle.p50]


def _measured(servers: Servers, load: Load, seconds: float, root: str, turn: int) -> Figures:
    workload = load.workload(root.encode(), load.clients, 0)
    ports = rotated(servers.ports, turn)
    before = _entries(servers)
    try:
        ran = charged(servers, partial(drive_all, ports, workload, seconds, load.depth))
    except EffectsDiffer as error:
        raise EffectsDiffer(f"{servers.label}: {error}") from error
    combined, entries = (after - earlier for after, earlier in zip(_entries(servers), before, strict=True))
    answered = sum(ran.timing.counts)
    latency = summary.percentiles(ran.timing.samples, (0.5,))[0] / 1e6
    return Figures(
        answered / ran.timing.seconds,
        latency,
        ran.proxies / answered * 1e6,
        ran.etcd / answered * 1e6,
        100 * combined / max(1, entries),
    )


def _entries(servers: Servers) -> tuple[float, float]:
    """How many entries shared a Txn so far, and how many were applied."""
    if not servers.admins:
        return 0, 0
    combined = sum(metric(port, "zketcd_log_entries_combined_total") for port in servers.admins)
    return combined, metric(servers.admins[0], "zketcd_log_entries_applied_total")


@contextmanager
def three_hosts(round_trip_ms: float) -> Iterator[list[Servers]]:
    """ZooKeeper and zketcd, each on three hosts; the leader is on the first host.

    Together, the second host's proxy appends: the eldest is beside etcd's leader one time in three.
    """
    with ExitStack() as stack:
        relays = stack.enter_context(Relays(exact=True))
        far = Quality(latency=round_trip_ms / 2000)
        relays.change(dict.fromkeys(((_ONE, _OTHER), (_OTHER, _ONE)), far))
        away = partial(relays.listen, _ONE, _OTHER)
        ensemble = stack.enter_context(running_ensemble(relay=away, tick_time=2000, java_options=()))
        leading = wait_until(lambda: [server for server in ensemble if server.is_leader()], "a leader")
        ensemble = rotated(ensemble, ensemble.index(leading[0]))
        theirs = Servers("ZooKeeper", [s.port for s in ensemble], [s.pid for s in ensemble], [])
        yield [theirs, *(stack.enter_context(_zketcd(away, together=each)) for each in (False, True))]


@contextmanager
def _zketcd(away: Relay, *, together: bool) -> Iterator[Servers]:
    """Three members of etcd with a proxy beside each. `together`: one proxy may append for all."""
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster(*ETCD_OPTIONS, relay=away))
        proxies: list[ZketcdServer] = []
        admins: list[int] = []
        members = rotated(cluster.members, cluster.members.index(cluster.leader()) + 1)
        for member in members:
            others = [other for other in cluster.members if other is not member]
            endpoints = [member.endpoint, *(f"http://127.0.0.1:{away(other.port)}" for other in others)]
            options: dict[str, Any] = {}
            if together:
                port = free_port()
                options = {"peer_listen": f"127.0.0.1:{port}", "peer_advertise": f"127.0.0.1:{away(port)}"}
                admins.append(free_port())
                options["admin_listen"] = f"127.0.0.1:{admins[-1]}"
            proxy = ZketcdServer(",".join(endpoints), max_client_connections=0, **options)
            proxies.append(stack.enter_context(proxy))
        for proxy in proxies[1:] if together else ():
            wait_until(lambda: "appends for this one" in proxy.log_text(), proxy.name)  # noqa: B023
        yield Servers(
            "zketcd, together" if together else "zketcd",
            [proxy.port for proxy in rotated(proxies, -1)],
            [proxy.pid for proxy in proxies],
            [member.pid for member in members],
            admins,
        )
