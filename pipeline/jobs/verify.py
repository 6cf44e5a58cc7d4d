"""`zketcd verify`: whether two trees are equal in every field of every znode.

The rows of both trees are put into buckets by path, with digests instead of data, and compared. Exit code
0: equal; 1: different; 2: wrong usage, or one side cannot be read.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import NamedTuple

from cli.output import one_line, show
from pipeline.errors import Failure
from pipeline.job import Runner
from pipeline.jobs.compare import KINDS, Compare, Difference, Slim, merged
from pipeline.jobs.trees import Tree, tree_of
from pipeline.options import check_trees
from pipeline.running import runner as running
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


def run(arguments: argparse.Namespace) -> int:
    """Compare, print, and return the exit code. Raises Failure, BadFile, WalkFailed."""
    for path in arguments.ignore:
        check_path(path)
    check_trees(arguments, arguments.left, arguments.right)
    left, right = (tree_of(name, arguments) for name in (arguments.left, arguments.right))
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
        show(json.dumps({**found._asdict(), "equal": found.equal}, default=str))
    else:
        _print(runner, found, left.name, right.name)
    return 0 if found.equal else 1


def check_path(path: str) -> None:
    """Raises ValueError for an --ignore that is not a path of a znode, and so would have no effect."""
    if not path.startswith("/"):
        raise ValueError(f"--ignore {path!r}: a znode's path begins with /")


def compare(
    runner: Runner,
    left: Tree,
    right: Tree,
    *,
    ignored: Sequence[str] = (),
    ephemerals: bool = True,
    samples: int = 10,
) -> Comparison:
    """Compare two trees. `ignored` are paths of subtrees to leave out. Raises Failure."""
    on_the_wire = any(tree.walked_from is not None for tree in (left, right))
    buckets = max(left.znodes.buckets, right.znodes.buckets)
    inputs = [
        (tree.znodes, Slim(number, on_the_wire, ignored, ephemerals, buckets))
        for number, tree in enumerate((left, right))
    ]
    found = merged(runner.shuffled("verify", inputs, Compare(samples)), samples)
    for tree, newest in zip((left, right), found.newest, strict=True):
        if tree.directory is not None and newest > tree.directory.survey.last_zxid:
            raise Failure(
                f"{tree.directory.survey.snapshot}: a znode has zxid {newest:#x}, and the logs end at"
                f" {tree.directory.survey.last_zxid:#x}: the logs behind it are missing, and this tree never"
                " existed"
            )
    notes = [
        f"{tree.name} was written to while it was walked: what was compared never was its tree"
        for tree, newest in zip((left, right), found.newest, strict=True)
        if tree.walked_from is not None and newest > tree.walked_from
    ]
    if found.members:
        notes.append(f"{CONFIG} differs and is left out: each server keeps its own addresses there")
    shown = tuple(one for kind in KINDS for one in found.samples[kind])
    return Comparison(*found.nodes, found.counts, shown, tuple(notes))


def _print(runner: Runner, found: Comparison, left: str, right: str) -> None:
    for note in found.notes:
        runner.reporter.message(note)
    show(f"left   {found.left:>12} nodes  {left}")
    show(f"right  {found.right:>12} nodes  {right}")
    if found.equal:
        show("equal")
        return
    show("")
    for kind, count in found.counts.items():
        show(f"{kind:<9}{count:>10}")
    show("")
    for difference in found.samples:
        show(one_line(f"{difference.kind:<9} {difference.path}"))
        for name, (one, other) in difference.fields.items():
            show(one_line(f"{'':<9} {name}: {one} | {other}"))
    sys.stdout.flush()
