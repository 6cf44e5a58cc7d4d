"""What the documents show of the results: Markdown, put between the documents' marks. Pure."""

import re
from collections.abc import Mapping

from bench.environment import described
from bench.etcd_load import APPEND
from bench.plots.results import Found, Run, Scenario
from bench.report import GENERATOR_IS_THE_LIMIT, Medians, all_medians, cost_table, speed_table
from bench.run import Results
from bench.scenarios import markdown
from bench.scenarios.__main__ import SCENARIOS
from bench.workloads import Cell

FIGURES = {
    "throughput": "Operations a second against connections",
    "latency": "Median and 99th percentile of the latency against the rate at which requests come",
}
"""What each figure shows, for readers who cannot see it."""

ALONE = (1, 1)
"""Connections and depth of one client with one request at a time."""

WRITES = ("create", "sequential", "set", "delete", "multi")


_MARK = re.compile(r"<!-- results: (?P<name>[a-z-]+) -->\n(?P<body>.*?)<!-- end -->\n", re.DOTALL)
_OPENING = "<!-- results: "


class BadMark(ValueError):
    """A mark without its end, or of a name that nothing fills."""


def filled(text: str, blocks: Mapping[str, str]) -> str:
    """The text with each marked place filled by the block of its name. Raises BadMark."""

    def fill(mark: re.Match[str]) -> str:
        name = mark["name"]
        if name not in blocks:
            raise BadMark(f"the mark {name!r} is none of {', '.join(blocks)}")
        if _OPENING in mark["body"]:
            raise BadMark(f"the mark {name!r} has no end")
        return f"{_OPENING}{name} -->\n{blocks[name].strip()}\n<!-- end -->\n"

    found, marks = _MARK.subn(fill, text)
    if marks != text.count(_OPENING):
        raise BadMark("a mark has no end")
    return found


def blocks(found: Found) -> dict[str, str]:
    """Mark -> what belongs there."""
    made = {f"{name}-figure": f"![{what}](performance/{name}.svg)" for name, what in FIGURES.items()}
    made["reference"] = _NOT_MEASURED if found.reference is None else under(found.reference)
    made["curves"] = _NOT_MEASURED if found.curves is None else under(found.curves)
    if found.reference is None:
        made |= dict.fromkeys(("speed-table", "cost-table", "summary"), _NOT_MEASURED)
    else:
        results = found.reference.results
        made |= {
            "speed-table": speed_table(results),
            "cost-table": cost_table(results),
            "summary": f"{summary(results)}\n\n{described(found.reference.environment)}.",
        }
    for name in SCENARIOS:
        scenario = found.scenarios.get(name)
        made[name] = _NOT_MEASURED if scenario is None else _scenario(scenario)
    return made


_NOT_MEASURED = "(Not among the committed results yet.)"


def busiest(found: Medians) -> tuple[int, int]:
    """Connections and depth of the cells with the most in flight."""
    return max(((cell.connections, cell.depth) for cell, _ in found), key=lambda place: place[0] * place[1])


def under(run: Run) -> str:
    """Under what a run was taken: its command, the machine, and how much that can be trusted."""
    facts = [f'`make bench ARGS="{run.environment["arguments"]}"`', described(run.environment)]
    rounds = run.environment["rounds"]
    facts += [f"{rounds} {'round' if rounds == 1 else 'rounds'} of {run.environment['seconds per run']:g} s"]
    medians = {key: figures for key, figures in all_medians(run.results).items() if figures}
    others = max((figures["others"] for figures in medians.values()), default=0.0)
    facts.append(f"other processes took at most {others:.0%} of a core")
    lines = [f"{', '.join(facts)}."]
    limited = [key for key, figures in medians.items() if figures["generator"] >= GENERATOR_IS_THE_LIMIT]
    if limited:
        places = "; ".join(f"{server}: {_place(cell)}" for cell, server in limited)
        lines.append(
            f"The generator took {GENERATOR_IS_THE_LIMIT:.0%} of a core or more, a possible limit: {places}."
        )
    invalid = [key for key, outcome in run.results.items() if outcome.errors]
    if invalid:
        lines.append(f"Invalid: {'; '.join(f'{server}: {_place(cell)}' for cell, server in invalid)}.")
    return "\n".join(lines)


def summary(results: Results) -> str:
    """The short table: zketcd beside ZooKeeper, one client and many, and its median latency beside etcd's."""
    found = all_medians(results)
    lines = [
        "| workload | connections x depth | ZooKeeper op/s | zketcd op/s | zketcd / ZooKeeper "
        "| p50 zketcd / raw etcd Txn |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for workload in dict.fromkeys(cell.workload for cell, _ in results):
        for place in (ALONE, busiest(found)):
            cell = Cell(workload, *place)
            theirs, ours, etcds = (found.get((cell, name)) for name in ("zookeeper", "zketcd", "etcd"))
            if theirs is None or ours is None:
                continue
            if workload in WRITES:
                # A single write is one append to the log, whatever it does.
                etcds = found.get((Cell(APPEND, *place), "etcd")) or etcds
            # Pipelined, raw etcd's latency is a batch's: nothing to compare with.
            beside = f"{ours['p50_ms'] / etcds['p50_ms']:.2f}" if etcds and place == ALONE else ""
            ratio = ours["rate"] / theirs["rate"]
            lines.append(
                f"| {workload} | {place[0]} x {place[1]} | {theirs['rate']:,.0f} | {ours['rate']:,.0f} "
                f"| {ratio:.2f} | {beside} |"
            )
    return "\n".join(lines)


def _scenario(scenario: Scenario) -> str:
    scale = scenario.environment["scale"]
    facts = [described(scenario.environment), *([] if scale == 1 else [f"at {scale:g} of the full size"])]
    return f"{markdown(scenario.table)}\n\n{', '.join(facts)}."


def _place(cell: Cell) -> str:
    offered = f" at {cell.offered:,}/s" if cell.offered else f" x {cell.depth}"
    return f"{cell.workload} {cell.connections}{offered}"
