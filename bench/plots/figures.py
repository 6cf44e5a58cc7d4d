"""The curves as SVG: throughput by connections, latency by load. The same results give the same bytes."""

import io
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.typing import RcKeyType

from bench.plots.results import Run
from bench.report import Medians, all_medians

KEPT_UP = 0.9
"""Share of the offered requests from which on a server counts as one that kept up with them."""

# Middle tones, which stand out from a white page and from a dark one.
_COLOURS = {"zookeeper": "#d1602a", "zketcd": "#2f86d6"}
_NAMES = {"zookeeper": "ZooKeeper", "zketcd": "zketcd"}
_GREY = "#7a7a7a"
_STYLE: dict[RcKeyType, Any] = {
    "svg.hashsalt": "zketcd",
    "svg.fonttype": "none",
    "font.size": 9.0,
    "text.color": _GREY,
    "axes.labelcolor": _GREY,
    "axes.edgecolor": _GREY,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "xtick.color": _GREY,
    "ytick.color": _GREY,
}

Points = Sequence[tuple[float, float]]


def drawn(curves: Run | None) -> dict[str, str]:
    """Name -> SVG of each figure; nothing without results."""
    if curves is None:
        return {}
    medians = all_medians(curves.results)
    with mpl.rc_context(_STYLE):
        return {"throughput": _svg(_throughput(medians)), "latency": _svg(_latency(medians))}


def _throughput(found: Medians) -> Figure:
    figure, panels = _panels([cell.workload for cell, _ in found if not cell.offered])
    for workload, axes in panels.items():
        for server in _NAMES:
            for depth, dashes in ((32, "-"), (1, "--")):
                points = sorted(
                    (cell.connections, figures["rate"])
                    for (cell, name), figures in found.items()
                    if figures
                    and (cell.workload, cell.depth, cell.offered, name) == (workload, depth, 0, server)
                )
                _line(axes, points, server, dashes, f"{depth} in flight each")
        axes.set(xlabel="connections", ylabel="operations a second")
    return figure


def _latency(found: Medians) -> Figure:
    """As long as a server keeps up with the rate at which requests come."""
    figure, panels = _panels([cell.workload for cell, _ in found if cell.offered])
    for workload, axes in panels.items():
        for server in _NAMES:
            asked = sorted(
                (cell.offered, figures["rate"], figures["p50_ms"], figures["p99_ms"])
                for (cell, name), figures in found.items()
                if figures and cell.offered and (cell.workload, name) == (workload, server)
            )
            borne = list(takewhile(lambda point: point[1] >= KEPT_UP * point[0], asked))
            _line(axes, [(rate, p50) for rate, _, p50, _ in borne], server, "-", "median")
            _line(axes, [(rate, p99) for rate, _, _, p99 in borne], server, "--", "p99")
        axes.set(xlabel="requests offered a second", ylabel="latency, ms")
    return figure


def _panels(workloads: Sequence[str]) -> tuple[Figure, dict[str, Axes]]:
    """A figure with a panel for each workload, on logarithmic scales."""
    names = list(dict.fromkeys(workloads))
    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    panels = dict(zip(names, figure.subplots(1, len(names), squeeze=False)[0], strict=True))
    for name, axes in panels.items():
        axes.set(title=name, xscale="log", yscale="log")
    return figure, panels


def _line(axes: Axes, points: Points, server: str, dashes: str, what: str) -> None:
    x, y = [x for x, _ in points], [y for _, y in points]
    axes.plot(x, y, dashes, color=_COLOURS[server], marker="o", label=f"{_NAMES[server]}, {what}")


def _svg(figure: Figure) -> str:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    page = io.StringIO()
    # No date and no version: the file changes only if the figure does.
    figure.savefig(page, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return page.getvalue()
