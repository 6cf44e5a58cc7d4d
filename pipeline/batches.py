"""Rows of the znodes' table as Arrow record batches, and back.

They are converted by column: an object for each cell would cost more than all the rest.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.table import ZNODES, AclRow, ZnodeRow
from schema.fixed import fixed_nodes
from schema.paths import CONFIG
from schema.znode import OPEN_ACL

_ACL = ZnodeRow._fields.index("acl")


def batch_of(rows: Sequence[ZnodeRow]) -> pa.RecordBatch:
    """`rows`, of which there is at least one, as one batch of the schema ZNODES."""
    columns = [
        pa.array(column, type=field.type)
        for column, field in zip(zip(*rows, strict=True), ZNODES, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ZNODES)


def fixed_row(path: str) -> ZnodeRow:
    """One of the nodes that every ZooKeeper has, as a new server makes it."""
    node = fixed_nodes()[path]
    acl = None if node.acl is OPEN_ACL else tuple(AclRow(*entry) for entry in node.acl)
    return ZnodeRow(path, node.data, acl, *(getattr(node, name) for name in ZnodeRow._fields[3:]))


def without_members(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, with `/zookeeper/config` as a new server makes it. `batch` has the schema ZNODES.

    Each member of an ensemble writes the client addresses of all members there, and clients that find them
    (Curator's EnsembleTracker) connect to these. So the node's content does not move with a tree.
    """
    at = pc.index(batch.column("path"), CONFIG).as_py()
    if at < 0:
        return batch
    plain = batch_of([fixed_row(CONFIG)])
    return pa.concat_batches([batch.slice(0, at), plain, batch.slice(at + 1)])


def rows_of(batch: pa.RecordBatch) -> Iterator[ZnodeRow]:
    """The rows of a batch with the columns of ZNODES, in any order. Raises ValueError if one is missing."""
    missing = [name for name in ZnodeRow._fields if name not in batch.schema.names]
    if missing:
        raise ValueError(f"no table of znodes: the columns {', '.join(missing)} are missing")
    columns = [batch.column(name).to_pylist() for name in ZnodeRow._fields]
    # Few nodes have an ACL of their own, and few ACLs differ.
    known: dict[tuple[tuple[int, str, str], ...], tuple[AclRow, ...]] = {}
    columns[_ACL] = [None if acl is None else _acl(acl, known) for acl in columns[_ACL]]
    return map(ZnodeRow._make, zip(*columns, strict=True))


def _acl(
    entries: list[dict[str, int | str]],
    known: dict[tuple[tuple[int, str, str], ...], tuple[AclRow, ...]],
) -> tuple[AclRow, ...]:
    key = tuple((int(entry["perms"]), str(entry["scheme"]), str(entry["id"])) for entry in entries)
    acl = known.get(key)
    if acl is None:
        acl = known[key] = tuple(map(AclRow._make, key))
    return acl
