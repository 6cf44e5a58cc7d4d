"""Rows of traffic with the outcome of each request, from a replay of zketcd's log."""

from collections.abc import Callable, Mapping, Sequence

from codec.constants import ErrorCode, EventType, OpCode
from codec.packets import MULTI_HEADER
from pipeline.traffic import names
from pipeline.traffic.requests import row
from pipeline.traffic.table import Operation, TrafficRow
from proxy.log.load.replay import Place
from proxy.state.machine import Machine
from proxy.state.outcome import Outcome
from proxy.state.watches import TreeEvent
from schema.entry import Entry, Kind, Request

_CREATED = int(EventType.NODE_CREATED)
_DELETED = int(EventType.NODE_DELETED)
_PART_SIZE = MULTI_HEADER.size + 4  # of a failed multi's reply: a header and the code again


class Recorder:
    """Executes the requests of a replay, and reports their rows."""

    def __init__(self, after: Mapping[str, int], report: Callable[[TrafficRow], None]) -> None:
        """`after`: the last number of each incarnation whose rows are not wanted."""
        self._after = after
        self._report = report

    def execute(self, machine: Machine, entry: Entry, request: Request, place: Place) -> None:
        """Apply the request to the machine. Raises UnknownLevel."""
        if place.number <= self._after.get(place.incarnation, 0):
            machine.execute(request)
            return
        machine.transaction.watched = True
        zxid, nodes, size = machine.zxid, len(machine.tree.nodes), machine.tree.data_size
        # Only the reply to a multi says which of its parts has failed.
        multi = request.kind == Kind.CLIENT and request.opcode == OpCode.MULTI
        outcome = machine.execute(request, wants_reply=multi)
        said = row(entry, request, place)
        failed = _failure(outcome) if multi else None
        result = outcome.err if failed is None else failed[1]
        made = [event.path for event in machine.transaction.events if event.kind == _CREATED]
        self._report(
            said._replace(
                zxid=machine.zxid if machine.zxid != zxid else None,
                path=_made(said.operation, said.path, said.mode, made),
                parts=None if said.parts is None else _parts(said.parts, failed, result, made),
                result=names.result(result),
                paths=_gone(said.operation, machine.transaction.events),
                nodes=len(machine.tree.nodes) - nodes,
                grown=machine.tree.data_size - size,
            )
        )


def _made(operation: str, path: str | None, mode: str | None, made: list[str]) -> str | None:
    """The path that a create has made, which is removed from `made`; `made` has the order of creates."""
    if path is None or operation not in names.CREATES or not made:
        return path
    if made[0] == path or (names.is_sequential(mode) and made[0].startswith(path)):
        return made.pop(0)
    return path


def _parts(
    parts: Sequence[Operation], failed: tuple[int, int] | None, result: int, made: list[str]
) -> tuple[Operation, ...]:
    """The parts with their results, as the reply has them."""
    if failed is None:
        name = names.result(result)
        return tuple(
            part._replace(path=_made(part.operation, part.path, part.mode, made), result=name)
            for part in parts
        )
    position, code = failed
    behind = names.result(ErrorCode.RUNTIME_INCONSISTENCY)
    codes = [names.OK] * position + [names.result(code)] + [behind] * len(parts)
    return tuple(part._replace(result=name) for part, name in zip(parts, codes, strict=False))


def _failure(outcome: Outcome) -> tuple[int, int] | None:
    """Position and code of the part that has failed, from the reply to a multi."""
    body = outcome.body
    if len(body) < _PART_SIZE or MULTI_HEADER.unpack_from(body)[0] != OpCode.ERROR:
        return None
    for position in range(len(body) // _PART_SIZE):
        code = MULTI_HEADER.unpack_from(body, position * _PART_SIZE)[2]
        if code != ErrorCode.OK:
            return position, code
    return None


def _gone(operation: str, events: Sequence[TreeEvent]) -> tuple[str, ...] | None:
    if operation not in (names.CLOSE_SESSION, names.REMOVE_RECURSIVE):
        return None
    return tuple(event.path for event in events if event.kind == _DELETED)
