"""JSON values with a checksum: what people read with etcdctl.

One line of JSON. Its last member is a CRC-32 of everything before it, so that a damaged value is refused.
An unknown schema version is refused too, never guessed.
"""

import json
from typing import Any
from zlib import crc32

from schema.errors import BadValue

SCHEMA = 2

_CRC = b',"crc":"%08x"}'
_CRC_SIZE = len(_CRC % 0)


def pack_json(members: dict[str, Any]) -> bytes:
    """One line of JSON: the schema version, `members`, the checksum."""
    line = json.dumps({"schema": SCHEMA, **members}, separators=(",", ":")).encode()[:-1]
    return line + _CRC % crc32(line)


def unpack_json(value: bytes, what: str) -> dict[str, Any]:
    """The members that `pack_json` got; `what` names the value in errors. Raises BadValue."""
    try:
        members = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise BadValue(f"{what} is not JSON: {error}: {value[:80]!r}") from None
    if not isinstance(members, dict):
        raise BadValue(f"{what} is not a JSON object: {value[:80]!r}")
    # Other versions need not have the checksum, so this comes first.
    if members.get("schema") != SCHEMA:
        raise BadValue(f"{what} has schema version {members.get('schema')!r}; this release reads {SCHEMA}")
    if value[-_CRC_SIZE:] != _CRC % crc32(value[:-_CRC_SIZE]):
        raise BadValue(f"{what} is damaged: its checksum does not match: {value[:80]!r}")
    return members


def number(value: Any) -> int:
    """An integer, not a boolean. Raises ValueError."""
    if type(value) is not int:
        raise ValueError(f"number: {value!r}")
    return value


def boolean(value: Any) -> bool:
    """true or false. Raises ValueError."""
    if type(value) is not bool:
        raise ValueError(f"boolean: {value!r}")
    return value


def text(value: Any) -> str:
    """A string. Raises ValueError."""
    if type(value) is not str:
        raise ValueError(f"text: {value!r}")
    return value
