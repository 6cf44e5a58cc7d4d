"""A report's answers as figures: SVG for a page, or one PNG. Only this module imports matplotlib."""

import io
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pipeline.traffic.report import Report, Row

_MAIN, _SECOND, _FAILED = "#2f86d6", "#8fbce8", "#d1602a"
_GREY = "#666666"
_WIDTH = 9.0  # inches
_BINS = 150
_BARS = 10
_LEAST_BARS = 3  # the least number of bars with room, so that a single bar is not too thick
_LABEL = 52  # characters of a path
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "zketcd",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "text.parse_math": False,  # a path may have dollar signs
    "text.color": "#222222",
    "axes.labelcolor": _GREY,
    "axes.edgecolor": "#bbbbbb",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e5e5e5",
    "xtick.color": _GREY,
    "ytick.color": _GREY,
    "legend.frameon": False,
}

Draw = Callable[[Axes], None]


class _Panel:
    def __init__(self, title: str, height: float, draw: Draw) -> None:
        self.title = title
        self.height = height  # inches
        self.draw = draw


def svgs(report: Report) -> dict[str, str]:
    """An SVG for each view that has something to show."""
    return {name: _svg(panel) for name, panel in _panels(report).items()}


def png(report: Report) -> bytes:
    """All figures, one below the other, as a PNG."""
    panels = list(_panels(report).values())
    with mpl.rc_context(_STYLE):
        heights = [panel.height + 0.5 for panel in panels] or [1.0]
        figure = Figure(figsize=(_WIDTH, sum(heights) + 0.6), layout="constrained", dpi=120)
        figure.suptitle(f"Traffic of {_short(report.source, 90)}", x=0.01, ha="left", fontsize=12)
        grid = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)
        for (axes,), panel in zip(grid, panels, strict=False):
            panel.draw(axes)
            axes.set_title(panel.title, loc="left", fontsize=10)
        if not panels:
            grid[0][0].axis("off")
            grid[0][0].text(0, 0.5, "no requests")
        file = io.BytesIO()
        figure.savefig(file, format="png")
    return file.getvalue()


def _svg(panel: _Panel) -> str:
    file = io.StringIO()
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, panel.height), layout="constrained")
        panel.draw(figure.subplots())
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    return svg[svg.index("<svg") :]  # without the header of an SVG file


def _panels(report: Report) -> dict[str, _Panel]:
    panels = {}
    if report.seconds:
        panels["traffic_seconds"] = _Panel("Requests each second", 2.4, _over_time(report.seconds))
    for section in report.sections:
        plan = _PLANS.get(section.view.name)
        rows = list(section.rows[:_BARS])
        if plan is not None and rows:
            label, columns = plan
            first = next(iter(columns))
            series = {
                column: name
                for column, name in columns.items()
                if column == first or any(row[column] for row in rows)
            }
            height = 0.8 + 0.26 * max(len(rows), _LEAST_BARS) * (1 if len(series) < 3 else 1.5)
            panels[section.view.name] = _Panel(section.view.about, height, _bars(rows, label, series))
    return panels


#: View -> the column that names its rows, and the drawn columns with their labels.
_PLANS: dict[str, tuple[str, Mapping[str, str]]] = {
    "traffic_prefixes": ("prefix", {"writes": "writes", "failed": "of these failed"}),
    "traffic_directories": (
        "directory",
        {"created": "created", "deleted": "deleted", "changed": "changed or checked"},
    ),
    "traffic_multis": ("parts", {"multis": "multis", "failed": "of these failed"}),
    "traffic_sequences": ("stem", {"created": "sequential creates"}),
    "traffic_flapping": ("path", {"created": "times created"}),
    "traffic_growth": ("day", {"created": "created", "deleted": "deleted"}),
    "traffic_clickhouse": (
        "clickhouse_table",
        {"inserts": "inserts", "merges": "merges", "queue_entries": "entries in replicas' queues"},
    ),
}
_COLOURS = (_MAIN, _SECOND, "#2b8a5e")


def _over_time(seconds: Sequence[Row]) -> Draw:
    """Requests a second, in as many steps as can be seen."""
    first, last = seconds[0]["second"], seconds[-1]["second"]
    step = max(1, math.ceil((last - first + 1) / _BINS))
    count = (last - first) // step + 1
    requests, failed = [0.0] * count, [0.0] * count
    for row in seconds:
        at = (row["second"] - first) // step
        requests[at] += row["requests"] / step
        failed[at] += row["failed"] / step
    times = [datetime.fromtimestamp(first + index * step, UTC) for index in range(count + 1)]

    def draw(axes: Axes) -> None:
        edges: Any = times
        axes.stairs(requests, edges, fill=True, color=_MAIN, label="requests a second")
        if any(failed):
            axes.stairs(failed, edges, fill=True, color=_FAILED, label="of these failed")
        locator = AutoDateLocator(tz=UTC)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))  # type: ignore[no-untyped-call]
        axes.set_ylim(bottom=0)
        axes.margins(x=0)
        _legend(axes)

    return draw


def _bars(rows: Sequence[Row], label: str, series: Mapping[str, str]) -> Draw:
    """A group of horizontal bars for each row, the first on top."""

    def draw(axes: Axes) -> None:
        width = 0.75 / len(series)
        for index, (column, name) in enumerate(series.items()):
            colour = _FAILED if column == "failed" else _COLOURS[index]
            places = [place + (index - (len(series) - 1) / 2) * width for place in range(len(rows))]
            axes.barh(places, [row[column] for row in rows], width, color=colour, label=name)
        axes.set_yticks(range(len(rows)), [_short(str(row[label]), _LABEL) for row in rows])
        axes.set_ylim(max(len(rows), _LEAST_BARS) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
        axes.xaxis.set_major_formatter(lambda value, _position: f"{value:,.0f}")
        if label == "parts":
            axes.set_ylabel("parts")
        if len(series) > 1:
            _legend(axes)
        else:
            axes.set_xlabel(next(iter(series.values())))

    return draw


def _legend(axes: Axes) -> None:
    """Above the bars, where it hides none."""
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0.1)


def _short(text: str, most: int) -> str:
    """A path without its middle part: both ends are more useful."""
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[:half]}…{text[-half:]}"
