"""From results to figures. Pure: what is drawn depends on the arguments alone."""

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from bench.plots.style import COLOURS, GREY, MARKERS, NAMES, PALETTE, legend, panels
from bench.report import Medians
from bench.scenarios import Table

KEPT_UP = 0.9
"""Share of the offered requests from which on a server counts as one that kept up with them."""

ALONE = (1, 1)
"""Connections and depth of one client with one request at a time."""

COUNTERS = {
    "etcd_txn": "etcd Txns",
    "etcd_put": "puts",
    "etcd_fsync": "fsyncs",
    "etcd_wal_bytes": "bytes in etcd's log",
}
"""Costs of an operation -> how an axis calls them."""

LEAST_SHOWN = {"etcd_wal_bytes": 10.0}
"""Where the log scale begins, below which there is only 0; otherwise at LEAST."""
LEAST = 1e-3

_DASHED = "--"

Figures = Mapping[str, float]


def speed(found: Medians) -> Figure:
    """All workloads at a glance: operations a second of many clients that pipeline, median latency of one."""
    crowded = busiest(found)
    figure, (left, right) = panels(2, 3.6, share_y=True)
    _dots(left, found, [(crowded, "full")], lambda figures: figures["rate"])
    _dots(right, found, [(ALONE, "full")], lambda figures: figures["p50_ms"])
    left.set_title(f"{crowded[0]} connections, {crowded[1]} requests in flight each")
    left.set_xlabel("operations a second")
    right.set_title("1 connection, 1 request at a time")
    right.set_xlabel("median latency, ms")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        _plain(axes.xaxis)
    legend(figure, left)
    return figure


def costs(found: Medians) -> Figure:
    """What an operation costs etcd, of those COUNTERS that the results have."""
    crowded = busiest(found)
    there = [name for name in COUNTERS if any(name in figures for figures in found.values() if figures)]
    behind_etcd = {key: figures for key, figures in found.items() if key[1] != "zookeeper"}
    figure, grid = panels(len(there), 3.8, share_y=True)
    for axes, name in zip(grid, there, strict=True):
        _dots(axes, behind_etcd, [(ALONE, "full"), (crowded, "none")], _figure(name))
        axes.set_xscale("symlog", linthresh=LEAST_SHOWN.get(name, LEAST), linscale=0.5)
        axes.set_xlim(left=0)
        axes.set_xlabel(f"{COUNTERS[name]} an operation")
        _plain(axes.xaxis)
        axes.tick_params(axis="x", labelsize="small")
    legend(figure, grid[0])
    return figure


def throughput(found: Medians) -> Figure:
    """Operations a second against connections, a panel for each workload."""
    closed = {key: figures for key, figures in found.items() if not key[0].offered}
    workloads = list(dict.fromkeys(cell.workload for cell, _ in closed))
    depths = sorted({cell.depth for cell, _ in closed}, reverse=True)
    figure, grid = panels(len(workloads), 3.4)
    for axes, workload in zip(grid, workloads, strict=True):
        for server in _servers(closed):
            for depth, look in zip(depths, ("-", _DASHED, ":", "-."), strict=False):
                points = sorted(
                    (cell.connections, figures["rate"])
                    for (cell, name), figures in closed.items()
                    if figures and (cell.workload, cell.depth, name) == (workload, depth, server)
                )
                _line(axes, points, server, look, f"{NAMES[server]}, {depth} in flight each")
        axes.set_title(workload)
        axes.set_xlabel("connections")
        _log_log(axes)
    grid[0].set_ylabel("operations a second")
    legend(figure, grid[0])
    return figure


def latency(found: Medians) -> Figure:
    """Latency against the rate at which requests come, as long as a server keeps up with it."""
    offered = {key: figures for key, figures in found.items() if key[0].offered}
    workloads = list(dict.fromkeys(cell.workload for cell, _ in offered))
    figure, grid = panels(len(workloads), 3.4)
    for axes, workload in zip(grid, workloads, strict=True):
        for server in _servers(offered):
            asked = sorted(
                (cell.offered, figures["rate"], figures["p50_ms"], figures["p99_ms"])
                for (cell, name), figures in offered.items()
                if figures and (cell.workload, name) == (workload, server)
            )
            borne = list(takewhile(lambda point: point[1] >= KEPT_UP * point[0], asked))
            _line(axes, [(rate, p50) for rate, _, p50, _ in borne], server, "-", f"{NAMES[server]}, median")
            _line(axes, [(rate, p99) for rate, _, _, p99 in borne], server, _DASHED, f"{NAMES[server]}, p99")
        axes.set_title(workload)
        axes.set_xlabel("requests offered a second")
        _log_log(axes)
    grid[0].set_ylabel("latency, ms")
    legend(figure, grid[0])
    return figure


