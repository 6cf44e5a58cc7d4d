"""The table of traffic: one row a request of a log, zketcd's or ZooKeeper's.

Columns mean the same for both. A column that only one log has is null for the other. Times are milliseconds
since 1970.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

_ROWS = 4096  # in one batch


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


#: Spark keeps these columns' order.
_OPERATION = pa.struct(
    [
        pa.field("operation", pa.string(), nullable=False),
        pa.field("path", pa.string()),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("mode", pa.string()),
        pa.field("result", pa.string()),
    ]
)
_TEXTS = pa.list_(pa.field("element", pa.string(), nullable=False))

TRAFFIC = pa.schema(
    [
        pa.field("time", pa.int64(), nullable=False),
        pa.field("zxid", pa.int64()),
        pa.field("session_id", pa.int64(), nullable=False),
        pa.field("operation", pa.string(), nullable=False),
        pa.field("path", pa.string()),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("mode", pa.string()),
        pa.field("parts", pa.list_(pa.field("element", _OPERATION, nullable=False))),
        pa.field("result", pa.string()),
        pa.field("paths", _TEXTS),
        pa.field("nodes", pa.int64()),
        pa.field("grown", pa.int64()),
        pa.field("position", pa.int64()),
        pa.field("proxy", pa.string()),
        pa.field("number", pa.int64()),
        pa.field("request", pa.int32()),
        pa.field("identities", _TEXTS),
        pa.field("cxid", pa.int32()),
        pa.field("file", pa.string()),
        pa.field("offset", pa.int64()),
    ]
)


def batches(rows: Iterable[TrafficRow]) -> Iterator[pa.RecordBatch]:
    """Rows as batches of TRAFFIC."""
    waiting = iter(rows)
    while some := list(islice(waiting, _ROWS)):
        columns = dict(zip(TrafficRow._fields, map(list, zip(*some, strict=True)), strict=True))
        columns["parts"] = [
            None if parts is None else [part._asdict() for part in parts] for parts in columns["parts"]
        ]
        arrays = [pa.array(columns[field.name], field.type) for field in TRAFFIC]
        yield pa.RecordBatch.from_arrays(arrays, schema=TRAFFIC)


def rows_of(batch: pa.RecordBatch) -> Iterator[TrafficRow]:
    """The rows of a batch with the columns of TRAFFIC, in any order. Raises ValueError if one is missing."""
    check(batch.schema.names)
    columns: dict[str, list[Any]] = {name: batch.column(name).to_pylist() for name in TrafficRow._fields}
    columns["parts"] = [
        None if parts is None else tuple(Operation(**part) for part in parts) for parts in columns["parts"]
    ]
    for name in ("paths", "identities"):
        columns[name] = [None if texts is None else tuple(texts) for texts in columns[name]]
    return map(TrafficRow._make, zip(*columns.values(), strict=True))


def check(names: Iterable[str]) -> None:
    """Raises ValueError unless all columns of TRAFFIC are among `names`."""
    missing = [name for name in TrafficRow._fields if name not in set(names)]
    if missing:
        raise ValueError(f"no table of traffic: the columns {', '.join(missing)} are missing")
