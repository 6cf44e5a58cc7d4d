"""`python -m pipeline verify`: whether two trees are equal in every field of every znode.

One full join by path on Spark, of digests instead of data, so that trees of any size compare. Exit code 0:
equal; 1: different, or one side cannot be read; 2: wrong usage.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Observation, Row
from pyspark.sql import functions as F

from pipeline.jobs import sides, tables
from pipeline.jobs.progress import tell, told
from pipeline.jobs.sides import Side
from pipeline.jobs.summary import number
from pipeline.spark import session

KINDS = ("missing", "extra", "duplicate", "data", "acl", "counter", "stat")
_STAT = ("czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "aversion", "owner")
FIELDS = {"data": ("data",), "acl": ("acl",), "counter": ("created",), "stat": _STAT}
_OPEN_ACL = '[{"perms":31,"scheme":"world","id":"anyone"}]'
# Counted by each server for itself; never in a log, and not in zketcd.
_COUNTED_LOCALLY = "/zookeeper_stats"
_QUOTA = "/zookeeper/quota/"


class Comparison(NamedTuple):
    """What two trees have in common, and what not."""

    left: int  # nodes
    right: int
    counts: dict[str, int]  # of each of KINDS
    samples: tuple["Difference", ...]
    notes: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not any(self.counts.values())


class Difference(NamedTuple):
    """One node that differs; a field's two values for each that does."""

    path: str
    kind: str
    fields: dict[str, tuple[str, str]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add = parser.add_argument
    what = "a ZooKeeper directory, parquet:DIRECTORY, zk://HOST:PORT or etcd://HOST:PORT/PREFIX"
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
    add("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Compare, print, and return the exit code. Raises Failure, BadFile, WalkFailed."""
    spark = session("zketcd verify")
    left = sides.side_of(spark, arguments.left, arguments)
    right = sides.side_of(spark, arguments.right, arguments)
    with told(spark, "verify"):
        found = compare(
            left,
            right,
            ignored=arguments.ignore,
            ephemerals=not arguments.without_ephemerals,
            samples=arguments.samples,
        )
    if arguments.json:
        print(json.dumps({**found._asdict(), "equal": found.equal}, default=str))
    else:
        _print(found, left.name, right.name)
    return 0 if found.equal else 1


def compare(
    left: Side, right: Side, *, ignored: Sequence[str] = (), ephemerals: bool = True, samples: int = 10
) -> Comparison:
    """Compare two trees. `ignored` are paths of subtrees to leave out."""
    on_the_wire = left.on_the_wire or right.on_the_wire
    # How many rows go into the join: more come out of it where a path occurs twice.
    rows = [Observation(), Observation()]
    frames = [
        _prepared(side, on_the_wire, ignored, ephemerals).observe(counted, F.count("*").alias("rows"))
        for side, counted in zip((left, right), rows, strict=True)
    ]
    joined = _joined(frames[0], frames[1])
    total = _totals(joined)
    if not ephemerals and total["stat"]:
        # Where ephemerals end, as they do when a tree moves without them, their parents' pzxid moves.
        joined = _joined(frames[0], frames[1], spared=_above_ephemerals(left, right))
        total = _totals(joined)
    counts = {kind: int(total[kind]) for kind in KINDS}
    lefts, rights = (int(counted.get["rows"]) for counted in rows)
    counts["duplicate"] = total["left"] - lefts + total["right"] - rights
    notes = [
        f"{side.name} was written to while it was walked: what was compared never was its tree"
        for side, newest in ((left, total["left_newest"]), (right, total["right_newest"]))
        if side.zxid is not None and (newest or 0) > side.zxid
    ]
    shown = [] if not any(counts.values()) else _samples(joined, counts, samples)
    return Comparison(lefts, rights, counts, tuple(shown), tuple(notes))


def _totals(joined: DataFrame) -> Row:
    kinds = F.col("kinds")
    sums = [
        F.count_if(F.col("l.path").isNotNull()).alias("left"),
        F.count_if(F.col("r.path").isNotNull()).alias("right"),
        F.max("l.newest").alias("left_newest"),
        F.max("r.newest").alias("right_newest"),
        *(F.count_if(F.array_contains(kinds, kind)).alias(kind) for kind in KINDS),
    ]
    total = joined.agg(*sums).first()
    assert total is not None
    return total


def _above_ephemerals(left: Side, right: Side) -> DataFrame:
    """Paths of the nodes that have ephemerals below them, on either side."""
    owner = F.col("owner")
    parents = [
        side.znodes.filter((owner != 0) & ~_is_special(owner)).select(
            tables.parent_of_column("path").alias("path")
        )
        for side in (left, right)
    ]
    return parents[0].union(parents[1]).distinct()


def _prepared(side: Side, on_the_wire: bool, ignored: Sequence[str], ephemerals: bool) -> DataFrame:
    frame = side.znodes
    special = _is_special(F.col("owner"))
    if not ephemerals:
        frame = frame.filter((F.col("owner") == 0) | special)
    for path in ignored:
        frame = frame.filter((F.col("path") != path) & ~F.col("path").startswith(path.rstrip("/") + "/"))
    counted = F.col("path").startswith(_QUOTA) & F.col("path").endswith(_COUNTED_LOCALLY)
    data = F.when(counted, F.lit("counted")).otherwise(
        F.concat(F.md5("data"), F.lit(" of "), F.length("data").cast("string"), F.lit(" bytes"))
    )
    owner = F.when(special, F.lit(0)).otherwise(F.col("owner")) if on_the_wire else F.col("owner")
    return frame.select(
        "path",
        F.coalesce(data, F.lit("null")).alias("data"),
        F.coalesce(F.to_json("acl"), F.lit(_OPEN_ACL)).alias("acl"),
        "created",
        *_STAT[:-1],
        owner.alias("owner"),
        F.greatest("czxid", "mzxid", "pzxid").alias("newest"),
    )


def _is_special(owner: Column) -> Column:
    """Containers and TTL nodes."""
    container = owner == F.lit(-(1 << 63)).cast("long")
    return container | ((owner < 0) & (F.shiftrightunsigned(owner, 56) == 0xFF))


def _joined(left: DataFrame, right: DataFrame, spared: DataFrame | None = None) -> DataFrame:
    """Both trees' nodes side by side as l and r, with an array of the kinds in which they differ.

    The pzxid of the paths in `spared` is not compared.
    """
    both = left.alias("l").join(right.alias("r"), F.col("l.path") == F.col("r.path"), "full_outer")
    if spared is not None:
        both = both.join(spared.alias("s"), F.col("l.path") == F.col("s.path"), "left")

    def differs(names: Sequence[str]) -> Column:
        pairs = [~F.col(f"l.{name}").eqNullSafe(F.col(f"r.{name}")) for name in names]
        if spared is not None and "pzxid" in names:
            pairs[names.index("pzxid")] &= F.col("s.path").isNull()
        result = pairs[0]
        for pair in pairs[1:]:
            result = result | pair
        return result

    kinds = F.when(F.col("r.path").isNull(), F.array(F.lit("missing")))
    kinds = kinds.when(F.col("l.path").isNull(), F.array(F.lit("extra")))
    fields = [F.when(differs(names), F.lit(kind)) for kind, names in FIELDS.items()]
    return both.withColumn("kinds", kinds.otherwise(F.array_compact(F.array(*fields))))


def _samples(joined: DataFrame, counts: dict[str, int], most: int) -> list[Difference]:
    found = []
    for kind in KINDS:
        if not counts[kind]:
            continue
        if kind == "duplicate":
            paths = joined.groupBy(F.coalesce("l.path", "r.path").alias("path")).count().filter("count > 1")
            found += [
                Difference(row["path"], kind, {}) for row in paths.orderBy("path").limit(most).collect()
            ]
            continue
        names = FIELDS.get(kind, ())
        rows = (
            joined.filter(F.array_contains("kinds", kind))
            .select(
                F.coalesce("l.path", "r.path").alias("path"),
                *(F.col(f"l.{name}").alias(f"l_{name}") for name in names),
                *(F.col(f"r.{name}").alias(f"r_{name}") for name in names),
            )
            .orderBy("path")
            .limit(most)
            .collect()
        )
        for row in rows:
            pairs = {name: (str(row[f"l_{name}"]), str(row[f"r_{name}"])) for name in names}
            different = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
            found.append(Difference(row["path"], kind, different))
    return found


def _print(found: Comparison, left: str, right: str) -> None:
    for note in found.notes:
        tell(note)
    print(f"left   {found.left:>12} nodes  {left}")
    print(f"right  {found.right:>12} nodes  {right}")
    if found.equal:
        print("equal")
        return
    print()
    for kind, count in found.counts.items():
        print(f"{kind:<8}{count:>11}")
    print()
    for difference in found.samples:
        print(f"{difference.kind:<8} {difference.path}")
        for name, (one, other) in difference.fields.items():
            print(f"{'':<8} {name}: {one} | {other}")
    sys.stdout.flush()
