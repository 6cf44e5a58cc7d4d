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

from bench.scenarios import Cell, Table, markdown
from bench.stages.cases import NAMES

HERE = Path(__file__).resolve().parents[2]

Times = dict[str, float]


def measured(root: Path, options: Sequence[str]) -> Times:
    """Microseconds a request of each workload, from one round of a checkout's own `bench.stages`."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        command = [sys.executable, "-m", "bench.stages", "--rounds", "1", "--json", str(found), *options]
        subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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
    parser = argparse.ArgumentParser(prog="python -m bench.stages.pairs", description=__doc__)
    parser.add_argument("checkout", type=Path, help="the other checkout's root")
    parser.add_argument("--workloads", default=",".join(NAMES), metavar="NAME,...")
    parser.add_argument("--connections", default="64", metavar="N")
    parser.add_argument("--depth", default="32", metavar="N")
    parser.add_argument("--requests", default="40000", metavar="N", help="a round (default: 40000)")
    parser.add_argument("--pairs", type=int, default=5, metavar="N", help="rounds of each (default: 5)")
    parser.add_argument("--most", type=float, default=1.1, metavar="RATIO", help="(default: 1.1)")
    given = parser.parse_args(arguments)
    options = [
        text
        for name in ("workloads", "connections", "depth", "requests")
        for text in (f"--{name}", getattr(given, name))
    ]
    found = compared(
        [(measured(given.checkout, options), measured(HERE, options)) for _ in range(given.pairs)]
    )
    title = f"CPU time a request, us; {given.connections} connections, depth {given.depth}"
    rows: list[list[Cell]] = [
        [name, other, ours, statistics.median(ratios), f"{ratios[0]:.2f} to {ratios[-1]:.2f}"]
        for name, (other, ours, ratios) in found.items()
    ]
    print(markdown(Table(title, ["workload", "other", "this", "ratio", "of the pairs"], rows)))
    return int(any(statistics.median(ratios) > given.most for _, _, ratios in found.values()))


if __name__ == "__main__":
    sys.exit(main())
