"""How all figures look, and their SVG, of which the same figure gives the same bytes each time."""

import io
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.typing import RcKeyType

# Middle tones, which stand out from a white page and from a dark one.
COLOURS = {"zookeeper": "#d1602a", "zketcd": "#2f86d6", "etcd": "#2b8a5e"}
NAMES = {"zookeeper": "ZooKeeper", "zketcd": "zketcd", "etcd": "raw etcd"}
MARKERS = {"zookeeper": "o", "zketcd": "s", "etcd": "^"}
PALETTE = (COLOURS["zketcd"], COLOURS["zookeeper"], COLOURS["etcd"], "#8a5fbf")
"""Where lines are workloads, not servers."""
GREY = "#7a7a7a"

WIDTH_INCHES = 9.0

STYLE: dict[RcKeyType, Any] = {
    "svg.hashsalt": "zketcd",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",  # matplotlib brings it along: the layout is the same everywhere
    "font.size": 9.0,
    "text.color": GREY,
    "axes.labelcolor": GREY,
    "axes.edgecolor": GREY,
    "axes.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GREY,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "legend.frameon": False,
}


def panels(count: int, height_inches: float, *, share_y: bool = False) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels side by side."""
    figure = Figure(figsize=(WIDTH_INCHES, height_inches), layout="constrained")
    grid = figure.subplots(1, count, squeeze=False, sharey=share_y)
    return figure, list(grid[0])


def legend(figure: Figure, axes: Axes) -> None:
    """One legend for all panels, which show the same lines, below them: as wide as the figure at most."""
    handles, labels = axes.get_legend_handles_labels()
    for columns in range(min(4, len(labels)), 0, -1):
        made = figure.legend(handles, labels, loc="outside lower center", ncols=columns)
        figure.draw_without_rendering()
        if columns == 1 or made.get_window_extent().width <= figure.bbox.width:
            return
        made.remove()


def svg(draw: Callable[[], Figure]) -> str:
    """The SVG of what is drawn, in our style."""
    page = io.StringIO()
    with mpl.rc_context(STYLE):
        # No date and no version: the file changes only if the figure does.
        draw().savefig(page, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return page.getvalue()
