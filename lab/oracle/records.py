"""Records of zookeeper.jute: a record is its fields' names and types, in their order."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from lab.oracle import wire
from lab.oracle.wire import Cursor, pack_buffer, pack_int, pack_long, pack_string


class Type(NamedTuple):
    """A type of jute: how its values are written and read. Reading raises one of wire.UNREADABLE."""

    write: Callable[[Any], bytes]
    read: Callable[[Cursor], Any]


Record = Mapping[str, Type]

_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def _text(cursor: Cursor) -> str | None:
    """Text as Java reads it: U+FFFD for what is not UTF-8, and one for an encoded surrogate."""
    raw = cursor.buffer()
    return None if raw is None else _ENCODED_SURROGATE.sub("\ufffd".encode(), raw).decode(errors="replace")


def _vector(of: Type) -> Type:
    """Elements after their count, or None, which is count -1. Lower counts mean no elements."""

    def write(values: Any) -> bytes:
        return pack_int(-1) if values is None else pack_int(len(values)) + b"".join(map(of.write, values))

    def read(cursor: Cursor) -> Any:
        count = cursor.integer()
        return None if count == -1 else tuple([of.read(cursor) for _ in range(count)])

    return Type(write, read)


INT = Type(pack_int, Cursor.integer)
LONG = Type(pack_long, Cursor.long)
BOOLEAN = Type(lambda value: bytes((value,)), Cursor.boolean)
BYTE = Type(lambda value: bytes((value,)), Cursor.byte)  # Keeper's alone
UNSIGNED = Type(struct.Struct(">I").pack, lambda cursor: cursor.integer() & 0xFFFFFFFF)  # Keeper's alone
BUFFER = Type(pack_buffer, Cursor.buffer)
MAY_BE_MISSING = Type(  # the last byte of a handshake, which old peers leave out: None
    lambda value: b"" if value is None else BOOLEAN.write(value),
    lambda cursor: None if cursor.position == len(cursor.body) else cursor.boolean(),
)
TEXT = Type(pack_string, _text)
STAT = Type(lambda value: wire.STAT.pack(*value), Cursor.stat)
_ACL = Type(
    lambda value: pack_int(value[0]) + pack_string(value[1]) + pack_string(value[2]),
    lambda cursor: (cursor.integer(), _text(cursor), _text(cursor)),
)
ACLS, BUFFERS, STATS, TEXTS = map(_vector, (_ACL, BUFFER, STAT, TEXT))

_SESSION = {"last_zxid": LONG, "timeout": INT, "session": LONG, "password": BUFFER}
CONNECT: Record = {"version": INT, **_SESSION, "read_only": MAY_BE_MISSING}
#: Keeper's, of protocol version 11, whose frame length says one byte less.
WIDE_CONNECT: Record = {"version": INT, "compression": BOOLEAN, **_SESSION, "read_only": BOOLEAN}
#: Keeper's, of protocol version 12, whose frame length says two bytes less.
TRACED_CONNECT: Record = {"version": INT, "wide_xids": BOOLEAN, **WIDE_CONNECT}


def write(record: Record, values: Mapping[str, Any]) -> bytes:
    """The bytes of a record; `values` may have more than its fields."""
    return b"".join(kind.write(values[name]) for name, kind in record.items())


def read(record: Record, cursor: Cursor) -> dict[str, Any]:
    """The fields at a cursor, which moves behind them. Raises one of wire.UNREADABLE if they are cut."""
    return {name: kind.read(cursor) for name, kind in record.items()}
