"""The fields of replies, by opcode: what a comparison of two servers looks at."""

from __future__ import annotations

import struct

from lab.oracle import wire
from lab.oracle.wire import Cursor
from tests.compat.script import unrooted

Value = object


def decode(code: int, body: bytes, root: str) -> tuple[Value, ...]:
    """Return the fields of a reply's body; a body that does not parse comes back whole as bytes."""
    if not body:
        return ()
    cursor = Cursor(body)
    try:
        values = _fields(code, cursor, root)
        cursor.finish()
    except (struct.error, IndexError):
        return ("unparsed", body)
    return values


def _fields(code: int, cursor: Cursor, root: str) -> tuple[Value, ...]:
    if code in (wire.CREATE, wire.SYNC):
        return (unrooted(cursor.string(), root),)
    if code in (wire.CREATE2, wire.CREATE_CONTAINER, wire.CREATE_TTL):
        return (unrooted(cursor.string(), root), cursor.stat())
    if code in (wire.EXISTS, wire.SET_DATA, wire.SET_ACL):
        return (cursor.stat(),)
    if code == wire.GET_DATA:
        return (cursor.buffer(), cursor.stat())
    if code == wire.GET_ACL:
        return (tuple(cursor.acls()), cursor.stat())
    if code == wire.GET_CHILDREN:
        return (_sorted(cursor),)
    if code == wire.GET_CHILDREN2:
        return (_sorted(cursor), cursor.stat())
    if code in (wire.MULTI, wire.MULTI_READ):
        return _multi_fields(cursor, root)
    if code in (wire.ADD_WATCH, wire.GET_ALL_CHILDREN_NUMBER):
        return (cursor.integer(),)
    if code == wire.GET_EPHEMERALS:
        return tuple(sorted(str(unrooted(path, root)) for path in cursor.strings()))
    if code == wire.WHO_AM_I:
        return tuple((cursor.string(), cursor.string()) for _ in range(cursor.integer()))
    if code == wire.SASL:
        return (cursor.buffer(),)
    raise IndexError(f"no layout for opcode {code}")


def _sorted(cursor: Cursor) -> tuple[str, ...]:
    """Return a child list; ZooKeeper's order is that of a hash set."""
    return tuple(sorted(map(str, cursor.strings())))


def _multi_fields(cursor: Cursor, root: str) -> tuple[Value, ...]:
    results: list[Value] = []
    while True:
        kind, done, err = cursor.integer(), cursor.boolean(), cursor.integer()
        if done:
            return (*results, (kind, err))
        if kind == wire.ERROR:
            results.append((kind, err, cursor.integer()))
        elif kind in (wire.DELETE, wire.CHECK):
            results.append((kind, err))
        else:
            results.append((kind, err, *_fields(kind, cursor, root)))
