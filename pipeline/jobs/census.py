"""One pass over a tree before it is moved: what there is, what cannot be moved, which nodes are ephemeral.

Runs on Spark's workers, a batch at a time; what comes back to the driver is small but for the
ephemerals' paths.
"""

from collections import Counter
from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from pipeline.batches import rows_of
from pipeline.etcd.records import kind_of, obstacle_to
from pipeline.formats import digest
from pipeline.table import AclRow, ZnodeRow
from proxy.tree import session_of
from schema.keys import Keyspace
from schema.paths import ROOT
from schema.values import OPEN_ACL

_SCHEMA = "kind string, text string, number long"
_ARROW = pa.schema([("kind", pa.string()), ("text", pa.string()), ("number", pa.int64())])
_OPEN = tuple(AclRow(*entry) for entry in OPEN_ACL)
_digested = attrgetter(
    "data", "czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "created", "aversion", "owner"
)
_MOST_TOLD = 100  # obstacles of one batch that are told by their paths

Finding = tuple[str, str, int]


class Obstacle(NamedTuple):
    """A znode that zketcd cannot hold, and why."""

    path: str
    reason: str


class Ephemeral(NamedTuple):
    """An ephemeral znode and its session."""

    path: str
    session_id: int


class Census(NamedTuple):
    """What a tree holds. Bytes are those of the data."""

    nodes: int
    roots: int  # rows for /: one in a whole tree
    data_bytes: int
    kinds: dict[str, int]  # persistent, ephemeral, container, ttl
    with_acl: int  # nodes with another ACL than the open one
    max_zxid: int
    digests: frozenset[int]  # ZooKeeper's, version 2, and what a server makes of it whose locale is ASCII
    ephemerals: list[Ephemeral]
    obstacles: list[Obstacle]  # some of them
    obstacle_count: int


def take(frame: DataFrame, keys: Keyspace, max_request_bytes: int) -> Census:
    """Go through `frame`, a table of znodes."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            findings = _findings(rows_of(batch), keys, max_request_bytes)
            kinds, texts, numbers = zip(*findings, strict=True)
            yield pa.RecordBatch.from_arrays(
                [pa.array(kinds), pa.array(texts), pa.array(numbers, pa.int64())], schema=_ARROW
            )

    sums: Counter[str] = Counter()
    max_zxid = 0
    ephemerals = []
    obstacles = []
    for kind, text, number in frame.mapInArrow(count, _SCHEMA).collect():
        if kind == "ephemeral":
            ephemerals.append(Ephemeral(text, number))
        elif kind == "obstacle":
            obstacles.append(Obstacle(*text.split("\0")))
        elif kind == "zxid":
            max_zxid = max(max_zxid, number)
        else:
            sums[kind] += number
    return Census(
        nodes=sums["nodes"],
        roots=sums["roots"],
        data_bytes=sums["bytes"],
        kinds={kind: sums[f"is {kind}"] for kind in ("persistent", "ephemeral", "container", "ttl")},
        with_acl=sums["acl"],
        max_zxid=max_zxid,
        digests=frozenset(digest.signed(sums[name]) for name in ("digest", "narrow digest")),
        ephemerals=sorted(ephemerals),
        obstacles=sorted(obstacles)[:_MOST_TOLD],
        obstacle_count=sums["obstacles"],
    )


def _findings(rows: Iterator[ZnodeRow], keys: Keyspace, max_request_bytes: int) -> list[Finding]:
    found: list[Finding] = []
    kinds: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    max_zxid = 0
    for row in rows:
        size = len(row.data or b"")
        sums["nodes"] += 1
        sums["bytes"] += size
        sums["acl"] += row.acl is not None and row.acl != _OPEN
        sums["roots"] += row.path == ROOT
        path = b"" if row.path == ROOT else row.path.encode()
        stat = _digested(row)
        share = digest.of_node(path, *stat)
        sums["digest"] += share
        # A server whose locale is not UTF-8 has summed a "?" for each character beyond ASCII.
        narrow = path if path.isascii() else row.path.encode("ascii", "replace")
        sums["narrow digest"] += share if narrow is path else digest.of_node(narrow, *stat)
        kind = kind_of(row.owner)
        kinds[kind] += 1
        if kind == "ephemeral":
            found.append(("ephemeral", row.path, session_of(row.owner)))
        max_zxid = max(max_zxid, row.czxid, row.mzxid, row.pzxid)
        reason = obstacle_to(keys, row.path, size, row.acl, max_request_bytes)
        if reason is not None:
            sums["obstacles"] += 1
            if sums["obstacles"] <= _MOST_TOLD:
                found.append(("obstacle", f"{row.path}\0{reason}", 0))
    found += [(name, "", number) for name, number in sums.items()]
    found += [(f"is {kind}", "", number) for kind, number in kinds.items()]
    found.append(("zxid", "", max_zxid))
    return found
