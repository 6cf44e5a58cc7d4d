"""The table of traffic: one row a request of a log, zketcd's or ZooKeeper's.

Columns mean the same for both. A column that only one log has is null for the other. Times are milliseconds
since 1970.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Operation(NamedTuple):
    """One operation of a multi."""

    operation: str
    path: str | None
    bytes: int
    mode: str | None
    result: str | None


class TrafficRow(NamedTuple):
    """One request."""

    time: int  # zketcd: the clock of the entry; ZooKeeper: of the transaction
    zxid: int | None  # None: not known without a replay, or the request takes none
    session_id: int  # 0: a request of a proxy itself
    operation: str  # ZooKeeper's name: create2, setData, multi, closeSession, ...
    path: str | None  # of a sequential create with its number, if that is known
    bytes: int  # of data that the request writes; a multi's sum
    size: int  # bytes of the request or transaction in the log
    mode: str | None  # of creates: ZooKeeper's CreateMode
    parts: tuple[Operation, ...] | None  # of a multi
    result: str | None  # OK, NODEEXISTS, ...; of a multi its first failure; None: not known
    paths: tuple[str, ...] | None  # ends of sessions: deleted ephemerals; removeRecursive: deleted nodes
    nodes: int | None  # znodes more or less afterwards
    grown: int | None  # bytes of paths and data more or less afterwards
    # zketcd
    position: int | None  # of the entry: etcd's revision
    proxy: str | None  # the incarnation that appended the entry
    number: int | None  # of the entry, among those of its incarnation
    request: int | None  # position in the entry, from 0
    identities: tuple[str, ...] | None  # of the client, each scheme:id
    # ZooKeeper
    cxid: int | None
    file: str | None  # the log's name
    offset: int | None  # of the entry in its file, bytes


def check(names: Iterable[str]) -> None:
    """Raises ValueError unless all columns of TRAFFIC are among `names`."""
    missing = [name for name in TrafficRow._fields if name not in set(names)]
    if missing:
        raise ValueError(f"no table of traffic: the columns {', '.join(missing)} are missing")
