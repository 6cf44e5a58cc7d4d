"""Keeper's records: twin and declaration are equal, whatever the bytes and however they arrive."""

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from construct import Construct
from hypothesis import given
from hypothesis import strategies as st

from codec import keeper, records
from codec.constants import KeeperFeature, KeeperOpCode, ProtocolVersion
from codec.errors import FrameTooLong, MalformedPacket, NullString
from codec.framing import Framer
from codec.jute import INT, Reader, pack_buffer
from codec.packets import read_create, read_path_version
from tests.codec.generate import INTS, LONGS, TEXTS, broken_packets, plain, values
from tests.codec.generate import packets as whole_packets
from tests.codec.test_packets import outcome

TWINS: dict[KeeperOpCode, Callable[[Reader], Any]] = {
    KeeperOpCode.FILTERED_LIST: keeper.read_filtered_list,
    KeeperOpCode.CHECK_NOT_EXISTS: read_path_version,
    KeeperOpCode.CREATE_IF_NOT_EXISTS: read_create,
    KeeperOpCode.REMOVE_RECURSIVE: keeper.read_path_limit,
    KeeperOpCode.CHECK_STAT: keeper.read_check_stat,
    KeeperOpCode.TRY_REMOVE: read_path_version,
    KeeperOpCode.LIST_WITH_STAT_AND_DATA: keeper.read_list_with_stat_and_data,
    KeeperOpCode.LIST_RECURSIVE: keeper.read_path_limit,
}
# create's own twin is proven in test_packets
READERS = {code: read for code, read in TWINS.items() if read is not read_create}
BY_READER = pytest.mark.parametrize("code", READERS, ids=lambda code: code.name)


def declared(code: KeeperOpCode, packet: bytes) -> Any:
    """What the twin must return, by the declaration."""
    fields = plain(records.decode(records.KEEPER_REQUESTS[code], packet))
    if fields["path"] is None:
        raise NullString("", 0)
    return tuple(tuple(value.values()) if name == "stat" else value for name, value in fields.items())


@BY_READER
@given(data=st.data())
def test_readers_equal_their_declaration(code: KeeperOpCode, data: st.DataObject) -> None:
    record = records.KEEPER_REQUESTS[code]
    packet = data.draw(st.one_of(whole_packets(record), broken_packets(record), st.binary(max_size=90)))
    expected = outcome(lambda: declared(code, packet))
    assert outcome(lambda: READERS[code](Reader(packet))) == expected
    assert outcome(lambda: READERS[code](Reader(b"8 before" + packet, 8))) == expected


@BY_READER
@given(data=st.data())
def test_every_cut_is_malformed_and_readers_stop_behind_the_record(
    code: KeeperOpCode, data: st.DataObject
) -> None:
    packet = data.draw(whole_packets(records.KEEPER_REQUESTS[code]))
    for end in range(len(packet)):
        with pytest.raises(MalformedPacket) as caught:
            READERS[code](Reader(packet[:end]))
        assert not isinstance(caught.value, NullString)
    reader = Reader(packet + b"next")
    outcome(partial(READERS[code], reader))
    assert reader.remaining == 4


@given(values(records.WideRequestHeader))
def test_wide_request_header(fields: dict[str, int]) -> None:
    packet = records.encode(records.WideRequestHeader, fields)
    assert keeper.WIDE_REQUEST_HEADER.unpack(packet) == tuple(fields.values())


@given(LONGS, LONGS, INTS, st.binary(max_size=40))
def test_wide_frame(xid: int, zxid: int, err: int, body: bytes) -> None:
    header = records.encode(records.WideReplyHeader, {"xid": xid, "zxid": zxid, "err": err})
    assert keeper.wide_frame(xid, zxid, err, body) == pack_buffer(header + body)


