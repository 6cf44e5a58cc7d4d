"""The tables that sources, sinks and jobs meet in: one row a znode, a session, a transaction.

Only declarations: the rows as Python sees them and the same as Spark and Parquet know them. Numbers, times
and names are ZooKeeper's own: StatPersisted, TxnHeader. Times are milliseconds since 1970.
"""

from typing import NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)


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
    part: int  # position in a multi, from 0; -1 where the transaction is none
    session_id: int
    cxid: int
    time: int
    type: int  # ZooKeeper's OpCode of the transaction or part; -1 is an error
    path: str | None
    data: bytes | None
    acl: tuple[AclRow, ...] | None
    version: int | None  # setData, setACL: the new one; check: the one expected, plus 1
    parent_cversion: int | None  # creates: the parent's counter behind it; None where the log has none
    owner: int | None  # creates: the node's ephemeralOwner
    timeout_ms: int | None  # createSession
    error: int | None  # error: the code
    paths: tuple[str, ...] | None  # closeSession: what goes with it; None where the log does not say
    digest: int | None  # of the tree behind it, as a signed long; on the last row of a transaction
    file: str  # the log's name
    offset: int  # of the entry in its file, bytes


_ACL = ArrayType(
    StructType(
        [
            StructField("perms", IntegerType(), nullable=False),
            StructField("scheme", StringType(), nullable=False),
            StructField("id", StringType(), nullable=False),
        ]
    ),
    containsNull=False,
)

ZNODES = StructType(
    [
        StructField("path", StringType(), nullable=False),
        StructField("data", BinaryType()),
        StructField("acl", _ACL),
        StructField("czxid", LongType(), nullable=False),
        StructField("mzxid", LongType(), nullable=False),
        StructField("pzxid", LongType(), nullable=False),
        StructField("ctime", LongType(), nullable=False),
        StructField("mtime", LongType(), nullable=False),
        StructField("version", IntegerType(), nullable=False),
        StructField("created", IntegerType(), nullable=False),
        StructField("aversion", IntegerType(), nullable=False),
        StructField("owner", LongType(), nullable=False),
    ]
)

SESSIONS = StructType(
    [
        StructField("id", LongType(), nullable=False),
        StructField("timeout_ms", IntegerType(), nullable=False),
    ]
)

TRANSACTIONS = StructType(
    [
        StructField("zxid", LongType(), nullable=False),
        StructField("part", IntegerType(), nullable=False),
        StructField("session_id", LongType(), nullable=False),
        StructField("cxid", IntegerType(), nullable=False),
        StructField("time", LongType(), nullable=False),
        StructField("type", IntegerType(), nullable=False),
        StructField("path", StringType()),
        StructField("data", BinaryType()),
        StructField("acl", _ACL),
        StructField("version", IntegerType()),
        StructField("parent_cversion", IntegerType()),
        StructField("owner", LongType()),
        StructField("timeout_ms", IntegerType()),
        StructField("error", IntegerType()),
        StructField("paths", ArrayType(StringType(), containsNull=False)),
        StructField("digest", LongType()),
        StructField("file", StringType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
    ]
)
