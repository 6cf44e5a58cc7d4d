"""A history as JSON lines: one record a line, its fields by name, those that have their default left out.

    {"type": "opened", "time": 0, "session": 1, "timeout_ms": 4000} {"type": "invoke", "time": 10, "session":
    1, "call": 0, "request": {"op": "create", "path": "/a", "data": "1"}} {"type": "ok", "time": 20, "call":
    0, "reply": {"zxid": 7, "path": "/a"}} {"type": "fail", "time": 40, "call": 1, "reply": {"error": -101,
    "zxid": 8}} {"type": "info", "time": 60, "call": 2} {"type": "event", "time": 70, "session": 1, "event":
    3, "path": "/a", "zxid": 9}

`type` is one of opened, attached, disconnected, expired, invoke, ok, fail, info (the outcome is unknown),
       event. `op` is one of create, delete, set, check, multi (with `parts`), close, exists, get, children,
       sync, add_watch, set_watches. Data are UTF-8; a byte that is not becomes a lone surrogate, as Python's
       surrogateescape has it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from proof.history import records as r
from proof.history.calls import MalformedHistory, failure
from proof.history.recorder import History

_T = TypeVar("_T")

_OPS: dict[str, type[r.Request]] = {
    "create": r.Create,
    "delete": r.Delete,
    "set": r.SetData,
    "check": r.Check,
    "multi": r.Multi,
    "close": r.CloseSession,
    "exists": r.Exists,
    "get": r.GetData,
    "children": r.GetChildren,
    "sync": r.Sync,
    "add_watch": r.AddWatch,
    "set_watches": r.SetWatches,
}
_NAMES = {kind: name for name, kind in _OPS.items()}
_TYPES: dict[str, type[r.Record]] = {
    "opened": r.Opened,
    "attached": r.Attached,
    "disconnected": r.Disconnected,
    "expired": r.Expired,
    "invoke": r.Invoked,
    "ok": r.Replied,
    "fail": r.Replied,
    "info": r.Lost,
    "event": r.Event,
}
_RECORDS = {kind: name for name, kind in _TYPES.items() if kind is not r.Replied}


def to_lines(history: History) -> Iterator[str]:
    """Write a history, a line for each record."""
    for record in history.records:
        fields = _fields(record)
        if isinstance(record, r.Replied):
            kind = "fail" if failure(record.reply) else "ok"
        else:
            kind = _RECORDS[type(record)]
        if isinstance(record, r.Event):
            fields["event"] = fields.pop("type")
        yield json.dumps({"type": kind, **fields})


def from_lines(lines: Iterable[str]) -> History:
    """Read a history. Raises MalformedHistory with the number of the line, from 1."""
    found: list[r.Record] = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(_record(json.loads(line)))
        except KeyError as error:
            raise MalformedHistory(f"line {number} is no record of a history: no {error}") from None
        except RecursionError:
            raise MalformedHistory(f"line {number} is no record of a history: it is too deep") from None
        except (ValueError, TypeError, AttributeError) as error:
            raise MalformedHistory(f"line {number} is no record of a history: {error}") from None
    return History(found)


def _fields(value: Any) -> dict[str, Any]:
    defaults = value._field_defaults
    return {
        name: _plain(part)
        for name, part in value._asdict().items()
        if name not in defaults or part != defaults[name]
    }


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if type(value) in _NAMES:
        return {"op": _NAMES[type(value)], **_fields(value)}
    if hasattr(value, "_asdict"):
        return _fields(value)
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value


def _record(fields: dict[str, Any]) -> r.Record:
    name = fields.pop("type")
    kind = _named(_TYPES, name)
    if kind is r.Event:
        fields["type"] = fields.pop("event")
    elif kind is r.Invoked:
        fields["request"] = _request(fields["request"])
    elif kind is r.Replied:
        fields["reply"] = _reply(fields["reply"])
        if (name == "fail") != bool(failure(fields["reply"])):
            raise ValueError(f"an answer of error {failure(fields['reply'])} is not {name!r}")
    record: r.Record = _checked(kind(**fields))
    if isinstance(record, r.Event):
        _check_path(record.path)
    elif isinstance(record, r.Invoked | r.Replied | r.Lost) and record.call < 0:
        raise ValueError("call is below 0")
    return record


def _request(fields: dict[str, Any]) -> r.Request:
    kind = _named(_OPS, fields.pop("op"))
    if kind is r.Multi:
        return _checked(r.Multi(tuple(_request(part) for part in fields["parts"])))  # type: ignore[misc]
    request: r.Request = _checked(kind(**{name: _read(name, value) for name, value in fields.items()}))
    if not isinstance(request, r.Multi | r.CloseSession | r.SetWatches):
        _check_path(request.path)
    return request


def _reply(fields: dict[str, Any]) -> r.Reply:
    if fields.get("stat") is not None:
        fields["stat"] = _checked(r.Stat(**fields["stat"]))
    if fields.get("parts") is not None:
        fields["parts"] = tuple(_reply(part) for part in fields["parts"])
    reply = _checked(r.Reply(**{name: _read(name, value) for name, value in fields.items()}))
    if reply.zxid is not None and reply.zxid < 0:
        raise ValueError("zxid is below 0")
    return reply


def _read(name: str, value: Any) -> Any:
    if name == "data" and isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return tuple(value) if isinstance(value, list) else value


def _named(table: Mapping[str, type[Any]], name: Any) -> type[Any]:
    if not isinstance(name, str) or name not in table:
        raise ValueError(f"{name!r} is none of {', '.join(table)}")
    return table[name]


def _check_path(path: str) -> None:
    if not path.startswith("/"):
        raise ValueError(f"{path!r} is not the path of a node")


def _checked(value: _T) -> _T:
    """A record, request or answer, if each field is of its declared type. Raises ValueError."""
    for name, fits in _SHAPES[type(value)]:
        if not fits(getattr(value, name)):
            raise ValueError(f"{name} cannot be {getattr(value, name)!r}")
    return value


def _fits(hint: Any) -> Callable[[Any], bool]:
    """Whether a value is of a type as `records` uses them. Ranges of zxids are for the model alone."""
    if get_origin(hint) is UnionType:
        each = [_fits(one) for one in get_args(hint)]
        return lambda value: any(fits(value) for fits in each)
    if get_origin(hint) is tuple:
        if get_args(hint)[-1] is not Ellipsis:
            return lambda _value: False
        fits_all = _fits(get_args(hint)[0])
        return lambda value: type(value) is tuple and all(map(fits_all, value))
    return lambda value: type(value) is hint


_SHAPES: dict[type, list[tuple[str, Callable[[Any], bool]]]] = {
    kind: [(name, _fits(hint)) for name, hint in get_type_hints(kind).items()]
    for kind in (*_TYPES.values(), *_OPS.values(), r.Reply, r.Stat)
}
"""Of each class its fields, and whether a value may stand there."""