def memory(table: Table) -> Figure:
    """Memory against the number of znodes, from the scenario's table."""
    what, znodes, megabytes = (table.head.index(name) for name in ("what", "znodes", "memory, MB"))
    figure, (axes,) = panels(1, 3.4)
    for look in LOOKS:
        points = [(float(row[znodes]), float(row[megabytes])) for row in table.rows if row[what] == look.what]
        _line(axes, points, look.server, look.dashes, look.label)
    axes.set_xlabel("znodes of 100 bytes")
    axes.set_ylabel("resident memory, MB")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    _plain(axes.xaxis)
    _plain(axes.yaxis)
    legend(figure, axes)
    return figure


def sidecars(table: Table) -> Figure:
    """Operations a second and p99 against the number of proxies; what ZooKeeper does, as level lines."""
    server, workload, rate, p99 = (
        table.head.index(name) for name in ("server", "workload", "op/s", "p99, ms")
    )
    figure, grid = panels(2, 3.8)
    counts = sorted({int(str(row[server]).split()[0]) for row in table.rows if row[server] != "ZooKeeper"})
    for axes, column in zip(grid, (rate, p99), strict=True):
        for name, colour, marker in zip(
            dict.fromkeys(str(row[workload]) for row in table.rows), PALETTE, "os^D", strict=False
        ):
            rows = [row for row in table.rows if row[workload] == name]
            points = sorted(
                (int(str(row[server]).split()[0]), float(row[column]))
                for row in rows
                if row[server] != "ZooKeeper"
            )
            axes.plot([x for x, _ in points], [y for _, y in points], color=colour, marker=marker, label=name)
            for row in rows:
                if row[server] == "ZooKeeper":
                    axes.axhline(float(row[column]), color=colour, linestyle=":", linewidth=1.0)
        axes.plot([], [], color=GREY, linestyle=":", linewidth=1.0, label="one ZooKeeper (dotted)")
        axes.set_xticks(counts)
        axes.set_xlabel("proxies")
        axes.set_ylim(bottom=0)
        _plain(axes.yaxis)
    grid[0].set_ylabel("operations a second")
    grid[1].set_ylabel("p99, ms")
    legend(figure, grid[0])
    return figure


class _Look(NamedTuple):
    what: str
    server: str
    dashes: str
    label: str


LOOKS = (
    _Look("zookeeper", "zookeeper", "-", "ZooKeeper's JVM"),
    _Look("zookeeper's live heap", "zookeeper", _DASHED, "of that, live heap"),
    _Look("zketcd", "zketcd", "-", "zketcd's proxy"),
    _Look("zketcd's etcd", "etcd", _DASHED, "its etcd"),
)
"""How `memory` shows what the scenario measured."""


def busiest(found: Medians) -> tuple[int, int]:
    """Connections and depth of the cells with the most in flight."""
    return max(((cell.connections, cell.depth) for cell, _ in found), key=lambda place: place[0] * place[1])


def _figure(name: str) -> Callable[[Figures], float]:
    return lambda figures: figures[name]


def _servers(found: Medians) -> list[str]:
    there = {server for _, server in found}
    return [server for server in NAMES if server in there]


def _line(axes: Axes, points: Sequence[tuple[float, float]], server: str, dashes: str, label: str) -> None:
    axes.plot(
        [x for x, _ in points],
        [y for _, y in points],
        dashes,
        color=COLOURS[server],
        marker=MARKERS[server],
        markerfacecolor=COLOURS[server] if dashes == "-" else "none",
        label=label,
    )


def _dots(
    axes: Axes,
    found: Medians,
    places: Sequence[tuple[tuple[int, int], str]],
    value: Callable[[Figures], float],
) -> None:
    """A dot for each workload (downwards), server and place (connections and depth), filled or not."""
    workloads = list(dict.fromkeys(cell.workload for cell, _ in found))
    for server in _servers(found):
        for (connections, depth), fill in places:
            points = [
                (value(figures), workloads.index(cell.workload))
                for (cell, name), figures in found.items()
                if figures and name == server and cell[1:] == (connections, depth, 0)
            ]
            axes.plot(
                [x for x, _ in points],
                [y for _, y in points],
                linestyle="none",
                color=COLOURS[server],
                marker=MARKERS[server],
                markerfacecolor=COLOURS[server] if fill == "full" else "none",
                label=NAMES[server] + (f", {connections} x {depth}" if len(places) > 1 else ""),
                clip_on=False,
            )
    axes.set_yticks(range(len(workloads)), workloads)
    axes.set_ylim(len(workloads) - 0.5, -0.5)


def _log_log(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    _plain(axes.xaxis)
    _plain(axes.yaxis)


def _plain(axis: object) -> None:
    """Ticks as 0.1, 10, 100k rather than as powers."""
    axis.set_major_formatter(FuncFormatter(tick))  # type: ignore[attr-defined]
    axis.set_minor_formatter(NullFormatter())  # type: ignore[attr-defined]


def tick(value: float, _position: int | None = None) -> str:
    """A number on an axis."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
