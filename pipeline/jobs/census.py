"""One pass over a tree before it is moved: its contents, what cannot be moved, which ephemerals stay behind.

It runs a batch at a time. The results for the driver do not grow with the tree: hashes of paths are checked
in buckets, and of the ephemerals that stay behind only their sessions and their parents are collected.
"""

import pickle
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import NamedTuple

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from codec.jute import OPEN_ACL
from codec.longs import signed
from pipeline.batches import without_members
from pipeline.etcd import columns, paths
from pipeline.etcd.paths import Faults, Hashes
from pipeline.etcd.storable import obstacle_to
from pipeline.job import Runner, Table
from schema.pages import pack_acls
from schema.paths import ROOT, parent_of
from schema.znode import kind_of

_MOST_TOLD = 100  # obstacles of one task that are reported with their paths
_LONG_PATH = 4096  # characters; a longer one is checked alone
_TOGETHER = 256  # batches whose paths' hashes are put into buckets at once
_SAMPLED = 8  # of so many batches of a task one is packed: all would double the time of a survey
_KINDS = ("persistent", "ephemeral", "container", "ttl")


class Obstacle(NamedTuple):
    """A znode that zketcd cannot hold, and why."""

    path: str
    reason: str


class Dropped(NamedTuple):
    """The ephemerals whose sessions do not move."""

    nodes: int
    paths: tuple[str, ...]  # the first ones
    owners: frozenset[int]
    parents: frozenset[str]


class Census(NamedTuple):
    """The contents of a tree. Bytes are those of the data."""

    nodes: int
    roots: int  # rows for /: one in a complete tree
    data_bytes: int
    page_bytes: int  # about what its pages take, by a sample of them
    kinds: dict[str, int]  # persistent, ephemeral, container, ttl
    with_acl: int  # nodes with another ACL than the open one
    max_zxid: int
    digests: frozenset[int]  # ZooKeeper's, version 2, and that of a server whose locale is ASCII
    dropped: Dropped
    obstacles: list[Obstacle]  # some of them
    obstacle_count: int
    fault: str | None  # why the paths do not make a tree


@dataclass
class _Found:
    """The results of one task."""

    sums: Counter[str] = field(default_factory=Counter)
    max_zxid: int = 0
    paths: list[str] = field(default_factory=list)  # the first ephemerals that are dropped
    owners: set[int] = field(default_factory=set)
    parents: set[str] = field(default_factory=set)
    obstacles: list[Obstacle] = field(default_factory=list)


#: Hashes of paths, and in the last row of a task what it has found.
_SCHEMA = paths.SCHEMA.append(pa.field("found", pa.binary()))


