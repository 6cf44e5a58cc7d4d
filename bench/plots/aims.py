"""What was aimed at, beside what the committed results say was reached. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bench.etcd_load import APPEND
from bench.plots.figures import ALONE, busiest
from bench.plots.results import Found
from bench.report import Medians, all_medians
from bench.workloads import Cell

MISSING = "not measured yet"


class Aim(NamedTuple):
    """One row."""

    what: str
    aim: str
    reached: Callable[[Found], str]
    """Raises LookupError where the results do not have it."""


def table(found: Found) -> str:
    """All aims, in Markdown."""
    lines = ["| what | aim | reached |", "|---|---|---|"]
    for what, aim, reached in AIMS:
        try:
            text = reached(found)
        except LookupError:
            text = MISSING
        lines.append(f"| {what} | {aim} | {text} |")
    return "\n".join(lines)


def _medians(found: Found) -> Medians:
    if found.reference is None:
        raise LookupError
    return all_medians(found.reference.results)


def _figure(medians: Medians, workload: str, place: tuple[int, int], server: str, name: str) -> float:
    figures = medians[Cell(workload, *place), server]
    if not figures:
        raise LookupError
    return figures[name]


def _ratios(workloads: Sequence[str], *, alone: bool, name: str = "rate") -> Callable[[Found], str]:
    """zketcd's figures to ZooKeeper's."""

    def reached(found: Found) -> str:
        medians = _medians(found)
        place = ALONE if alone else busiest(medians)
        return _named(
            (
                workload,
                _figure(medians, workload, place, "zketcd", name)
                / _figure(medians, workload, place, "zookeeper", name),
            )
            for workload in workloads
        )

    return reached


def _beside_an_append(found: Found) -> str:
    medians = _medians(found)
    theirs = _figure(medians, APPEND, ALONE, "etcd", "p50_ms")
    return _named(
        (workload, _figure(medians, workload, ALONE, "zketcd", "p50_ms") / theirs)
        for workload in ("create", "sequential", "set", "delete", "multi")
    )


def _cell(found: Found, scenario: str, column: str, *row: str | int) -> float:
    """The figure in a column, in the first row that begins with these cells."""
    head, rows = found.scenarios[scenario].table[1:]
    if column not in head:
        raise LookupError
    for cells in rows:
        if tuple(cells[: len(row)]) == row:
            return float(cells[head.index(column)])
    raise LookupError


def _watched(found: Found) -> str:
    ours, theirs = (_cell(found, "watched", "op/s", server) for server in ("zketcd", "zookeeper"))
    return f"{ours / theirs:.2f}"


_MULTI = "multi on one table"
_SEQUENTIAL = "sequential creates in one directory"
_CREATE = "creates in directories of their own"


def _one_proxy(found: Found) -> str:
    return _named(
        (
            what,
            _cell(found, "sidecars", "op/s", "1 proxy", workload)
            / _cell(found, "sidecars", "op/s", "ZooKeeper", workload),
        )
        for what, workload in (("create", _CREATE), ("sequential", _SEQUENTIAL), ("multi", _MULTI))
    )


def _four_proxies(found: Found) -> str:
    return _named(
        (
            what,
            _cell(found, "sidecars", "op/s", "4 proxies", workload)
            / _cell(found, "sidecars", "op/s", "1 proxy", workload),
        )
        for what, workload in (("sequential", _SEQUENTIAL), ("multi", _MULTI))
    )


def _many_proxies(found: Found) -> str:
    parts = []
    for count in ("8 proxies", "16 proxies"):
        rows = [(count, workload) for workload in (_MULTI, _SEQUENTIAL, _CREATE)]
        spread = max(_cell(found, "sidecars", "p99 / p50", *row) for row in rows)
        longest = max(_cell(found, "sidecars", "longest, ms", *row) for row in rows)
        multis = _cell(found, "sidecars", "op/s", count, _MULTI)
        parts.append(f"{count}: {spread:.1f} x, {longest:.0f} ms, {multis:,.0f} multis/s")
    return "; ".join(parts)


def _mix(found: Found) -> str:
    scenario = found.scenarios["session-mix"].table
    column = scenario.head.index("zketcd / ZooKeeper")
    ratios = [float(row[column]) for row in scenario.rows]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def _clickhouse(found: Found) -> str:
    row = "zketcd / ZooKeeper"
    inserts = _cell(found, "clickhouse", "inserts/s", row)
    return f"{inserts:.2f}, {_cell(found, 'clickhouse', 'wait for a request, ms', row):.2f}"


def _idle(found: Found) -> str:
    theirs, ours, etcds = (
        _cell(found, "idle", "CPU, % of a core", name) for name in ("zookeeper", "zketcd", "zketcd's etcd")
    )
    return f"{(ours + etcds) / theirs:.2f}"


def _memory(found: Found) -> str:
    rows = found.scenarios["memory"].table.rows
    count = max(int(row[1]) for row in rows)
    jvm = _cell(found, "memory", "memory, MB", "zookeeper", count)
    ours = _cell(found, "memory", "memory, MB", "zketcd", count)
    etcds = _cell(found, "memory", "memory, MB", "etcd, with snapshots", count)
    file = _cell(found, "memory", "etcd's file, MB", "etcd, with snapshots", count)
    start = [_cell(found, "memory", "start, s", name, count) for name in ("zketcd", "zookeeper")]
    memory = f"{ours + etcds:,.0f} MB to {jvm:,.0f}; etcd's file {file:,.0f} MB"
    return f"{memory}; start {start[0]:.1f} s to {start[1]:.1f}"


def _snapshots(found: Found) -> str:
    quiet, busy = "no snapshot", "a snapshot is written"
    rate = _cell(found, "snapshots", "op/s", busy) / _cell(found, "snapshots", "op/s", quiet)
    waits = [_cell(found, "snapshots", "its longest wait, ms", row) for row in (quiet, busy)]
    return f"{rate:.2f}; a lone reader waited at most {waits[1]:.0f} ms, without a snapshot {waits[0]:.0f}"


def _delay(found: Found) -> str:
    near = _cell(found, "delay", "op/s 64 x 32", 0)
    parts = []
    for delay in (5, 20):
        trips = _cell(found, "delay", "p50 ms 1 x 1", delay) / delay
        kept = _cell(found, "delay", "op/s 64 x 32", delay) / near
        parts.append(f"{delay} ms: {trips:.2f} round trips, {kept:.2f}")
    return "; ".join(parts)


def _named(parts: Iterable[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in parts)


AIMS = (
    Aim(
        "pipelined writes, 64 connections x 32",
        ">= 1.5",
        _ratios(("create", "set", "delete", "sequential"), alone=False),
    ),
    Aim("ClickHouse's multi, 64 x 32", ">= 1.2, better 1.5", _ratios(("multi",), alone=False)),
    Aim("reads, 64 x 32", ">= 6", _ratios(("get", "exists", "children"), alone=False)),
    Aim(
        "reads one at a time, p50",
        "<= 0.5",
        _ratios(("get", "exists", "children"), alone=True, name="p50_ms"),
    ),
    Aim("nine reads to a setData, 10,000 watches set", ">= 2", _watched),
    Aim("one write at a time: p50 to that of a raw etcd Txn with one put", "<= 1.1", _beside_an_append),
    Aim("16 clients, one write at a time, 1 proxy", ">= 0.8", _one_proxy),
    Aim("one session with 32 in flight, writes and reads mixed", ">= 1", _mix),
    Aim(
        "real ClickHouse 18.16: inserts a second; wait for a request",
        ">= 0.9; <= 1.3 (lower is better)",
        _clickhouse,
    ),
    Aim("4 proxies to 1 proxy, shared directories", ">= 0.8", _four_proxies),
    Aim("8 and 16 proxies: p99 / p50, longest wait", "<= 8, < 500 ms", _many_proxies),
    Aim("5,000 idle sessions: CPU of proxy and etcd", "<= 0.5", _idle),
    Aim(
        "a million znodes: resident memory of proxy and etcd to the JVM's; etcd's file; start",
        "<= the JVM's; <= 250 MB; <= ZooKeeper's",
        _memory,
    ),
    Aim("snapshot of a million znodes under load: throughput; longest pause", ">= 0.8; <= 20 ms", _snapshots),
    Aim(
        "etcd 5 and 20 ms away: p50 of a write by itself; throughput kept",
        "<= 1.3 round trips; >= 0.8",
        _delay,
    ),
)
