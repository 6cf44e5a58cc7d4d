"""The table of traffic: one row a request of a log, zketcd's or ZooKeeper's.

Columns mean the same for both. A column that only one log has is null for the other. Times are milliseconds
since 1970.
"""

from collections.abc import Iterable
from typing import NamedTuple

from pipeline.numbers import Int32


class Operation(NamedTuple):
    """One operation of a multi."""

    operation: str
    path: str | None
    bytes: int
    mode: str | None
    result: str | None


class TrafficRow(NamedTuple):
    """One request."""

    time: int  # of the clock of the proxy that appended the entry; ZooKeeper: of the transaction
    zxid: int | None  # None: not known without a replay, as in streams, or the request takes none
    session_id: int  # of the client; 0: a request of a proxy itself
    operation: str  # ZooKeeper's name: create2, setData, multi, ...; `error` in ZooKeeper's log: it failed
    path: str | None  # of a sequential create with its number, except in streams
    bytes: int  # of data that the request writes; a multi's sum
    size: int  # bytes of the request or transaction in the log
    mode: str | None  # of creates: ZooKeeper's CreateMode; in its log sequential if the counter says so
    parts: tuple[Operation, ...] | None  # of a multi: operation, path, bytes, mode, result of each
    result: str | None  # OK, NODEEXISTS, ...; of a multi its first failure; None: not known, as in streams
    paths: tuple[str, ...] | None  # ends of sessions: deleted ephemerals; removeRecursive: deleted nodes
    nodes: int | None  # znodes more or less afterwards
    grown: int | None  # bytes of paths and data more or less afterwards; zketcd only
    # None for ZooKeeper:
    position: int | None  # of the entry: etcd's revision
    proxy: str | None  # the incarnation that appended the entry
    number: int | None  # of the entry, among those of its incarnation
    request: Int32 | None  # position in the entry, from 0
    identities: tuple[str, ...] | None  # of the client, each scheme:id
    # None for zketcd:
    cxid: Int32 | None  # of the request
    file: str | None  # the log's name
    offset: int | None  # of the entry in its file, bytes


def check(names: Iterable[str]) -> None:
    """Raises ValueError unless all columns of TRAFFIC are among `names`."""
    missing = [name for name in TrafficRow._fields if name not in set(names)]
    if missing:
        raise ValueError(f"no table of traffic: the columns {', '.join(missing)} are missing")
