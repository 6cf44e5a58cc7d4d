"""The answers of traffic's views as one document: numbers for JSON, text for terminals, HTML for people."""

import html
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from cli.output import one_line
from pipeline.traffic.views import OPERATIONS, REQUESTS, VIEWS, View

Row = dict[str, Any]
#: Runs a SELECT: Database.query, or the same on Spark.
Query = Callable[[str], list[Row]]

_DAY = 86_400  # seconds
_COUNTS = ("requests", "operations", "writes")  # columns of which a row's share is shown
_SECONDS = "traffic_seconds"  # only a figure: hundreds of lines would be too many
_MOST_SECONDS = 100_000


class Section(NamedTuple):
    """The answer of one view."""

    view: View
    rows: Sequence[Row]


class Report(NamedTuple):
    """All answers."""

    source: str
    facts: Mapping[str, Any]
    sections: Sequence[Section]
    seconds: Sequence[Row]  # of the view traffic_seconds


def made(source: str, query: Query, top: int, more: Sequence[Section] = ()) -> Report:
    """Run all queries; `top` is the number of rows of each list. `more`: sections that no query gives."""
    sections = [
        *more,
        *(Section(view, _with_shares(view, query, top)) for view in VIEWS if view.name != _SECONDS),
    ]
    seconds = query(f"SELECT * FROM {_SECONDS} ORDER BY second LIMIT {_MOST_SECONDS}")
    return Report(source, _facts(query), sections, seconds)


def _with_shares(view: View, query: Query, top: int) -> list[Row]:
    """A view's first rows; after their count its share of all rows, in percent."""
    rows = query(f"SELECT * FROM {view.name} ORDER BY {view.order} LIMIT {top}")
    counted = next((name for name in _COUNTS if rows and view.order.startswith(f"{name} DESC")), None)
    if counted is None:
        return rows
    (total,) = query(f"SELECT SUM({counted}) AS total FROM {view.name}")
    return [
        {
            key: item
            for name, value in row.items()
            for key, item in (
                ((name, value), ("share_percent", round(100 * value / total["total"], 1)))
                if name == counted
                else ((name, value),)
            )
        }
        for row in rows
    ]


def _time(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _facts(query: Query) -> Row:
    (total,) = query(
        "SELECT COUNT(*) AS requests, MIN(second) AS first, MAX(second) AS last, SUM(failed) AS failed,"
        " SUM(bytes) AS bytes, SUM(size) AS size,"
        " SUM(CASE WHEN operation = 'createSession' THEN 1 ELSE 0 END) AS opened,"
        " SUM(CASE WHEN operation = 'closeSession' THEN 1 ELSE 0 END) AS closed,"
        f" COUNT(DISTINCT session) AS sessions, SUM(nodes) AS nodes, SUM(grown) AS grown FROM {REQUESTS}"
    )
    if not total["requests"]:
        return {"requests": 0}
    (operations,) = query(f"SELECT COUNT(*) AS operations FROM {OPERATIONS} WHERE implied = 0")
    (busiest,) = query(f"SELECT MAX(requests) AS requests FROM {_SECONDS}")
    seconds = total["last"] - total["first"] + 1
    facts = {
        "requests": total["requests"],
        "operations": operations["operations"],
        "failed requests": total["failed"],
        "from": _time(total["first"]),
        "to": _time(total["last"]),
        "seconds": seconds,
        "requests per second": round(total["requests"] / seconds, 1),
        "in the busiest second": busiest["requests"],
        "bytes of data": total["bytes"],
        "bytes in the log": total["size"],
        "sessions": total["sessions"],
        "sessions opened": total["opened"],
        "sessions closed": total["closed"],
    }
    for name, column in (("znodes added", "nodes"), ("bytes added", "grown")):
        if total[column] is not None:
            facts[name] = total[column]
            if seconds >= _DAY:  # a shorter time does not show a day
                facts[f"{name} a day"] = round(total[column] * _DAY / seconds)
    return facts


def document(report: Report) -> Row:
    """The report for JSON: facts, and a list for each view."""
    return {
        "source": report.source,
        **report.facts,
        **{section.view.name: list(section.rows) for section in report.sections},
    }


def text(report: Report) -> str:
    """The report for a terminal. Views without rows are left out."""
    lines = [f"{name:<24} {shown(value)}" for name, value in report.facts.items()]
    for section in report.sections:
        if section.rows:
            lines += ["", f"{section.view.about} ({section.view.name})", *_table(section.rows)]
    return "\n".join(map(one_line, lines))


def _table(rows: Sequence[Row]) -> list[str]:
    """Aligned columns: numbers to the right, words to the left, as all rows of a view have them."""
    names = list(rows[0])
    cells = [[_heading(name) for name in names], *([shown(row[name]) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numbers = [_is_number(rows, name) for name in names]
    return [
        "  "
        + "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, numbers, strict=True)
        ).rstrip()
        for line in cells
    ]


def _is_number(rows: Sequence[Row], name: str) -> bool:
    return any(isinstance(row[name], int | float) for row in rows)


def _heading(name: str) -> str:
    return name.removeprefix("clickhouse_").replace("_", " ")


def shown(value: object) -> str:
    """A value in a readable form."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 62rem;
       margin: 2rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; }
h2 { font-size: 1.1rem; margin: 2.5rem 0 .5rem; }
.source { color: #666; margin-top: .2rem; overflow-wrap: anywhere; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(10rem, 1fr)); gap: .6rem 1.5rem;
         margin: 1.5rem 0; padding: 0; }
.facts div { border-top: 1px solid #ddd; padding-top: .3rem; }
.facts dt { color: #666; font-size: .85rem; }
.facts dd { margin: 0; font-size: 1.15rem; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; width: 100%; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid #eee;
         vertical-align: top; }
th { color: #666; font-weight: normal; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td { overflow-wrap: anywhere; }
svg { max-width: 100%; height: auto; }
footer { color: #666; font-size: .85rem; margin: 3rem 0 1rem; }
"""


def page(report: Report, figures: Mapping[str, str]) -> str:
    """A whole HTML page; `figures` are SVG by the name of their view."""
    facts = "".join(
        f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(shown(value))}</dd></div>"
        for name, value in report.facts.items()
    )
    blocks = []
    if _SECONDS in figures:
        blocks.append(f"<h2>Requests each second</h2>\n{figures[_SECONDS]}")
    for section in report.sections:
        if section.rows:
            about = html.escape(section.view.about)
            figure = figures.get(section.view.name, "")
            blocks.append(f"<h2>{about}</h2>\n{figure}\n{_html_table(section.rows)}")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Traffic of {html.escape(report.source)}</title><style>{_STYLE}</style></head>\n<body>"
        f'<h1>Traffic</h1><p class="source">{html.escape(report.source)}</p>\n'
        f'<dl class="facts">{facts}</dl>\n'
        + "\n".join(blocks)
        + "\n<footer>Lists show the first rows only. The views behind them, by name:"
        f" {', '.join(section.view.name for section in report.sections)}.</footer>\n</body></html>\n"
    )


def _html_table(rows: Sequence[Row]) -> str:
    names = list(rows[0])
    classes = {name: ' class="number"' if _is_number(rows, name) else "" for name in names}
    head = "".join(f"<th{classes[name]}>{html.escape(_heading(name))}</th>" for name in names)
    body = "\n".join(
        "<tr>"
        + "".join(f"<td{classes[name]}>{html.escape(shown(row[name]))}</td>" for name in names)
        + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>\n{body}</table></div>'
