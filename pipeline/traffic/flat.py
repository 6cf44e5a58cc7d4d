"""Rows for queries: traffic as requests and operations, with plain values that every SQL has.

Booleans are 0 and 1, days are ISO dates in UTC, sessions are hexadecimal as ZooKeeper prints them.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from codec.longs import hex64
from pipeline.traffic import names
from pipeline.traffic.clickhouse import Shape, shape_of
from pipeline.traffic.table import Operation, TrafficRow
from schema.paths import ROOT, parent_of, prefix_of, without_number

DEPTH = 3  # names in a path's prefix, by default


class RequestRow(NamedTuple):
    """One request."""

    time: int  # milliseconds since 1970
    second: int
    day: str
    session: str
    identity: str  # all of them, separated by a space
    address: str | None  # of the client; ZooKeeper's log has none
    operation: str
    parts: int  # of a multi; else 0
    bytes: int
    size: int
    result: str | None
    failed: int
    nodes: int | None
    grown: int | None


class OperationRow(NamedTuple):
    """One operation: a request, a part of a multi, or a deletion that a request implies."""

    time: int
    second: int
    day: str
    session: str
    request: str  # names the request, within one log
    operation: str
    path: str | None
    directory: str | None
    prefix: str | None
    stem: str | None  # of a sequential node: the path without its number
    bytes: int
    ephemeral: int
    sequential: int
    created: int
    deleted: int
    failed: int
    result: str | None
    in_multi: int
    implied: int  # an ephemeral deleted with its session, or a node below a deleted one
    clickhouse_table: str | None
    clickhouse_kind: str | None
    clickhouse_replica: str | None
    clickhouse_part: str | None
    clickhouse_change: str | None


def request_of(row: TrafficRow) -> RequestRow:
    """The request itself."""
    return RequestRow(
        row.time,
        row.time // 1000,
        day_of(row.time),
        hex64(row.session_id),
        " ".join(row.identities or ()),
        _address(row),
        row.operation,
        len(row.parts or ()),
        row.bytes,
        row.size,
        row.result,
        int(_failed(row.result)),
        row.nodes,
        row.grown,
    )


def operations_of(row: TrafficRow, depth: int = DEPTH) -> Iterator[OperationRow]:
    """The operations of a request. `depth` is the number of names in a prefix.

    If the result is not known (a stream without results), the operation counts as done.
    """
    failed = _failed(row.result)
    if row.parts is not None:
        for part in row.parts:
            yield _row(row, part, depth, failed, in_multi=True)
        return
    itself = Operation(row.operation, row.path, row.bytes, row.mode, row.result)
    if row.operation == names.REMOVE_RECURSIVE and row.paths is not None:
        yield _row(row, itself, depth, failed)._replace(deleted=0)
    else:
        yield _row(row, itself, depth, failed)
    for path in row.paths or ():
        gone = _row(row, Operation(row.operation, path, 0, None, row.result), depth, failed)
        ephemeral = int(row.operation == names.CLOSE_SESSION)
        yield gone._replace(deleted=1, implied=1, ephemeral=ephemeral)


def day_of(time: int) -> str:
    """The day of a moment in milliseconds since 1970; "" for one that no calendar has."""
    try:
        return datetime.fromtimestamp(time / 1000, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return ""


def _address(row: TrafficRow) -> str | None:
    proved = (identity.partition(":") for identity in row.identities or ())
    return next((value for scheme, _, value in proved if scheme == "ip"), None)


def _failed(result: str | None) -> bool:
    return result not in (None, names.OK)


def _row(
    row: TrafficRow, operation: Operation, depth: int, failed: bool, *, in_multi: bool = False
) -> OperationRow:
    path = operation.path
    name = operation.operation
    shape = shape_of(path) if path else None
    table, kind, replica, part, change = shape or Shape("", "")
    sequential = names.is_sequential(operation.mode)
    # Operations of Keeper that may have nothing to do.
    idle = row.nodes == 0 and not in_multi
    return OperationRow(
        time=row.time,
        second=row.time // 1000,
        day=day_of(row.time),
        session=hex64(row.session_id),
        request=_name(row),
        operation=name,
        path=path,
        directory=_directory(path),
        prefix=prefix_of(path, depth) if path else None,
        stem=without_number(path) if path and sequential else None,
        bytes=operation.bytes,
        ephemeral=int(names.is_ephemeral(operation.mode)),
        sequential=int(sequential),
        created=int(name in names.CREATES and not failed and not idle),
        deleted=int(name in names.DELETES and not failed and not idle),
        failed=int(failed),
        result=operation.result,
        in_multi=int(in_multi),
        implied=0,
        clickhouse_table=table or None,
        clickhouse_kind=kind or None,
        clickhouse_replica=replica,
        clickhouse_part=part,
        clickhouse_change=change,
    )


def _directory(path: str | None) -> str | None:
    if not path or not path.startswith(ROOT):
        return None
    return parent_of(path) if path != ROOT else ROOT


def _name(row: TrafficRow) -> str:
    if row.file is not None:
        return f"{row.file}:{row.offset}"
    return f"{row.proxy}:{row.number}:{row.request}"
