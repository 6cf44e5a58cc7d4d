"""Rows of the znodes' table as a page holds them, and trees of such rows."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from codec.jute import OPEN_ACL, Acl
from pipeline.batches import batch_of, rows_of
from pipeline.etcd.limits import Limits
from pipeline.etcd.load import Load, begin
from pipeline.etcd.publish import publish
from pipeline.etcd.writer import Part, write
from pipeline.table import AclRow, SessionRow, ZnodeRow
from proxy.etcd.interface import Etcd
from schema.keys import Keyspace
from schema.record import TreeRecord
from schema.znode import Znode

FIXED = [
    ZnodeRow("/zookeeper", b"", None, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    ZnodeRow("/zookeeper/config", b"", (AclRow(1, "world", "anyone"),), 0, 0, 0, 0, 0, 0, 0, -1, 0),
    ZnodeRow("/zookeeper/quota", b"", None, 0, 0, 0, 0, 0, 0, 0, 0, 0),
]


def row(path: str, **fields: object) -> ZnodeRow:
    """A plain row but for `fields`."""
    return ZnodeRow(path, b"x", None, 5, 6, 7, 1, 2, 0, 1, 0, 0)._replace(**fields)  # type: ignore[arg-type]


def batches(rows: Iterable[ZnodeRow], size: int = 100) -> Iterator[pa.RecordBatch]:
    """The rows, so many a batch."""
    rows = list(rows)
    for start in range(0, len(rows), size):
        yield batch_of(rows[start : start + size])


def rows(found: Iterable[pa.RecordBatch]) -> list[ZnodeRow]:
    """All rows of some batches, by path."""
    return sorted(row for batch in found for row in rows_of(batch))


def shown(row: ZnodeRow) -> ZnodeRow:
    """A row as an export gives it: to clients an open ACL that is written down is the same as none."""
    return row._replace(acl=None) if row.acl == tuple(AclRow(*entry) for entry in OPEN_ACL) else row


def znode(row: ZnodeRow) -> tuple[str, Znode]:
    """The same as schema.pages has it."""
    acl = OPEN_ACL if row.acl is None else tuple(Acl(*entry) for entry in row.acl)
    *stat, owner = row[3:]
    return row.path, Znode(row.data, acl, owner, *stat)


async def load_part(etcd: Etcd, keys: Keyspace, begun: Load, rows: Iterable[ZnodeRow]) -> Part:
    """One task's part of a load."""
    return await write(etcd, keys, begun, batches(rows), Limits())


async def load_tree(
    etcd: Etcd, keys: Keyspace, rows: Iterable[ZnodeRow], sessions: Iterable[SessionRow] = (), zxid: int = 99
) -> TreeRecord:
    """A whole load."""
    begun = await begin(etcd, keys)
    part = await load_part(etcd, keys, begun, rows)
    return await publish(etcd, keys, begun, [part], zxid, list(sessions), Limits())
