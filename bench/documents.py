"""`python -m bench.documents`: write the documents' tables anew from the committed results, or check them.

No figure between a document's marks is copied by hand: each block comes from the JSON that `python -m bench`
and `python -m bench.scenarios` wrote into `bench/results`.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.environment import described
from bench.errors import BenchError
from bench.etcd_load import APPEND
from bench.report import GENERATOR_IS_THE_LIMIT, Medians, all_medians, from_json, speed_table
from bench.run import Results
from bench.scenarios import Table, markdown
from bench.workloads import Cell
from proxy.support.stdout import guarded
from proxy.support.usage import Parser

REPOSITORY = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", "docs/planning.md", "bench/results/README.md")
ALONE = (1, 1)
"""Connections and depth of one client with one request at a time."""
WRITES = ("create", "sequential", "set", "delete", "multi")
SUMMARY = ("get", "create", "set", "multi")
"""Workloads of the short table: a read, two writes, and what ClickHouse commits for an insert."""

_MARK = re.compile(r"<!-- results: (?P<name>[a-z-]+) -->\n(?P<body>.*?)<!-- end -->\n", re.DOTALL)
_OPENING = "<!-- results: "


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files; with --check return 1 if a document isn't what the results say."""
    parser = Parser(prog="python -m bench.documents", description=__doc__)
    parser.add_argument(
        "--results",
        type=Path,
        default=REPOSITORY / "bench" / "results",
        metavar="FOLDER",
        help="where reference.json and scenarios.json are (default: bench/results)",
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=REPOSITORY,
        metavar="FOLDER",
        help=f"where {', '.join(DOCUMENTS)} are (default: this repository)",
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing, report which documents would change"
    )
    options = parser.parse_args(arguments)
    changed = {}
    try:
        texts = blocks(options.results)
        for name in DOCUMENTS:
            before = (options.root / name).read_text()
            if (after := filled(before, texts)) != before:
                changed[name] = after
    except (BenchError, OSError) as error:
        print(f"bench.documents: {error}", file=sys.stderr)
        return 1
    for name, text in changed.items():
        print(name, "differs" if options.check else "written")
        if not options.check:
            (options.root / name).write_text(text)
    return 1 if options.check and changed else 0


def filled(text: str, blocks: Mapping[str, str]) -> str:
    """The text with each marked place filled by the block of its name.

    Raises BenchError for a mark without its end, or of a name that no result fills.
    """

    def fill(mark: re.Match[str]) -> str:
        name = mark["name"]
        if name not in blocks:
            raise BenchError(f"the mark {name!r} is none of {', '.join(blocks)}")
        if _OPENING in mark["body"]:
            raise BenchError(f"the mark {name!r} has no end")
        return f"{_OPENING}{name} -->\n{blocks[name].strip()}\n<!-- end -->\n"

    found, marks = _MARK.subn(fill, text)
    if marks != text.count(_OPENING):
        raise BenchError("a mark has no end")
    return found


def blocks(folder: Path) -> dict[str, str]:
    """Mark -> what belongs there. Raises BenchError for a file that is not one of the bench's."""
    if not folder.is_dir():
        raise BenchError(f"{folder} is no folder")
    reference, scenarios = folder / "reference.json", folder / "scenarios.json"
    return {
        **_read(_of_reference, reference),
        **_read(_of_scenarios, scenarios),
        **_read(_for_planning, reference, scenarios),
    }


def _read(use: Callable[..., dict[str, str]], *paths: Path) -> dict[str, str]:
    """The blocks that these files give; none if one is missing."""
    if not all(path.exists() for path in paths):
        return {}
    try:
        return use(*(json.loads(path.read_text()) for path in paths))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        where = " or ".join(map(str, paths))
        raise BenchError(f"{where} holds no results of the bench: {error!r}") from None


def _of_reference(found: Mapping[str, Any]) -> dict[str, str]:
    environment, results = found["environment"], from_json(found)
    return {
        "reference": under(environment, results),
        "speed-table": speed_table(results),
        "summary": f"{summary(results)}\n\n{described(environment)}.",
    }