@dataclass(frozen=True)
class _Count:
    """Counts the rows of one task, and puts their paths' hashes into buckets."""

    max_request_bytes: int
    moving: frozenset[int]  # sessions
    listed: int
    buckets: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The hashes."""
        found = _Found()
        hashed: list[tuple[Hashes, Hashes]] = []
        for batch in batches:
            if batch.num_rows:
                self._add(found, without_members(batch))
                hashed.append(paths.hashes(batch.column("path")))
            if len(hashed) == _TOGETHER:
                yield from self._assigned(hashed)
                hashed = []
        yield from self._assigned(hashed)
        yield 0, pa.RecordBatch.from_pylist([{"found": pickle.dumps(found)}], _SCHEMA)

    def _assigned(self, hashed: list[tuple[Hashes, Hashes]]) -> Iterator[tuple[int, pa.RecordBatch]]:
        for bucket, batch in paths.assigned(hashed, self.buckets):
            yield bucket, batch.append_column(_SCHEMA.field("found"), pa.nulls(batch.num_rows, pa.binary()))

    def _add(self, found: _Found, batch: pa.RecordBatch) -> None:
        sums = found.sums
        names: list[str] = batch.column("path").to_pylist()
        self._sample(sums, batch, names)
        sizes = columns.lengths(batch.column("data"))
        acls, indexes = columns.acl_table(batch.column("acl"))
        sums["nodes"] += batch.num_rows
        sums["bytes"] += int(sizes.sum())
        sums["roots"] += names.count(ROOT)
        sums["acl"] += int(numpy.array([acl != OPEN_ACL for acl in acls])[indexes].sum())
        zxids = (int(columns.numbers(batch, name).max()) for name in ("czxid", "mzxid", "pzxid"))
        found.max_zxid = max(found.max_zxid, *zxids)
        shares = columns.hashes(batch)
        sums["digest"] += sum(shares)
        # A server whose locale is not UTF-8 has used a "?" for each character beyond ASCII.
        sums["narrow digest"] += sum(columns.hashes(batch, ascii_only=True) if not _ascii(names) else shares)
        owners, place, counts = numpy.unique(
            columns.numbers(batch, "owner"), return_inverse=True, return_counts=True
        )
        kinds = [kind_of(int(owner)) for owner in owners]
        for kind, number in zip(kinds, counts, strict=True):
            sums[kind] += int(number)
        ephemeral = numpy.array([kind == "ephemeral" for kind in kinds])[place]
        ends = ephemeral & ~numpy.isin(owners, sorted(self.moving))[place]
        gone = [names[at] for at in numpy.flatnonzero(ends).tolist()]
        sums["dropped"] += len(gone)
        found.paths = nsmallest(self.listed + 1, [*found.paths, *gone])
        found.owners.update(numpy.unique(owners[place[ends]]).tolist())
        # One without a slash is an obstacle, as below.
        found.parents.update(parent_of(path) for path in gone if "/" in path)
        acl_sizes = numpy.array([len(pack_acls([acl])) for acl in acls])[indexes]
        suspicious = sizes + acl_sizes > self.max_request_bytes // 2
        for at in numpy.flatnonzero(suspicious).tolist() if _plain(names) else range(len(names)):
            reason = obstacle_to(names[at], int(sizes[at]), int(acl_sizes[at]), self.max_request_bytes)
            if reason is not None:
                sums["obstacles"] += 1
                if sums["obstacles"] <= _MOST_TOLD:
                    found.obstacles.append(Obstacle(names[at], reason))

    def _sample(self, sums: Counter[str], batch: pa.RecordBatch, names: list[str]) -> None:
        """Find out how large the pages of some batches are."""
        sums["raw"] += batch.nbytes
        sums["batches"] += 1
        if sums["batches"] % _SAMPLED == 1 and "\0" not in "".join(names):
            sums["sampled"] += batch.nbytes
            pages = columns.pages_of(iter([batch]), self.max_request_bytes)
            sums["pages"] += sum(len(page) for page, _ in pages)


def take(
    runner: Runner, znodes: Table, max_request_bytes: int, moving: Collection[int] = (), listed: int = 0
) -> Census:
    """Read a table of znodes; once more if its paths may be wrong.

    `moving`: sessions that move with their ephemerals; `listed`: of how many others the path is wanted.
    """
    count = _Count(max_request_bytes, frozenset(moving), listed, znodes.buckets)
    buckets = runner.shuffled("survey", [(znodes, count)], _gather)
    found = [pickle.loads(raw) for raws, _ in buckets for raw in raws]
    sums: Counter[str] = sum((part.sums for part in found), Counter())
    faults = paths.merged(faults for _, faults in buckets)
    return Census(
        nodes=sums["nodes"],
        roots=sums["roots"],
        data_bytes=sums["bytes"],
        page_bytes=sums["pages"] * sums["raw"] // max(1, sums["sampled"]),
        kinds={kind: sums[kind] for kind in _KINDS},
        with_acl=sums["acl"],
        max_zxid=max([0, *(part.max_zxid for part in found)]),
        digests=frozenset(signed(sums[name]) for name in ("digest", "narrow digest")),
        dropped=Dropped(
            sums["dropped"],
            tuple(nsmallest(listed + 1, [path for part in found for path in part.paths])),
            frozenset[int]().union(*(part.owners for part in found)),
            frozenset[str]().union(*(part.parents for part in found)),
        ),
        obstacles=sorted(obstacle for part in found for obstacle in part.obstacles)[:_MOST_TOLD],
        obstacle_count=sums["obstacles"],
        fault=_fault(runner, znodes, faults) if faults else None,
    )


def _gather(batches: Iterator[pa.RecordBatch]) -> tuple[list[bytes], Faults]:
    """The results of the tasks, which bucket 0 has; and the faults of this bucket's paths."""
    raws: list[bytes] = []

    def hashed() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            raws.extend(raw for raw in batch.column("found").to_pylist() if raw is not None)
            yield batch.filter(pc.is_valid(batch.column("hash")))

    faults = paths.check(hashed())
    return raws, faults


def _fault(runner: Runner, znodes: Table, faults: Faults) -> str | None:
    def look(batches: Iterator[pa.RecordBatch]) -> list[str]:
        return [path for batch in batches for path in paths.suspects(batch.column("path"), faults)]

    found = runner.each("look for wrong paths", znodes, look)
    return paths.describe((path for some in found for path in some), faults)


def _ascii(names: list[str]) -> bool:
    return "".join(names).isascii()


def _plain(names: list[str]) -> bool:
    """Whether all paths are surely valid: schema.paths.is_valid has the rule, this checks many at once."""
    text = "\n".join([name for name in names if name != ROOT])
    if not text:
        return True
    return (
        text.isascii()
        and text.replace("\n", "").isprintable()
        and "//" not in text
        and "/." not in text
        and "/\n" not in text
        and text[:1] == "/" != text[-1:]
        and text.count("\n") == text.count("\n/") == len(names) - names.count(ROOT) - 1
        and max(map(len, names)) < _LONG_PATH
    )


class Ending:
    """The tree after the end of the sessions that do not move, in one transaction `zxid`.

    As DataTree.deleteNode does: the parents' pzxid changes, their count of children ever created does not.
    """

    def __init__(self, dropped: Dropped, zxid: int) -> None:
        self._owners = sorted(dropped.owners)
        self._parents = sorted(dropped.parents)
        self._zxid = zxid

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that stay."""
        owners = pa.array(self._owners, pa.int64())
        parents = pa.array(self._parents, pa.string())
        for batch in batches:
            if not self._owners:
                yield batch
                continue
            stays = batch.filter(pc.invert(pc.is_in(batch.column("owner"), owners)))
            at = stays.schema.get_field_index("pzxid")
            pzxid = stays.column(at)
            moved = pc.max_element_wise(pzxid, pa.scalar(self._zxid, pa.int64()))
            marked = pc.if_else(pc.is_in(stays.column("path"), parents), moved, pzxid)
            yield stays.set_column(at, stays.schema.field(at), marked)
