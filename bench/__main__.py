"""`python -m bench`: the command line, and the files that a bench writes."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.environment import described, here_and_now
from bench.report import as_json, json_text, tables
from bench.run import ON_ETCD_ALONE, Plan, measure
from bench.servers import NAMES, targets
from bench.workloads import WORKLOADS, Cell
from lab.arguments import add_names, count, names_of, seconds
from lab.servers import BinaryMissing, StartFailed
from lab.servers.etcd import VERSIONS
from proxy.support.stdout import guarded
from proxy.support.usage import Parser, output_file

RESULTS = Path(__file__).parent / "results"
PIPELINED = 32
ALL = (*WORKLOADS, *ON_ETCD_ALONE)


def numbers(value: str) -> list[int]:
    """An argparse type: comma-separated numbers from 1 on."""
    return sorted(set(map(count, value.split(","))))


def parser(command: str = "") -> argparse.ArgumentParser:
    """The command line's grammar; with a name, of that command of `zketcd`."""
    found = Parser(
        prog=f"zketcd {command}" if command else "python -m bench",
        description="Compare zketcd with ZooKeeper and raw etcd: tables on stdout, progress on stderr.",
    )
    found.add_argument("--quick", action="store_true", help="less of everything: under a minute")
    add_names(found, "--workloads", ALL)
    add_names(found, "--servers", NAMES)
    found.add_argument(
        "--etcd",
        type=names_of(VERSIONS),
        metavar="VERSION,...",
        help=f"some of {','.join(VERSIONS)}: measure zketcd and raw etcd on each of them, running side by "
        "side (default: the one that zketcd chooses)",
    )
    found.add_argument(
        "--connections", type=numbers, metavar="N,...", help="default 1,16,64; with --quick 1,64"
    )
    found.add_argument(
        "--depths",
        type=numbers,
        metavar="N,...",
        help=f"requests in flight per connection; default 1,{PIPELINED}; "
        f"with --quick 1 on one connection and {PIPELINED} on more",
    )
    found.add_argument("--rounds", type=count, help="default 3; with --quick 1")
    found.add_argument(
        "--seconds", type=seconds, help="length of one timed phase; default 1; with --quick 0.25"
    )
    found.add_argument(
        "--json",
        type=output_file,
        metavar="FILE",
        help="where the results go (default: bench/results/TIME.json)",
    )
    return found


def plan_of(options: argparse.Namespace) -> Plan:
    """What the options ask for."""
    quick = options.quick
    seconds = options.seconds or (0.25 if quick else 1.0)
    connections = options.connections or ([1, 64] if quick else [1, 16, 64])
    cells = [
        Cell(workload, number, depth)
        for workload in options.workloads
        for depth in options.depths or [1, PIPELINED]
        for number in connections
        if options.depths or not quick or (depth == 1) == (number == 1)
    ]
    return Plan(cells, options.rounds or (1 if quick else 3), seconds, 0.1 if quick else 2.0)


def told(arguments: Sequence[str]) -> str:
    """The command line, without the place of the results."""
    left = iter(arguments)
    kept = []
    for argument in left:
        if argument == "--json":
            next(left)
        elif not argument.startswith("--json="):
            kept.append(argument)
    return " ".join(kept)


def environment(plan: Plan, arguments: Sequence[str]) -> dict[str, object]:
    """What a reader must know to judge the figures."""
    return {
        "arguments": told(arguments),
        **here_and_now(),
        "rounds": plan.rounds,
        "seconds per run": plan.seconds,
    }


def main(arguments: Sequence[str] | None = None, command: str = "") -> int:
    """Runs the bench; returns 1 if any run was invalid."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parser(command).parse_args(arguments)
    plan = plan_of(options)
    path = options.json or RESULTS / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    try:
        if options.json is None:
            RESULTS.mkdir(exist_ok=True)
        output_file(str(path))
    except (OSError, argparse.ArgumentTypeError) as error:
        parser(command).error(f"{error}: say with --json where the results go")
    try:
        facts = environment(plan, arguments)
        if options.etcd:
            facts["etcd"] = " ".join(options.etcd)
        with targets(options.servers, options.etcd or ("",)) as started:
            results = measure(plan, started, lambda line: print(line, file=sys.stderr, flush=True))
    except (BinaryMissing, StartFailed) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print(tables(results, f"{described(facts)}."), flush=True)
    try:
        path.write_text(f"{json_text(as_json(results, facts))}\n")
    except OSError as error:  # a disk that is full by now
        print(f"bench: the results are not in {path}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"results in {path}", file=sys.stderr)
    return 1 if any(outcome.errors for outcome in results.values()) else 0


if __name__ == "__main__":
    sys.exit(guarded(main, "bench"))
