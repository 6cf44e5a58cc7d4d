"""`python -m bench.stages.pairs CHECKOUT`: CPU time a request of this checkout, compared with another one's.

Both run in turn, a round each, so that other load on the machine slows both. The figure is the median of the
rounds' ratios; below 1 this checkout is faster. `git worktree add` makes a checkout of an earlier commit.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.errors import BenchError
from bench.scenarios import Cell, Table, markdown
from bench.stages.cases import NAMES
from lab.arguments import add_names, count, number
from proxy.support.stdout import guarded
from proxy.support.usage import Parser

HERE = Path(__file__).resolve().parents[2]

Times = dict[str, float]


def checkout(value: str) -> Path:
    """An argparse type: the root of a checkout."""
    root = Path(value)
    if not (root / "bench" / "stages" / "__main__.py").is_file():
        raise argparse.ArgumentTypeError(f"{value!r} is no checkout: it has no bench/stages")
    return root


def measured(root: Path, options: Sequence[str]) -> Times:
    """Microseconds a request of each workload, from one round of a checkout's own `bench.stages`.

    Raises BenchError, with what that program printed last, if it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        command = [sys.executable, "-m", "bench.stages", "--rounds", "1", "--json", str(found), *options]
        run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if run.returncode:
            last = run.stderr.strip().rpartition("\n")[2] or f"status {run.returncode}"
            raise BenchError(f"bench.stages of {root}: {last}")
        figures = json.loads(found.read_text())
    return {name: sum(of["microseconds"].values()) for name, of in figures.items()}


def compared(pairs: Sequence[tuple[Times, Times]]) -> dict[str, tuple[float, float, list[float]]]:
    """Workload -> the other's median, ours, and the ratio of each round, sorted."""
    return {
        name: (
            statistics.median(other[name] for other, _ in pairs),
            statistics.median(ours[name] for _, ours in pairs),
            sorted(ours[name] / other[name] for other, ours in pairs),
        )
        for name in pairs[0][0]
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns 1 if a workload takes more than `--most` times the other's CPU time."""
    given = _parser().parse_args(arguments)
    options = [
        f"--workloads={','.join(given.workloads)}",
        *(f"--{name}={getattr(given, name)}" for name in ("connections", "depth", "requests")),
    ]
    try:
        found = compared(
            [(measured(given.checkout, options), measured(HERE, options)) for _ in range(given.pairs)]
        )
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    title = f"CPU time a request, us; {given.connections} connections, depth {given.depth}"
    rows: list[list[Cell]] = [
        [name, other, ours, statistics.median(ratios), f"{ratios[0]:.2f} to {ratios[-1]:.2f}"]
        for name, (other, ours, ratios) in found.items()
    ]
    print(markdown(Table(title, ["workload", "other", "this", "ratio", "of the pairs"], rows)))
    return int(any(statistics.median(ratios) > given.most for _, _, ratios in found.values()))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m bench.stages.pairs", description=__doc__)
    add = parser.add_argument
    add("checkout", type=checkout, help="the other checkout's root")
    add_names(parser, "--workloads", NAMES)
    add("--connections", type=count, default=64, metavar="N", help="(default: 64)")
    add("--depth", type=count, default=32, metavar="N", help="requests in flight on each (default: 32)")
    add("--requests", type=count, default=40_000, metavar="N", help="a round (default: 40000)")
    add("--pairs", type=count, default=5, metavar="N", help="rounds of each (default: 5)")
    add("--most", type=number(1e6), default=1.1, metavar="RATIO", help="(default: 1.1)")
    return parser


if __name__ == "__main__":
    sys.exit(guarded(main, "bench"))