@given(INTS, INTS, st.one_of(TEXTS, st.text()), LONGS)
def test_wide_event(kind: int, state: int, path: str, zxid: int) -> None:
    header = records.encode(records.WideReplyHeader, {"xid": -1, "zxid": zxid, "err": 0})
    event = records.encode(records.WatcherEvent, {"type": kind, "state": state, "path": path})
    assert keeper.wide_event(kind, state, path, zxid) == pack_buffer(header + event)


@pytest.mark.parametrize(
    ("record", "decode", "says_its_width"),
    [
        (records.WideConnectRequest, keeper.decode_wide_connect, False),
        (records.TracedConnectRequest, keeper.decode_traced_connect, True),
    ],
    ids=["wide", "traced"],
)
@given(data=st.data())
def test_decode_connect(
    record: Construct, decode: Callable[[bytes], Any], says_its_width: bool, data: st.DataObject
) -> None:
    whole = st.sampled_from([bytes(45), bytes(46)])
    packet = data.draw(
        st.one_of(whole, whole_packets(record), broken_packets(record), st.binary(max_size=60))
    )

    def by_hand() -> Any:
        reader = Reader(packet)
        version = reader.int()
        wide = reader.boolean() if says_its_width else True
        compression = reader.boolean()
        last_zxid, timeout, session_id = reader.long(), reader.int(), reader.long()
        password, read_only = reader.buffer(), reader.boolean()
        return (version, last_zxid, timeout, session_id, password, read_only), wide, compression

    assert outcome(lambda: decode(packet)) == outcome(by_hand)


def handshake(version: int, beyond: int) -> bytes:
    """A handshake that says that it has 45 bytes, and has some more."""
    return struct.pack(">ii", 45, version) + bytes(beyond) + bytes(40) + b"\1"


@pytest.mark.parametrize(
    ("version", "beyond"),
    [
        (ProtocolVersion.ZOOKEEPER, 0),
        (ProtocolVersion.COMPRESSION, 0),
        (ProtocolVersion.WIDE_XIDS, 1),
        (ProtocolVersion.TRACING, 2),
    ],
)
def test_a_handshake_cut_at_every_byte(version: int, beyond: int) -> None:
    opening = handshake(version, beyond)
    behind = b"\0" if version == ProtocolVersion.TRACING else b""
    stream = opening + pack_buffer(b"one") + behind + pack_buffer(b"") + behind
    assert len(opening) == 49 + beyond
    for split in range(len(stream) + 1):
        framer = keeper.OpeningFramer(1000)
        got = framer.feed(stream[:split]) + framer.feed(stream[split:])
        assert got == [opening[4:], b"one", b""]
    framer = keeper.OpeningFramer(1000)
    got = [frame for place in range(len(stream)) for frame in framer.feed(stream[place : place + 1])]
    assert got == [opening[4:], b"one", b""]


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=4), st.binary(max_size=20), st.integers(0, 60))
def test_any_other_connection_is_framed_as_ever(frames: list[bytes], tail: bytes, limit: int) -> None:
    stream = b"".join(map(pack_buffer, frames)) + tail

    def framed(framer: Framer | keeper.OpeningFramer) -> Any:
        try:
            return framer.feed(stream)
        except FrameTooLong as error:
            return error.length, error.limit, error.frames, error.rest

    assert framed(keeper.OpeningFramer(limit)) == framed(Framer(limit))


def test_a_four_letter_word_is_told_by_its_length() -> None:
    framer = keeper.OpeningFramer(1000)
    assert framer.feed(b"ruo") == []
    with pytest.raises(FrameTooLong) as caught:
        framer.feed(b"k")
    assert INT.pack(caught.value.length) == b"ruok"


def test_every_opcode_of_keeper_is_declared() -> None:
    assert set(records.KEEPER_REQUESTS) == set(records.KEEPER_RESPONSES) == set(TWINS) == set(KeeperOpCode)


def test_features_are_the_bits_that_clickhouse_counts() -> None:
    assert sorted(KeeperFeature) == list(range(15))
