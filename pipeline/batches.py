"""Rows of tables as Arrow record batches, and znodes back.

They are converted by column: an object for each cell would cost more than all the rest.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from codec.jute import OPEN_ACL
from pipeline.table import ZNODE_NUMBERS, ZNODES, AclRow, ZnodeRow
from proxy.state.node import Node
from schema.fixed import fixed_nodes
from schema.paths import CONFIG
from schema.znode import Znode

_ACL = ZnodeRow._fields.index("acl")
_ROWS = 4096  # in one batch

#: The numbers of a node, in the order of a row.
stat_of: Callable[[Znode | Node], tuple[int, ...]] = attrgetter(*ZNODE_NUMBERS)


def batch_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema = ZNODES) -> pa.RecordBatch:
    """`rows` of a table as one batch of its schema."""
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def of_rows(rows: Iterable[tuple[Any, ...]], schema: pa.Schema = ZNODES) -> Iterator[pa.RecordBatch]:
    """Rows of a table as batches."""
    waiting = iter(rows)
    while some := list(islice(waiting, _ROWS)):
        yield batch_of(some, schema)


def joined(batches: Iterable[pa.RecordBatch], least: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at least so many; the last one may have fewer."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= least:
            yield pa.concat_batches(waiting)
            waiting = []
    if waiting:
        yield pa.concat_batches(waiting)


def row_of(path: str, node: Znode | Node, acl: tuple[AclRow, ...] | None) -> ZnodeRow:
    """A node as a row."""
    return ZnodeRow(path, node.data, acl, *stat_of(node))


def fixed_row(path: str) -> ZnodeRow:
    """One of the nodes that every ZooKeeper has, as a new server makes it."""
    node = fixed_nodes()[path]
    acl = None if node.acl is OPEN_ACL else tuple(AclRow(*entry) for entry in node.acl)
    return row_of(path, node, acl)


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
    entries: list[dict[str, int | str]], known: dict[tuple[tuple[int, str, str], ...], tuple[AclRow, ...]]
) -> tuple[AclRow, ...]:
    key = tuple((int(entry["perms"]), str(entry["scheme"]), str(entry["id"])) for entry in entries)
    acl = known.get(key)
    if acl is None:
        acl = known[key] = tuple(map(AclRow._make, key))
    return acl
