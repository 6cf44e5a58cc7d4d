"""Results as Markdown tables and as JSON. Pure."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.run import Outcome, Results
from bench.summary import medians
from bench.workloads import Cell

GENERATOR_IS_THE_LIMIT = 0.9
"""Share of one core from which on the generator may have held the server back."""

PLACE = ("workload", "conn.", "depth")

Medians = Mapping[tuple[Cell, str], Mapping[str, float] | None]


NOT_RUN: Mapping[str, float] = {}
"""Of a server that does not have a workload."""


def all_medians(results: Results) -> Medians:
    """Median figures of each cell and server; None where a round was invalid or none was run."""
    return {
        key: medians(outcome.rounds) if outcome.rounds and not outcome.errors else None
        for key, outcome in results.items()
    }


def as_json(results: Results, environment: Mapping[str, object]) -> dict[str, Any]:
    """The environment, and per cell and server the medians, all rounds, and the errors."""
    found = all_medians(results)
    return {
        "environment": dict(environment),
        "results": [
            {
                **cell._asdict(),
                "server": server,
                "median": found.get((cell, server), NOT_RUN),
                "rounds": outcome.rounds,
                "errors": outcome.errors,
            }
            for (cell, server), outcome in results.items()
        ],
    }


def from_json(found: Mapping[str, Any]) -> Results:
    """What `as_json` was given. Raises KeyError or TypeError where that is not the form of `found`."""
    return {
        (Cell(*(entry[name] for name in Cell._fields)), entry["server"]): Outcome(
            entry["rounds"], entry["errors"]
        )
        for entry in found["results"]
    }


def json_text(value: Any, indent: str = "") -> str:
    """JSON in which each list or object that holds no other is one line, so that a diff shows rows."""
    if not isinstance(value, dict | list):
        return json.dumps(value)
    inner = indent + " "
    if isinstance(value, dict):
        (begin, end), items = "{}", list(value.values())
        parts = [f"{json.dumps(name)}: {json_text(each, inner)}" for name, each in value.items()]
    else:
        (begin, end), items = "[]", value
        parts = [json_text(each, inner) for each in value]
    if not any(isinstance(each, dict | list) for each in items):
        return f"{begin}{', '.join(parts)}{end}"
    lines = ",\n".join(inner + part for part in parts)
    return f"{begin}\n{lines}\n{indent}{end}"


def tables(results: Results, under: str) -> str:
    """The two Markdown tables, and under each what it was measured on."""
    return "\n\n".join((speed_table(results), under, cost_table(results), under))


def speed_table(results: Results) -> str:
    """Speed and ratios, and what is to be known of them, in Markdown."""
    return "\n".join(_speed(*_sides(results), all_medians(results)))


def cost_table(results: Results) -> str:
    """Costs, and what is to be known of them, in Markdown."""
    return "\n".join(_costs(*_sides(results), all_medians(results)))


def _sides(results: Results) -> tuple[list[Cell], list[str]]:
    """Cells and servers, each once."""
    return list(dict.fromkeys(cell for cell, _ in results)), list(
        dict.fromkeys(server for _, server in results)
    )


def _speed(cells: Sequence[Cell], servers: Sequence[str], found: Medians) -> list[str]:
    head = [*PLACE, *(f"{server} op/s" for server in servers)]
    ours = [server for server in servers if server.startswith("zketcd")]
    pairs = [(our, other) for our in ours for other in servers if other == "zookeeper"]
    head += [f"{our} / {other}: op/s (p50)" for our, other in pairs]
    head += [f"{server} p50 / p99 ms" for server in servers]
    lines = _head(head, left=1)
    for cell in cells:
        row = _place(cell)
        row += [_each(found.get((cell, server), NOT_RUN), _rate) for server in servers]
        row += [_ratios(found.get((cell, our)), found.get((cell, other))) for our, other in pairs]
        row += [_each(found.get((cell, server), NOT_RUN), _latency) for server in servers]
        lines.append(_row(row))
    return [
        *lines,
        "",
        "`append`: raw etcd, one put a Txn, as zketcd's log does. At a depth above 1 a put has the size of "
        "64 creates, and up to 4 Txns are in flight, whatever the connections; its latencies are a batch's. "
        "`*`: the generator took more than "
        f"{GENERATOR_IS_THE_LIMIT:.0%} of a core and may be the limit.",
    ]


def _costs(cells: Sequence[Cell], servers: Sequence[str], found: Medians) -> list[str]:
    head = [*PLACE]
    head += [f"{server} CPU ms/1000 op" for server in servers]
    with_etcd = [server for server in servers if server != "zookeeper"]
    head += [f"{server} Txn, put, fsync per op" for server in with_etcd]
    logged = [
        server
        for server in with_etcd
        if any("etcd_wal_bytes" in (found.get((c, server)) or ()) for c in cells)
    ]
    head += [f"{server} log bytes per op" for server in logged]
    head += [f"{server} RSS MB" for server in servers]
    head += [f"generator CPU % ({server})" for server in servers]
    head.append("others' CPU %")
    lines = _head(head, left=1)
    for cell in cells:
        row = _place(cell)
        row += [
            _each(found.get((cell, server), NOT_RUN), lambda f: _by_role(f, "cpu_", 1000, "{:.1f}"))
            for server in servers
        ]
        row += [_each(found.get((cell, server), NOT_RUN), _etcd) for server in with_etcd]
        row += [
            _each(found.get((cell, server), NOT_RUN), lambda f: f"{f['etcd_wal_bytes']:,.0f}")
            for server in logged
        ]
        row += [
            _each(found.get((cell, server), NOT_RUN), lambda f: _by_role(f, "rss_", 1e-6, "{:.0f}"))
            for server in servers
        ]
        row += [
            _each(found.get((cell, server), NOT_RUN), lambda f: f"{f['generator']:.0%}") for server in servers
        ]
        row.append(f"{max(_others(found.get((cell, server), NOT_RUN)) for server in servers):.0%}")
        lines.append(_row(row))
    return [
        *lines,
        "",
        "zketcd's CPU and RSS: the proxy + its etcd. "
        "Others' CPU: what processes outside the run took of one core, in the worst run; the speeds are only "
        "worth something where it is small.",
    ]


def _place(cell: Cell) -> list[str]:
    """The cell under PLACE."""
    return [cell.workload, str(cell.connections), str(cell.depth)]


def _ratios(ours: Mapping[str, float] | None, theirs: Mapping[str, float] | None) -> str:
    """Our rate as a multiple of theirs, and our median latency likewise."""
    if ours is None or theirs is None:
        return "–"
    return f"**{ours['rate'] / theirs['rate']:.2f}** ({ours['p50_ms'] / theirs['p50_ms']:.2f})"


def _each(figures: Mapping[str, float] | None, show: Callable[[Mapping[str, float]], str]) -> str:
    if figures is None:
        return "invalid"
    return show(figures) if figures else "–"


def _rate(figures: Mapping[str, float]) -> str:
    mark = "*" if figures["generator"] >= GENERATOR_IS_THE_LIMIT else ""
    return f"{figures['rate']:,.0f}{mark}"


def _latency(figures: Mapping[str, float]) -> str:
    return f"{figures['p50_ms']:.2f} / {figures['p99_ms']:.2f}"


def _etcd(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{figures[name]:.3f}" for name in ("etcd_txn", "etcd_put", "etcd_fsync"))


def _others(figures: Mapping[str, float] | None) -> float:
    return figures["others"] if figures else 0.0


def _by_role(figures: Mapping[str, float], prefix: str, factor: float, form: str) -> str:
    """The figures of all roles, the server's first."""
    values = [value * factor for name, value in figures.items() if name.startswith(prefix)]
    return " + ".join(map(form.format, values))


def _head(names: Sequence[str], left: int) -> list[str]:
    return [_row(names), _row(["---"] * left + ["--:"] * (len(names) - left))]


def _row(values: Sequence[str]) -> str:
    return f"| {' | '.join(values)} |"
