"""One pass over a tree before it is moved: its contents, what cannot be moved, which nodes are ephemeral.

It runs a batch at a time. The results for the driver are small, except the paths of the ephemerals and 8
bytes for each path.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy
import pyarrow as pa

from pipeline.batches import without_members
from pipeline.etcd import columns, paths
from pipeline.etcd.paths import Paths
from pipeline.etcd.records import kind_of, obstacle_to
from pipeline.formats import digest
from pipeline.running.runner import Runner
from pipeline.running.table import Table
from schema.pages import pack_acls
from schema.paths import ROOT
from schema.znode import OPEN_ACL, session_of

_MOST_TOLD = 100  # obstacles of one task that are reported with their paths
_LONG_PATH = 4096  # characters; a longer one is checked alone
_KINDS = ("persistent", "ephemeral", "container", "ttl")


class Obstacle(NamedTuple):
    """A znode that zketcd cannot hold, and why."""

    path: str
    reason: str


class Ephemeral(NamedTuple):
    """An ephemeral znode and its session."""

    path: str
    session_id: int


class Census(NamedTuple):
    """The contents of a tree. Bytes are those of the data."""

    nodes: int
    roots: int  # rows for /: one in a complete tree
    data_bytes: int
    kinds: dict[str, int]  # persistent, ephemeral, container, ttl
    with_acl: int  # nodes with another ACL than the open one
    max_zxid: int
    digests: frozenset[int]  # ZooKeeper's, version 2, and that of a server whose locale is ASCII
    ephemerals: list[Ephemeral]
    obstacles: list[Obstacle]  # some of them
    obstacle_count: int
    fault: str | None  # why the paths do not make a tree


@dataclass
class _Found:
    """The results of one task."""

    sums: Counter[str] = field(default_factory=Counter)
    max_zxid: int = 0
    ephemerals: list[Ephemeral] = field(default_factory=list)
    obstacles: list[Obstacle] = field(default_factory=list)
    paths: Paths = field(default_factory=lambda: Paths.of(()))


def take(runner: Runner, znodes: Table, max_request_bytes: int) -> Census:
    """Read a table of znodes; once more if its paths may be wrong."""

    def count(batches: Iterator[pa.RecordBatch]) -> _Found:
        return _count(batches, max_request_bytes)

    found = runner.each("survey", znodes, count)
    sums = sum((part.sums for part in found), Counter())
    faults = paths.check(part.paths for part in found)
    return Census(
        nodes=sums["nodes"],
        roots=sums["roots"],
        data_bytes=sums["bytes"],
        kinds={kind: sums[kind] for kind in _KINDS},
        with_acl=sums["acl"],
        max_zxid=max([0, *(part.max_zxid for part in found)]),
        digests=frozenset(digest.signed(sums[name]) for name in ("digest", "narrow digest")),
        ephemerals=sorted(ephemeral for part in found for ephemeral in part.ephemerals),
        obstacles=sorted(obstacle for part in found for obstacle in part.obstacles)[:_MOST_TOLD],
        obstacle_count=sums["obstacles"],
        fault=_fault(runner, znodes, faults) if faults else None,
    )


def _fault(runner: Runner, znodes: Table, faults: paths.Faults) -> str | None:
    def look(batches: Iterator[pa.RecordBatch]) -> list[str]:
        return [path for batch in batches for path in paths.suspects(batch.column("path"), faults)]

    found = runner.each("look for wrong paths", znodes, look)
    return paths.describe((path for some in found for path in some), faults)


def _count(batches: Iterable[pa.RecordBatch], max_request_bytes: int) -> _Found:
    found = _Found()
    hashed = []
    for batch in batches:
        if batch.num_rows:
            _add(found, without_members(batch), max_request_bytes)
            hashed.append(paths.hashes(batch.column("path")))
    found.paths = Paths.of(hashed)
    return found


def _add(found: _Found, batch: pa.RecordBatch, max_request_bytes: int) -> None:
    sums = found.sums
    names: list[str] = batch.column("path").to_pylist()
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
    found.ephemerals += (
        Ephemeral(names[at], session_of(int(owners[place[at]])))
        for at in numpy.flatnonzero(ephemeral).tolist()
    )
    acl_sizes = numpy.array([len(pack_acls([acl])) for acl in acls])[indexes]
    suspicious = sizes + acl_sizes > max_request_bytes // 2
    for at in numpy.flatnonzero(suspicious).tolist() if _plain(names) else range(len(names)):
        reason = obstacle_to(names[at], int(sizes[at]), int(acl_sizes[at]), max_request_bytes)
        if reason is not None:
            sums["obstacles"] += 1
            if sums["obstacles"] <= _MOST_TOLD:
                found.obstacles.append(Obstacle(names[at], reason))


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
