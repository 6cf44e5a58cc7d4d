"""`python -m pipeline verify`: whether two trees are equal in every field of every znode.

The rows of both trees are put into buckets by path, with digests instead of data, and compared. Exit code
0: equal; 1: different; 2: wrong usage, or one side cannot be read.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import NamedTuple

from pipeline.errors import Failure
from pipeline.etcd import archived
from pipeline.jobs import sides, tables
from pipeline.jobs.compare import KINDS, Compare, Difference, Slim, merged
from pipeline.jobs.summary import number
from pipeline.jobs.tables import Side
from pipeline.running import runner as running
from pipeline.running.runner import Runner
from schema.paths import CONFIG


class Comparison(NamedTuple):
    """The result of comparing two trees."""

    left: int  # nodes
    right: int
    counts: dict[str, int]  # of each of KINDS
    samples: tuple[Difference, ...]
    notes: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not any(self.counts.values())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add = parser.add_argument
    what = "a ZooKeeper directory, parquet:DIRECTORY, zk://HOST:PORT, etcd://HOST:PORT/PREFIX or archive:URL"
    add("left", help=f"one tree: {what}")
    add("right", help="the other tree")
    sides.add_arguments(parser)
    add(
        "--ignore",
        action="append",
        default=[],
        metavar="PATH",
        help="leave out this node and all nodes below it, on both sides; may be repeated",
    )
    add(
        "--without-ephemerals",
        action="store_true",
        help="leave out ephemerals, on both sides: an import without --keep-sessions drops them",
    )
    add(
        "--samples",
        type=number,
        default=10,
        metavar="N",
        help="number of nodes to show of each kind of difference (default: 10)",
    )
    running.add_arguments(parser)
    add("--json", action="store_true", help="print the result as JSON, and the progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Compare, print, and return the exit code. Raises Failure, BadFile, WalkFailed."""
    for path in arguments.ignore:
        check_path(path)
    tables.check_options(arguments, arguments.left, arguments.right)
    archived.check(arguments, arguments.left, arguments.right)
    left = sides.side_of(arguments.left, arguments)
    right = sides.side_of(arguments.right, arguments)
    runner = running.runner_for(arguments, "zketcd verify", [left.znodes, right.znodes])
    found = compare(
        runner,
        left,
        right,
        ignored=arguments.ignore,
        ephemerals=not arguments.without_ephemerals,
        samples=arguments.samples,
    )
    if arguments.json:
        print(json.dumps({**found._asdict(), "equal": found.equal}, default=str))
    else:
        _print(runner, found, left.name, right.name)
    return 0 if found.equal else 1


def check_path(path: str) -> None:
    """Raises ValueError for an --ignore that is not a path of a znode, and so would have no effect."""
    if not path.startswith("/"):
        raise ValueError(f"--ignore {path!r}: a znode's path begins with /")


def compare(
    runner: Runner,
    left: Side,
    right: Side,
    *,
    ignored: Sequence[str] = (),
    ephemerals: bool = True,
    samples: int = 10,
) -> Comparison:
    """Compare two trees. `ignored` are paths of subtrees to leave out. Raises Failure."""
    on_the_wire = left.on_the_wire or right.on_the_wire
    buckets = max(left.znodes.buckets, right.znodes.buckets)
    inputs = [
        (side.znodes, Slim(number, on_the_wire, ignored, ephemerals, buckets))
        for number, side in enumerate((left, right))
    ]
    found = merged(runner.shuffled("verify", inputs, Compare(samples)), samples)
    for side, newest in zip((left, right), found.newest, strict=True):
        if side.directory is not None and newest > side.directory.survey.last_zxid:
            raise Failure(
                f"{side.directory.survey.snapshot}: a znode has zxid {newest:#x}, and the logs end at"
                f" {side.directory.survey.last_zxid:#x}: the logs behind it are missing, and this tree never"
                " existed"
            )
    notes = [
        f"{side.name} was written to while it was walked: what was compared never was its tree"
        for side, newest in zip((left, right), found.newest, strict=True)
        if side.zxid is not None and newest > side.zxid
    ]
    if found.members:
        notes.append(f"{CONFIG} differs and is left out: each server keeps its own addresses there")
    shown = tuple(one for kind in KINDS for one in found.samples[kind])
    return Comparison(*found.nodes, found.counts, shown, tuple(notes))


def _print(runner: Runner, found: Comparison, left: str, right: str) -> None:
    for note in found.notes:
        runner.reporter.message(note)
    print(f"left   {found.left:>12} nodes  {left}")
    print(f"right  {found.right:>12} nodes  {right}")
    if found.equal:
        print("equal")
        return
    print()
    for kind, count in found.counts.items():
        print(f"{kind:<9}{count:>10}")
    print()
    for difference in found.samples:
        print(f"{difference.kind:<9} {difference.path}")
        for name, (one, other) in difference.fields.items():
            print(f"{'':<9} {name}: {one} | {other}")
    sys.stdout.flush()
