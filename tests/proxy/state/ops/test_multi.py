"""multi: what it cannot hold, and that it is read fast as it is read with care; more in tests/compat."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.constants import CreateMode, OpCode
from codec.errors import MalformedPacket, NullString
from codec.jute import INT, NULL, OPEN_ACL_PACKED, Acl, Reader, pack_acls, pack_buffer, pack_string
from codec.packets import (
    MULTI_HEADER,
    read_create,
    read_create_ttl,
    read_multi_header,
    read_path_version,
    read_set_data,
)
from proxy.state.operation import WriteOperation
from proxy.state.ops import PARTS, PLAIN
from proxy.state.ops.create import CREATE, CREATE_CONTAINER
from tests.proxy.state.test_pause import Counting
from tests.table import one_by_one

_END = MULTI_HEADER.pack(-1, True, -1)
_MULTI = PLAIN.writes[OpCode.MULTI]


@one_by_one("opcode", [OpCode.GET_DATA, OpCode.SET_ACL, OpCode.MULTI, OpCode.SYNC, 0, 99, -1])
def test_what_a_multi_cannot_hold(opcode: int) -> None:
    with pytest.raises(MalformedPacket, match="in a multi"):
        _MULTI.decode(MULTI_HEADER.pack(opcode, False, -1) + pack_string("/a") + b"\0" * 20, 0)


_CAREFUL: dict[int, Callable[[Reader], Any]] = {
    OpCode.CREATE: read_create,
    OpCode.CREATE2: read_create,
    OpCode.CREATE_CONTAINER: read_create,
    OpCode.CREATE_TTL: read_create_ttl,
    OpCode.DELETE: read_path_version,
    OpCode.SET_DATA: read_set_data,
    OpCode.CHECK: read_path_version,
}


@pytest.mark.long
def test_few_parts_with_long_acls_are_decoded_with_pauses() -> None:
    pause = Counting(512)
    part = MULTI_HEADER.pack(OpCode.CREATE, False, -1) + pack_string("/a") + pack_buffer(b"")
    acl = pack_acls([Acl(31, "ip", f"10.0.0.{number}") for number in range(250)])
    packet = (part + acl + INT.pack(0)) * 20 + _END
    assert len(_MULTI.decode(packet, 0, pause)[0]) == 20
    assert pause.calls >= len(packet) // (32 << 10)


def _carefully(raw: bytes) -> tuple[list[tuple[WriteOperation, Any]], int]:
    """Operations and fields of a multi, value after value, and its end."""
    reader = Reader(raw)
    parts: list[tuple[WriteOperation, Any]] = []
    while True:
        opcode, done, _ = read_multi_header(reader)
        if done:
            return parts, reader.position
        if opcode not in _CAREFUL:
            raise MalformedPacket
        operation, fields = PARTS[opcode].operation, _CAREFUL[opcode](reader)
        if fields[0] is None:
            raise NullString("", reader.position)
        if opcode == OpCode.CREATE_TTL:
            if fields[3] not in (5, 6):
                operation, fields = CREATE, fields[:4]
        elif _CAREFUL[opcode] is read_create and (fields[2] is None or fields[3] not in range(5)):
            raise MalformedPacket
        if len(fields) == 4 and fields[3] == CreateMode.CONTAINER:
            operation = CREATE_CONTAINER
        parts.append((operation, fields))


def _fast(raw: bytes) -> tuple[list[tuple[WriteOperation, Any]], int]:
    parts, end = _MULTI.decode(raw, 0)
    return [(kind.operation, fields) for kind, fields in parts], end


def _outcome(read: Callable[[bytes], Any], raw: bytes) -> Any:
    try:
        return read(raw)
    except NullString as null:
        return null.end
    except MalformedPacket:
        return MalformedPacket


@st.composite
def _multis(draw: st.DrawFn) -> bytes:
    """The bytes of a multi, mostly usual, some of them changed or cut off."""
    raw = bytearray()
    for opcode in draw(st.lists(st.sampled_from(list(_CAREFUL)), max_size=4)):
        raw += MULTI_HEADER.pack(opcode, False, -1) + pack_string(
            draw(st.sampled_from(["/a", "/a", "ä", None]))
        )
        if _CAREFUL[opcode] is not read_path_version:
            raw += pack_buffer(draw(st.sampled_from([b"data", b"", None])))
        if _CAREFUL[opcode] in (read_create, read_create_ttl):
            raw += draw(
                st.sampled_from([OPEN_ACL_PACKED, OPEN_ACL_PACKED, pack_acls([Acl(1, "ip", "::1")]), NULL])
            )
        raw += INT.pack(draw(st.integers(-1, 7)))
        if opcode == OpCode.CREATE_TTL:
            raw += bytes(8)
    raw += _END + b"more"
    if draw(st.booleans()):
        place = draw(st.integers(0, len(raw)))
        patch = draw(st.one_of(st.binary(min_size=1, max_size=2), st.sampled_from([NULL, INT.pack(-2)])))
        raw[place : place + len(patch)] = patch
    return bytes(raw[: draw(st.integers(0, len(raw)))] if draw(st.booleans()) else raw)


@given(_multis())
def test_a_multi_is_read_as_part_after_part_by_itself(raw: bytes) -> None:
    assert _outcome(_fast, raw) == _outcome(_carefully, raw)
