"""The tables that sources, sinks and jobs share: one row for each znode, session or transaction.

Only declarations: the rows in Python and the same as Arrow and Parquet schemas
(pipeline.sources.spark.struct_of has them for Spark). Numbers, times and names are ZooKeeper's own:
StatPersisted, TxnHeader. Times are milliseconds since 1970.
"""

from typing import NamedTuple

import pyarrow as pa


class AclRow(NamedTuple):
    """One entry of an ACL."""

    perms: int
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
    version: int
    created: int  # StatPersisted's cversion: children ever created, the next sequential suffix
    aversion: int
    owner: int  # StatPersisted's ephemeralOwner: a session's id, or a container's or TTL node's mark


class SessionRow(NamedTuple):
    """One session."""

    id: int
    timeout_ms: int


class TransactionRow(NamedTuple):
    """One transaction of the log; a multi's parts are rows of their own with the same zxid."""

    zxid: int
    part: int  # position in a multi, from 0; -1 if the transaction is not a multi
    session_id: int
    cxid: int
    time: int
    type: int  # ZooKeeper's OpCode of the transaction or part; -1 is an error
    path: str | None
    data: bytes | None
    acl: tuple[AclRow, ...] | None
    version: int | None  # setData, setACL: the new one; check: the one expected, plus 1
    parent_cversion: int | None  # creates: the parent's counter after it; None if the log has none
    owner: int | None  # creates: the node's ephemeralOwner
    timeout_ms: int | None  # createSession
    error: int | None  # error: the code
    paths: tuple[str, ...] | None  # closeSession: the nodes that it deletes; None if the log does not say
    digest: int | None  # of the tree after it, as a signed long; on the last row of a transaction
    file: str  # the log's name
    offset: int  # of the entry in its file, bytes


_ACL = pa.list_(
    pa.field(
        "element",
        pa.struct(
            [
                pa.field("perms", pa.int32(), nullable=False),
                pa.field("scheme", pa.string(), nullable=False),
                pa.field("id", pa.string(), nullable=False),
            ]
        ),
        nullable=False,
    )
)

ZNODES = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("data", pa.binary()),
        pa.field("acl", _ACL),
        pa.field("czxid", pa.int64(), nullable=False),
        pa.field("mzxid", pa.int64(), nullable=False),
        pa.field("pzxid", pa.int64(), nullable=False),
        pa.field("ctime", pa.int64(), nullable=False),
        pa.field("mtime", pa.int64(), nullable=False),
        pa.field("version", pa.int32(), nullable=False),
        pa.field("created", pa.int32(), nullable=False),
        pa.field("aversion", pa.int32(), nullable=False),
        pa.field("owner", pa.int64(), nullable=False),
    ]
)

SESSIONS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("timeout_ms", pa.int32(), nullable=False),
    ]
)

TRANSACTIONS = pa.schema(
    [
        pa.field("zxid", pa.int64(), nullable=False),
        pa.field("part", pa.int32(), nullable=False),
        pa.field("session_id", pa.int64(), nullable=False),
        pa.field("cxid", pa.int32(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("type", pa.int32(), nullable=False),
        pa.field("path", pa.string()),
        pa.field("data", pa.binary()),
        pa.field("acl", _ACL),
        pa.field("version", pa.int32()),
        pa.field("parent_cversion", pa.int32()),
        pa.field("owner", pa.int64()),
        pa.field("timeout_ms", pa.int32()),
        pa.field("error", pa.int32()),
        pa.field("paths", pa.list_(pa.field("element", pa.string(), nullable=False))),
        pa.field("digest", pa.int64()),
        pa.field("file", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
    ]
)
