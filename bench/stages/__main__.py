"""`python -m bench.stages`: run workloads in this process, print what they cost by stage, write JSON."""

import argparse
import cProfile
import json
import pstats
import sys
from collections.abc import Sequence

from bench.errors import BenchError
from bench.scenarios import Cell, Table, markdown
from bench.stages.cases import ETCD, NAMES, Case, Figures, run
from bench.stages.costs import CASES, cost_of, table
from bench.stages.memory import applied, loaded
from bench.stages.meter import OF_THE_PROXY
from lab.arguments import add_names, count, size
from proxy.support.stdout import guarded
from proxy.support.usage import Parser, output_file

_PROFILED = 40  # functions


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns 1 if a run gave wrong replies or left a wrong tree."""
    given = _parser().parse_args(arguments)
    cases = [Case(name, given.connections, given.depth, given.watches) for name in given.workloads]
    profile = cProfile.Profile() if given.profile else None
    rows: list[list[Cell]] = []
    figures: dict[str, object] = {}
    try:
        if given.costs:
            print(table((case, cost_of(case)) for case in CASES), end="")
            return 0
        if given.znodes:
            for what, weigh in (("loaded from a snapshot", loaded), ("created", applied)):
                each = weigh(given.znodes)
                print(
                    f"{what}: {each.bytes:.1f} bytes each beyond path and data, in {each.blocks:.2f} blocks"
                )
            return 0
        for case in cases:
            print(f"{case.name} ...", file=sys.stderr, flush=True)
            requests = max(1, given.requests // case.connections)
            rounds = 1 if given.calls or profile else given.rounds
            found = min(
                (
                    run(case, requests, max(1, requests // 4), counting=given.calls, profile=profile)
                    for _ in range(rounds)
                ),
                key=lambda figures: sum(figures.microseconds().values()),
            )
            rows.append([case.name, *_cells(found, calls=given.calls)])
            figures[case.name] = _json(found, calls=given.calls)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    what = "Calls of functions in Python + in C" if given.calls else "CPU time, us"
    title = f"{what}, and what etcd is asked, a request; {given.connections} connections, depth {given.depth}"
    if given.watches:
        title += f", {given.watches:,} watches set"
    print(markdown(Table(title, ["workload", *OF_THE_PROXY, "sum", *ETCD], rows)))
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(_PROFILED)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


def _cells(figures: Figures, *, calls: bool) -> list[Cell]:
    cells: list[Cell] = []
    if calls:
        for stage in OF_THE_PROXY:
            of_python, of_c = figures.calls_in(stage)
            cells.append(f"{of_python:.1f} + {of_c:.1f}")
        cells.append("{:.1f} + {:.1f}".format(*figures.calls()))
    else:
        times = figures.microseconds()
        cells += [*times.values(), sum(times.values())]
    return [*cells, *(figures.per_request[name] for name in ETCD)]


def _json(figures: Figures, *, calls: bool) -> dict[str, object]:
    found: dict[str, object] = {"requests": figures.requests, "etcd": figures.per_request}
    if calls:
        found["calls"] = {stage: figures.calls_in(stage) for stage in OF_THE_PROXY}
    else:
        found["microseconds"] = figures.microseconds()
    return found


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m bench.stages", description=__doc__)
    add = parser.add_argument
    add_names(parser, "--workloads", NAMES)
    add("--connections", type=count, default=64, metavar="N", help="(default: 64); watchers, for fanout")
    add("--depth", type=count, default=32, metavar="N", help="requests in flight on each (default: 32)")
    add("--watches", type=size, default=0, metavar="N", help="that others set on other nodes (default: 0)")
    add("--requests", type=count, default=40_000, metavar="N", help="in all (default: 40000)")
    add("--rounds", type=count, default=3, metavar="N", help="of which the best is shown (default: 3)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--calls", action="store_true", help="count calls of functions instead of time")
    how.add_argument("--profile", action="store_true", help="print where the time goes, by function")
    how.add_argument(
        "--costs",
        action="store_true",
        help="only print the table for tests/bench/stages/costs.txt, with which a test compares",
    )
    how.add_argument(
        "--znodes", type=count, metavar="N", help="only load so many, and print what one takes in memory"
    )
    add("--json", type=output_file, metavar="FILE", help="where the figures go as well")
    return parser


if __name__ == "__main__":
    sys.exit(guarded(main, "bench"))
