"""The tables that sources, sinks and jobs share: one row for each znode, session or transaction.

The rows are declared once; their schemas for Arrow and Parquet are derived (and those for Spark from these:
pipeline.sources.spark.struct_of). Numbers, times and names are ZooKeeper's own:
StatPersisted, TxnHeader. Times (`TIMES`) are milliseconds since 1970.
"""

from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import pyarrow as pa

from pipeline.numbers import Int32


class AclRow(NamedTuple):
    """One entry of an ACL."""

    perms: Int32
    scheme: str
    id: str


class ZnodeRow(NamedTuple):
    """One znode, with all that ZooKeeper persists of it."""

    path: str  # "/" for the root
    data: bytes | None  # None is not the same as empty
    acl: tuple[AclRow, ...] | None  # None: the open ACL that ZooKeeper keeps without an entry in its cache
    czxid: int
    mzxid: int
    pzxid: int
    ctime: int
    mtime: int
    version: Int32
    created: Int32  # StatPersisted's cversion: children ever created, the next sequential suffix
    aversion: Int32
    owner: int  # StatPersisted's ephemeralOwner: a session's id, or a container's or TTL node's mark


#: The numbers of a znode, in the order of ZooKeeper's files and of its digest.
ZNODE_NUMBERS = ZnodeRow._fields[3:]


class SessionRow(NamedTuple):
    """One session."""

    id: int
    timeout_ms: Int32


class TransactionRow(NamedTuple):
    """One transaction of the log; a multi's parts are rows of their own with the same zxid."""

    zxid: int
    part: Int32  # position in a multi, from 0; -1 if the transaction is not a multi
    session_id: int
    cxid: Int32
    time: int
    type: Int32  # ZooKeeper's OpCode of the transaction or part; -1 is an error
    path: str | None
    data: bytes | None
    acl: tuple[AclRow, ...] | None
    version: Int32 | None  # setData, setACL: the new one; check: the one expected, plus 1
    parent_cversion: Int32 | None  # creates: the parent's counter after it; None if the log has none
    owner: int | None  # creates: the node's ephemeralOwner
    timeout_ms: Int32 | None  # createSession
    error: Int32 | None  # error: the code
    paths: tuple[str, ...] | None  # closeSession: the nodes that it deletes; None if the log does not say
    digest: int | None  # of the tree after it, as a signed long; on the last row of a transaction
    file: str  # the log's name
    offset: int  # of the entry in its file, bytes


#: The columns of all tables that are times.
TIMES = frozenset(("time", "ctime", "mtime"))


def schema_of(row: type) -> pa.Schema:
    """A NamedTuple as a schema: what may be None is nullable; a tuple of texts or of rows is a list."""
    return pa.schema(_fields_of(row))


def _fields_of(row: type) -> list[pa.Field]:
    found = []
    for name, hint in get_type_hints(row, include_extras=True).items():
        optional = NoneType in get_args(hint)
        kind = get_args(hint)[0] if optional else hint
        found.append(pa.field(name, _type_of(kind), nullable=optional))
    return found


def _type_of(kind: Any) -> pa.DataType:
    if get_origin(kind) is tuple:
        return pa.list_(pa.field("element", _type_of(get_args(kind)[0]), nullable=False))
    if kind == Int32:
        return pa.int32()
    if kind is int:
        return pa.int64()
    if kind in (str, bytes):
        return pa.string() if kind is str else pa.binary()
    return pa.struct(_fields_of(kind))


ZNODES = schema_of(ZnodeRow)
SESSIONS = schema_of(SessionRow)
TRANSACTIONS = schema_of(TransactionRow)
