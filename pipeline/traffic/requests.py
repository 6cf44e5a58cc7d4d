"""A request of zketcd's log as a row of traffic, with the data of the request alone.

zxid, result and the numbers of sequential nodes are determined when the request is applied: outcomes.py.
"""

from collections.abc import Callable
from typing import Any, assert_never

from codec.constants import CreateMode, OpCode
from codec.operation_names import operation_name
from pipeline.traffic import names
from pipeline.traffic.table import Operation, TrafficRow
from proxy.log.load.replay import Place
from proxy.state.effect import Effect
from proxy.state.ops import EXTENDED
from proxy.state.ops.multi import PartKind
from schema.budgets import Rule, decode_rule
from schema.entry import Entry, Kind, NodeDue, Request, decode_node_due
from schema.errors import BadValue


def row(entry: Entry, request: Request, place: Place) -> TrafficRow:
    """The row of a request of the entry."""
    operation, path, size, mode, parts = _facts_of(request)
    return TrafficRow(
        time=entry.clock,
        zxid=None,
        session_id=request.session_id,
        operation=operation,
        path=path,
        bytes=size,
        size=len(request.body),
        mode=mode,
        parts=parts,
        result=None,
        paths=None,
        nodes=None,
        grown=None,
        position=place.position,
        proxy=place.incarnation,
        number=place.number,
        request=place.request,
        identities=tuple(f"{identity.scheme}:{identity.id}" for identity in request.identities),
        cxid=None,
        file=None,
        offset=None,
    )


_Facts = tuple[str, str | None, int, str | None, tuple[Operation, ...] | None]


def _facts_of(request: Request) -> _Facts:
    """Operation, path, bytes of data, mode, parts."""
    if request.kind != Kind.CLIENT:
        return _proxys(request)
    name = operation_name(request.opcode)
    operation = EXTENDED.writes.get(request.opcode)
    fields = None
    if operation is not None:
        try:
            fields = operation.decode(request.body, 0)[0]
        except Exception:  # noqa: BLE001 - whatever a client has sent: it is refused where it is applied
            fields = None
    if request.opcode == OpCode.MULTI:
        parts = tuple(_part(kind, part) for kind, part in fields or ())
        return name, None, sum(part.bytes for part in parts), None, parts
    path, size, mode = _fields(request.opcode, operation.effect if operation else Effect.NOTHING, fields)
    return name, path, size, mode, None


_WITH_PATH: dict[int, Callable[[bytes], NodeDue | Rule]] = {
    Kind.NODE_DUE: decode_node_due,
    Kind.BUDGET: decode_rule,
}


def _proxys(request: Request) -> _Facts:
    path = None
    decode = _WITH_PATH.get(request.kind)
    if decode is not None:
        try:
            path = decode(request.body).path
        except BadValue:
            path = None
    return names.OF_PROXIES[Kind(request.kind)], path, 0, None, None


def _part(kind: PartKind, fields: Any) -> Operation:
    path, size, mode = _fields(kind.opcode, kind.effect, fields)
    return Operation(operation_name(kind.opcode), path, size, mode, None)


def _fields(opcode: int, effect: Effect, fields: Any) -> tuple[str | None, int, str | None]:
    """Path, bytes of data and mode, from an operation's decoded fields."""
    if isinstance(fields, str):
        return fields, 0, None
    if not isinstance(fields, tuple) or not fields:
        return None, 0, None
    path = fields[0] if opcode != OpCode.RECONFIG else None
    match effect:
        case Effect.CREATES:
            container = opcode == OpCode.CREATE_CONTAINER
            mode = CreateMode.CONTAINER.name if container else names.mode(fields[3])
            return path, len(fields[1] or b""), mode
        case Effect.SETS_DATA:
            return path, len(fields[1] or b""), None
        case Effect.NOTHING | Effect.SETS_ACL | Effect.DELETES | Effect.OF_PARTS:
            return path, 0, None
        case _:
            assert_never(effect)