def _of_scenarios(found: Mapping[str, Any]) -> dict[str, str]:
    made = {}
    for name, entry in found.items():
        environment = entry["environment"]
        scale = environment["scale"]
        facts = [described(environment), *([] if scale == 1 else [f"at {scale:g} of the full size"])]
        table = markdown(Table(entry["title"], entry["head"], entry["rows"]))
        made[name] = f"{table}\n\n{', '.join(facts)}."
    return made


def _for_planning(reference: Mapping[str, Any], scenarios: Mapping[str, Any]) -> dict[str, str]:
    """What one proxy does, in round numbers."""
    if not {"idle", "sidecars"} <= scenarios.keys():
        return {}
    found = all_medians(from_json(reference))

    def rates(place: tuple[int, int]) -> str:
        reads, creates = (found[Cell(workload, *place), "zketcd"] for workload in ("get", "create"))
        if reads is None or creates is None:
            return "invalid"
        return f"{_rounded(reads['rate'])} reads, or {_rounded(creates['rate'])} creates"

    busiest = _busiest(found)
    shared = {tuple(row[:2]): row[2] for row in scenarios["sidecars"]["rows"]}
    idle = scenarios["idle"]
    percent = {row[0]: row[2] for row in idle["rows"]}["zketcd"]
    lines = (
        f"* one client that waits for each answer: {rates(ALONE)}",
        f"* 16 such clients: {_rounded(shared['1 proxy', 'creates in directories of their own'])} creates",
        f"* {busiest[0]} clients with {busiest[1]} requests in flight each: {rates(busiest)}",
        f"* {idle['title']}: {percent:.2g} % of a core",
    )
    return {"planning": "\n".join(lines)}


def _rounded(figure: float) -> str:
    """Two digits that count."""
    return f"{float(f'{figure:.2g}'):,.0f}"


def under(environment: Mapping[str, Any], results: Results) -> str:
    """Under what a run was taken: its command, the machine, and how much that can be trusted."""
    facts = [f'`make bench ARGS="{environment["arguments"]}"`', described(environment)]
    rounds = environment["rounds"]
    facts += [f"{rounds} {'round' if rounds == 1 else 'rounds'} of {environment['seconds per run']:g} s"]
    medians = {key: figures for key, figures in all_medians(results).items() if figures}
    others = max((figures["others"] for figures in medians.values()), default=0.0)
    facts.append(f"other processes took at most {others:.0%} of a core")
    lines = [f"{', '.join(facts)}."]
    limited = [key for key, figures in medians.items() if figures["generator"] >= GENERATOR_IS_THE_LIMIT]
    if limited:
        places = "; ".join(f"{server}: {_place(cell)}" for cell, server in limited)
        lines.append(
            f"The generator took {GENERATOR_IS_THE_LIMIT:.0%} of a core or more, a possible limit: {places}."
        )
    invalid = [key for key, outcome in results.items() if outcome.errors]
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
    for workload in SUMMARY:
        for place in (ALONE, _busiest(found)):
            cell = Cell(workload, *place)
            theirs, ours = (found.get((cell, name)) for name in ("zookeeper", "zketcd"))
            if theirs is None or ours is None:
                continue
            # A single write is one append to the log. Pipelined, etcd's latency is a batch's.
            etcds = found.get((Cell(APPEND, *place), "etcd")) if workload in WRITES else None
            beside = f"{ours['p50_ms'] / etcds['p50_ms']:.2f}" if etcds and place == ALONE else ""
            ratio = ours["rate"] / theirs["rate"]
            lines.append(
                f"| {workload} | {place[0]} x {place[1]} | {theirs['rate']:,.0f} | {ours['rate']:,.0f} "
                f"| {ratio:.2f} | {beside} |"
            )
    return "\n".join(lines)


def _busiest(found: Medians) -> tuple[int, int]:
    """Connections and depth of the cells with the most in flight."""
    return max(((cell.connections, cell.depth) for cell, _ in found), key=lambda place: place[0] * place[1])


def _place(cell: Cell) -> str:
    return f"{cell.workload} {cell.connections} x {cell.depth}"


if __name__ == "__main__":
    sys.exit(guarded(main, "bench.documents"))
