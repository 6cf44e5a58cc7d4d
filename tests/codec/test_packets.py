"""Our decoders and the oracle read the same, byte for byte, on good bytes and bad."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codec import keeper, packets
from codec.constants import KeeperOpCode, OpCode
from codec.errors import MalformedPacket, NullString
from codec.jute import NO_TEXT, OPEN_ACL, Acl, Reader, from_text, pack_acls, pack_buffer, pack_string
from lab.oracle import records, wire
from lab.oracle.records import Record
from lab.oracle.requests import RECORDS
from lab.oracle.wire import Cursor, pack_int, pack_long
from tests.codec.generate import BUFFERS, INTS, LONGS, TEXTS, any_packets
from tests.codec.generate import packets as whole_packets


class Twin(NamedTuple):
    decode: Callable[[bytes, int], Any]
    read: Callable[[Reader], Any] | None = None
    null_path: bool = False  # is returned


def without_end(decode: Callable[[bytes, int], tuple[Any, int]]) -> Callable[[bytes, int], Any]:
    """What a decoder returns besides the position behind it, which has its own test."""
    return lambda frame, position: decode(frame, position)[0]


def _read(read: Callable[[Reader], Any], *, null_path: bool = False) -> Twin:
    return Twin(without_end(packets.decoder(read)), read, null_path)


# Decoders that return the position as well, and their careful sisters.
DECODERS = [
    (OpCode.DELETE, packets.decode_path_version, packets.read_path_version),
    (OpCode.CREATE, packets.decode_create, packets.read_create),
    (OpCode.SET_DATA, packets.decode_set_data, packets.read_set_data),
    (OpCode.SET_ACL, packets.decoder(packets.read_set_acl), packets.read_set_acl),
]
_PATH = Twin(packets.decode_path, Reader.text)
_OPTIONAL_PATH = Twin(packets.decode_optional_path, Reader.string, null_path=True)
_PATH_WATCH = Twin(packets.decode_path_watch, packets.read_path_watch)
_PATH_VERSION = Twin(without_end(packets.decode_path_version), packets.read_path_version)
_PATH_LIMIT = _read(keeper.read_path_limit)
_CREATE = Twin(without_end(packets.decode_create), packets.read_create, null_path=True)

TWINS: Mapping[int, Twin] = {
    OpCode.CREATE: _CREATE,
    OpCode.DELETE: _PATH_VERSION,
    OpCode.EXISTS: _PATH_WATCH,
    OpCode.GET_DATA: _PATH_WATCH,
    OpCode.SET_DATA: Twin(without_end(packets.decode_set_data), packets.read_set_data),
    OpCode.GET_ACL: _PATH,
    OpCode.SET_ACL: _read(packets.read_set_acl),
    OpCode.GET_CHILDREN: _PATH_WATCH,
    OpCode.SYNC: _OPTIONAL_PATH,
    OpCode.GET_CHILDREN2: _PATH_WATCH,
    OpCode.CHECK: _PATH_VERSION,
    OpCode.CREATE2: _CREATE,
    OpCode.CREATE_CONTAINER: _CREATE,
    OpCode.DELETE_CONTAINER: _PATH,
    OpCode.CREATE_TTL: _read(packets.read_create_ttl, null_path=True),
    OpCode.GET_EPHEMERALS: _OPTIONAL_PATH,
    OpCode.GET_ALL_CHILDREN_NUMBER: _PATH,
    KeeperOpCode.FILTERED_LIST: _read(keeper.read_filtered_list),
    KeeperOpCode.CHECK_NOT_EXISTS: _PATH_VERSION,
    KeeperOpCode.CREATE_IF_NOT_EXISTS: _CREATE,
    KeeperOpCode.REMOVE_RECURSIVE: _PATH_LIMIT,
    KeeperOpCode.CHECK_STAT: _read(keeper.read_check_stat),
    KeeperOpCode.TRY_REMOVE: _PATH_VERSION,
    KeeperOpCode.LIST_WITH_STAT_AND_DATA: _read(keeper.read_list_with_stat_and_data),
    KeeperOpCode.LIST_RECURSIVE: _PATH_LIMIT,
}
# They are decoded field by field where they are answered.
_ELSEWHERE = {
    OpCode.MULTI, OpCode.MULTI_READ, OpCode.RECONFIG, OpCode.AUTH, OpCode.SASL, OpCode.SET_WATCHES,
    OpCode.SET_WATCHES2, OpCode.ADD_WATCH, OpCode.CHECK_WATCHES, OpCode.REMOVE_WATCHES,
}  # fmt: skip
# Each form once.
_FORMS = {(*RECORDS[opcode], twin): opcode for opcode, twin in TWINS.items()}
BY_TWIN = pytest.mark.parametrize("opcode", _FORMS.values())


def test_each_request_is_declared_and_has_a_twin_if_it_has_fields() -> None:
    of_servers = {OpCode.NOTIFICATION, OpCode.CREATE_SESSION, OpCode.ERROR}
    assert set(RECORDS) == {*OpCode, *KeeperOpCode} - of_servers
    assert {opcode for opcode, record in RECORDS.items() if record} == TWINS.keys() | _ELSEWHERE


def outcome(decode: Callable[[], Any]) -> Any:
    """What a decoder returns, or the kind of its error."""
    try:
        return decode()
    except NullString:
        return NullString
    except MalformedPacket:
        return MalformedPacket


def declared(record: Record, packet: bytes) -> dict[str, Any] | None:
    """The fields as the oracle reads them; None if a decoder must raise MalformedPacket."""
    try:
        return records.read(record, Cursor(packet))
    except wire.UNREADABLE:
        return None


def _expected(opcode: int, packet: bytes) -> Any:
    """What the twin must return, by the oracle."""
    fields = declared(RECORDS[opcode], packet)
    if fields is None:
        return MalformedPacket
    first, *more = (_acls(value) if name == "acls" else value for name, value in fields.items())
    if first is None and not TWINS[opcode].null_path:
        return NullString
    return (first, *more) if more else first


def _acls(entries: tuple[tuple[int, str | None, str | None], ...] | None) -> tuple[Acl, ...] | None:
    def text(value: str | None) -> str:
        return NO_TEXT if value is None else value

    return None if entries is None else tuple(Acl(perms, *map(text, who)) for perms, *who in entries)


@BY_TWIN
@given(data=st.data())
def test_decoders_equal_their_declaration(opcode: int, data: st.DataObject) -> None:
    twin = TWINS[opcode]
    packet = data.draw(any_packets(RECORDS[opcode]))
    expected = _expected(opcode, packet)
    assert outcome(lambda: twin.decode(packet, 0)) == expected
    assert outcome(lambda: twin.decode(b"8 before" + packet, 8)) == expected
    if twin.read is not None:
        reader = Reader(packet)
        read = twin.read
        assert outcome(lambda: read(reader)) == expected


@BY_TWIN
@given(data=st.data())
def test_every_cut_is_malformed_and_what_trails_is_left(opcode: int, data: st.DataObject) -> None:
    twin = TWINS[opcode]
    packet = data.draw(whole_packets(RECORDS[opcode]))
    for end in range(len(packet)):
        with pytest.raises(MalformedPacket) as caught:
            twin.decode(packet[:end], 0)
        assert not isinstance(caught.value, NullString)
    whole = outcome(lambda: twin.decode(packet, 0))
    assert outcome(lambda: twin.decode(packet + b"more", 0)) == whole
    if twin.read is not None and whole is not MalformedPacket:  # that is an ACL without an id
        reader = Reader(packet + b"next")
        outcome(partial(twin.read, reader))
        assert reader.remaining == len(b"next")


def test_the_acl_of_most_nodes_is_one_object() -> None:
    packet = pack_string("/a") + pack_buffer(b"") + pack_acls(OPEN_ACL) + b"\0\0\0\3"
    assert packets.decode_create(packet, 0)[0][2] is OPEN_ACL
    assert packets.read_create(Reader(packet))[2] is OPEN_ACL


def _exactly(decode: Callable[[], Any]) -> Any:
    """What a decoder returns, or its error, word for word."""
    try:
        return decode()
    except MalformedPacket as error:
        return type(error), str(error), getattr(error, "end", None)


@pytest.mark.parametrize(("opcode", "decode", "read"), DECODERS)
@given(data=st.data(), before=st.binary(max_size=9), behind=st.binary(max_size=9))
def test_the_fast_way_is_the_careful_way(
    opcode: int,
    decode: Callable[[bytes, int], tuple[Any, int]],
    read: Callable[[Reader], Any],
    data: st.DataObject,
    before: bytes,
    behind: bytes,
) -> None:
    """Whole, cut, changed or behind something else: the same record, position and error."""
    packet = data.draw(any_packets(RECORDS[opcode]))
    for frame in (before + packet + behind, before + packet[: data.draw(st.integers(0, len(packet)))]):

        def careful(reader: Reader) -> tuple[Any, int]:
            return read(reader), reader.position

        expected = _exactly(partial(careful, Reader(frame, len(before))))
        assert _exactly(partial(decode, frame, len(before))) == expected


def test_a_path_that_is_not_utf8() -> None:
    packet = pack_buffer(b"/\xff\xed\xa0\x80") + b"\0\0\0\1"
    assert packets.decode_path_watch(packet, 0) == ("/\ufffd\ufffd", False)
    assert packets.decode_path_version(packet, 0) == (("/\ufffd\ufffd", 1), len(packet))
    raw = pack_buffer(b"/\xff") + pack_buffer(b"") + packet[-4:]
    assert packets.decode_set_data(raw, 0) == (("/\ufffd", b"", 1), len(raw))


def test_headers_and_stats_are_laid_out_as_the_oracles() -> None:
    assert packets.REQUEST_HEADER.pack(1, 2) == pack_int(1) + pack_int(2)
    assert packets.REPLY_HEADER.format == wire.HEADER.format
    assert packets.STAT.format == wire.STAT.format


@given(INTS, st.booleans(), INTS, st.binary(max_size=12))
def test_multi_header(kind: int, done: bool, err: int, any_bytes: bytes) -> None:
    header: Record = {"type": records.INT, "done": records.BOOLEAN, "err": records.INT}
    packet = pack_int(kind) + bytes([done]) + pack_int(err)
    assert packets.MULTI_HEADER.pack(kind, done, err) == packet
    for data in (packet, packet[:-1], any_bytes):
        fields = declared(header, data)
        expected = MalformedPacket if fields is None else tuple(fields.values())
        assert outcome(partial(packets.read_multi_header, Reader(data))) == expected


@given(INTS, LONGS, INTS, BUFFERS)
def test_frame(xid: int, zxid: int, err: int, body: bytes) -> None:
    header = wire.HEADER.pack(xid, zxid, err)
    assert packets.frame(xid, zxid, err, body) == pack_buffer(header + body)
    assert packets.frame(xid, zxid, err) == pack_buffer(header)


@given(INTS, INTS, st.one_of(TEXTS, st.text()), LONGS)
def test_encode_event(kind: int, state: int, path: str, zxid: int) -> None:
    event = wire.HEADER.pack(-1, zxid, 0) + pack_int(kind) + pack_int(state) + pack_buffer(from_text(path))
    assert packets.encode_event(kind, state, path, zxid) == pack_buffer(event)


@given(any_packets(records.CONNECT))
@example(bytes(28))
@example(bytes(29))
def test_decode_connect(packet: bytes) -> None:
    fields = declared(records.CONNECT, packet)
    expected = MalformedPacket if fields is None else tuple(fields.values())
    assert outcome(lambda: packets.decode_connect(packet)) == expected


@given(INTS, LONGS, st.binary(max_size=20), st.sampled_from([None, False, True]), INTS)
def test_encode_connect_response(
    timeout: int, session_id: int, password: bytes, read_only: bool | None, version: int
) -> None:
    body = pack_int(version) + pack_int(timeout) + pack_long(session_id) + pack_buffer(password)
    body += records.MAY_BE_MISSING.write(read_only)
    packet = packets.encode_connect_response(timeout, session_id, password, read_only, version)
    assert packet == pack_buffer(body)
