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
from collections.abc import Iterable, Iterator
from typing import Any

from proof.history import records as r
from proof.history.calls import MalformedHistory, failure
from proof.history.recorder import History

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
        except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise MalformedHistory(f"line {number} is no record of a history: {error!r}") from None
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
    kind = _TYPES[fields.pop("type")]
    if kind is r.Event:
        fields["type"] = fields.pop("event")
    elif kind is r.Invoked:
        fields["request"] = _request(fields["request"])
    elif kind is r.Replied:
        fields["reply"] = _reply(fields["reply"])
    return kind(**fields)


def _request(fields: dict[str, Any]) -> r.Request:
    kind = _OPS[fields.pop("op")]
    if kind is r.Multi:
        return r.Multi(tuple(_request(part) for part in fields["parts"]))  # type: ignore[misc]
    return kind(**{name: _read(name, value) for name, value in fields.items()})


def _reply(fields: dict[str, Any]) -> r.Reply:
    if fields.get("stat") is not None:
        fields["stat"] = r.Stat(**fields["stat"])
    if fields.get("parts") is not None:
        fields["parts"] = tuple(_reply(part) for part in fields["parts"])
    return r.Reply(**{name: _read(name, value) for name, value in fields.items()})


def _read(name: str, value: Any) -> Any:
    if name == "data" and isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return tuple(value) if isinstance(value, list) else value
