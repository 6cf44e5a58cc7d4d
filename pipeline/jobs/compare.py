"""Compares two trees bucket by bucket: rows are reduced, put into buckets by path, compared by column."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import NamedTuple

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.batches import joined
from pipeline.etcd import columns
from pipeline.etcd.paths import by_bucket
from schema.paths import CONFIG, parent_of
from schema.znode import CONTAINER_OWNER, MIN_TTL_OWNER

KINDS = ("missing", "extra", "duplicate", "data", "acl", "counter", "stat")
_STAT = ("czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "aversion", "owner")
FIELDS = {"data": ("data",), "acl": ("acl",), "counter": ("created",), "stat": _STAT}
_NUMBERS = ("created", *_STAT)
_SLIM = pa.schema(
    [
        ("side", pa.int8()),
        ("path", pa.string()),
        ("data", pa.string()),
        ("acl", pa.string()),
        *((name, pa.int64()) for name in _NUMBERS),
        ("newest", pa.int64()),
        # Not a node, but a parent of ephemerals that are left out: their end changes its pzxid.
        ("spared", pa.bool_()),
    ]
)
# Each server has its own counts; they are never in a log, and not in zketcd.
_COUNTED_LOCALLY = "/zookeeper_stats"
_QUOTA = "/zookeeper/quota/"
_TOGETHER = 65_536  # rows that are put into buckets at once: each part of a batch has a price


class Difference(NamedTuple):
    """One node that differs; two values for each field that differs."""

    path: str
    kind: str
    fields: dict[str, tuple[str, str]]


class Found(NamedTuple):
    """The results of one bucket."""

    nodes: tuple[int, int]  # left, right
    counts: dict[str, int]  # of each of KINDS
    samples: dict[str, list[Difference]]  # of each kind, by path
    newest: tuple[int, int]  # the largest zxid in any node
    members: bool  # whether /zookeeper/config differs, which does not count as a difference


@dataclass(frozen=True)
class Slim:
    """Puts one side's rows into buckets by path, with digests instead of data."""

    side: int  # 0 left, 1 right
    on_the_wire: bool
    ignored: Sequence[str]
    ephemerals: bool
    buckets: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows to compare, with their bucket."""
        slim = (one for batch in batches for one in self._slim(self._without_ignored(batch)))
        for rows in joined(slim, _TOGETHER):
            yield from by_bucket(rows, "path", self.buckets)

    def _without_ignored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for path in self.ignored:
            column = batch.column("path")
            below = pc.starts_with(column, path.rstrip("/") + "/")
            batch = batch.filter(pc.invert(pc.or_(pc.equal(column, path), below)))
        return batch

    def _slim(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        owners = columns.numbers(batch, "owner")
        special = is_special(owners)
        if not self.ephemerals:
            stays = (owners == 0) | special
            gone = batch.filter(pa.array(~stays)).column("path").to_pylist()
            if gone:
                yield self._spared(sorted({parent_of(path) for path in gone}))
            batch, owners, special = batch.filter(pa.array(stays)), owners[stays], special[stays]
        if not batch.num_rows:
            return
        if self.on_the_wire:
            owners = numpy.where(special, 0, owners)
        numbers = {name: columns.numbers(batch, name).astype(numpy.int64) for name in _NUMBERS} | {
            "owner": owners
        }
        newest = numpy.maximum(numpy.maximum(numbers["czxid"], numbers["mzxid"]), numbers["pzxid"])
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(numpy.full(batch.num_rows, self.side, numpy.int8)),
                batch.column("path"),
                _digests(batch),
                _acls(batch),
                *(pa.array(numbers[name]) for name in _NUMBERS),
                pa.array(newest),
                pa.array(numpy.zeros(batch.num_rows, numpy.bool_)),
            ],
            schema=_SLIM,
        )

    def _spared(self, paths: list[str]) -> pa.RecordBatch:
        given = {"side": [self.side] * len(paths), "path": paths, "spared": [True] * len(paths)}
        arrays = [
            pa.array(given[field.name], field.type)
            if field.name in given
            else pa.nulls(len(paths), field.type)
            for field in _SLIM
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=_SLIM)


def is_special(owners: columns.Numbers) -> "numpy.typing.NDArray[numpy.bool_]":
    """Which owners mean containers or TTL nodes."""
    special: numpy.typing.NDArray[numpy.bool_] = (owners == CONTAINER_OWNER) | (
        (owners >= MIN_TTL_OWNER) & (owners < 0)
    )
    return special


def _digests(batch: pa.RecordBatch) -> pa.Array:
    data = [
        "null" if value is None else f"{md5(value, usedforsecurity=False).hexdigest()} of {len(value)} bytes"
        for value in batch.column("data").to_pylist()
    ]
    path = batch.column("path")
    counted = pc.and_(pc.starts_with(path, _QUOTA), pc.ends_with(path, _COUNTED_LOCALLY))
    return pc.if_else(counted, "counted", pa.array(data, pa.string()))


def _acls(batch: pa.RecordBatch) -> pa.Array:
    table, indexes = columns.acl_table(batch.column("acl"))
    texts = [json.dumps([entry._asdict() for entry in acl], separators=(",", ":")) for acl in table]
    return pa.array(texts, pa.string()).take(pa.array(indexes))


@dataclass(frozen=True)
class Compare:
    """Compares the rows of both sides in a bucket. `samples`: how many differences of a kind are kept."""

    samples: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Found:
        """The differences."""
        table = pa.Table.from_batches(batches, _SLIM).combine_chunks()
        spared = table.filter(table.column("spared")).column("path").combine_chunks()
        nodes = table.filter(pc.invert(table.column("spared")))
        sides = [nodes.filter(pc.equal(nodes.column("side"), side)) for side in (0, 1)]
        counted = (sides[0].num_rows, sides[1].num_rows)
        newest = [pc.max(side.column("newest")).as_py() or 0 for side in sides]
        own = [side.filter(pc.equal(side.column("path"), CONFIG)).drop(["side"]) for side in sides]
        sides = [side.filter(pc.not_equal(side.column("path"), CONFIG)) for side in sides]
        left, right = (_once(side) for side in sides)
        repeated = sorted({path for side in sides for path in _repeated(side)})
        counts = dict.fromkeys(KINDS, 0)
        samples: dict[str, list[Difference]] = {}
        counts["duplicate"] = sum(side.num_rows for side in sides) - left.num_rows - right.num_rows
        samples["duplicate"] = [Difference(path, "duplicate", {}) for path in repeated[: self.samples]]
        at = pc.index_in(left.column("path"), value_set=right.column("path"))
        missing = left.filter(pc.is_null(at))
        extra = right.filter(pc.invert(pc.is_in(right.column("path"), value_set=left.column("path"))))
        for kind, alone in (("missing", missing), ("extra", extra)):
            counts[kind] = alone.num_rows
            paths = alone.column("path").slice(0, self.samples).to_pylist()
            samples[kind] = [Difference(path, kind, {}) for path in paths]
        pairs = (left.filter(pc.is_valid(at)), right.take(pc.drop_null(at)))
        differs = _differences(*pairs, spared)
        for kind, names in FIELDS.items():
            wrong = numpy.flatnonzero(numpy.logical_or.reduce([differs[name] for name in names]))
            counts[kind] = len(wrong)
            samples[kind] = [
                _difference(kind, names, differs, pairs, row) for row in wrong[: self.samples].tolist()
            ]
        return Found(counted, counts, samples, (newest[0], newest[1]), not own[0].equals(own[1]))


def merged(parts: Sequence[Found], most: int) -> Found:
    """All buckets together."""

    def pair(of: Callable[[Found], tuple[int, int]], how: Callable[[list[int]], int]) -> tuple[int, int]:
        return how([0, *(of(part)[0] for part in parts)]), how([0, *(of(part)[1] for part in parts)])

    return Found(
        pair(lambda part: part.nodes, sum),
        {kind: sum(part.counts[kind] for part in parts) for kind in KINDS},
        {kind: sorted(one for part in parts for one in part.samples[kind])[:most] for kind in KINDS},
        pair(lambda part: part.newest, max),
        any(part.members for part in parts),
    )


def _once(side: pa.Table) -> pa.Table:
    """One row for each path, by path."""
    ordered = side.sort_by("path").combine_chunks()
    if ordered.num_rows < 2:
        return ordered
    paths = ordered.column("path")
    first = pc.not_equal(paths.slice(1), paths.slice(0, len(paths) - 1)).to_numpy()
    return ordered.filter(pa.array(numpy.concatenate(([True], first))))


def _repeated(side: pa.Table) -> list[str]:
    counts = pc.value_counts(side.column("path").combine_chunks())
    found: list[str] = counts.field("values").filter(pc.greater(counts.field("counts"), 1)).to_pylist()
    return found


def _differences(
    left: pa.Table, right: pa.Table, spared: pa.Array
) -> dict[str, "numpy.typing.NDArray[numpy.bool_]"]:
    """For each field, which pairs differ in it. The pzxid of `spared` paths is not compared."""
    found = {}
    for name in ("data", "acl", *_NUMBERS):
        different = pc.not_equal(left.column(name), right.column(name))
        if name == "pzxid" and len(spared):
            different = pc.and_(different, pc.invert(pc.is_in(left.column("path"), value_set=spared)))
        found[name] = different.to_numpy()
    return found


def _difference(
    kind: str,
    names: Sequence[str],
    differs: dict[str, "numpy.typing.NDArray[numpy.bool_]"],
    pairs: tuple[pa.Table, pa.Table],
    row: int,
) -> Difference:
    left, right = pairs
    fields = {
        name: (str(left.column(name)[row].as_py()), str(right.column(name)[row].as_py()))
        for name in names
        if differs[name][row]
    }
    return Difference(left.column("path")[row].as_py(), kind, fields)
