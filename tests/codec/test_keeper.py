"""Keeper's handshake and frames, whatever the bytes and however they arrive."""

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec import keeper
from codec.constants import KeeperFeature, ProtocolVersion
from codec.errors import FrameTooLong, MalformedPacket
from codec.framing import Framer
from codec.jute import INT, from_text, pack_buffer
from lab.oracle import records
from lab.oracle.records import Record
from lab.oracle.wire import pack_int, pack_long
from tests.codec.generate import INTS, LONGS, TEXTS, any_packets
from tests.codec.test_packets import declared, outcome


@given(LONGS, INTS, LONGS, INTS, st.binary(max_size=40))
def test_wide_headers(xid: int, opcode: int, zxid: int, err: int, body: bytes) -> None:
    assert keeper.WIDE_REQUEST_HEADER.unpack(pack_long(xid) + pack_int(opcode)) == (xid, opcode)
    reply = pack_long(xid) + pack_long(zxid) + pack_int(err) + body
    assert keeper.wide_frame(xid, zxid, err, body) == pack_buffer(reply)


@given(INTS, INTS, st.one_of(TEXTS, st.text()), LONGS)
def test_wide_event(kind: int, state: int, path: str, zxid: int) -> None:
    header = pack_long(-1) + pack_long(zxid) + pack_int(0)
    event = header + pack_int(kind) + pack_int(state) + pack_buffer(from_text(path))
    assert keeper.wide_event(kind, state, path, zxid) == pack_buffer(event)


@pytest.mark.parametrize(
    ("record", "decode"),
    [
        (records.WIDE_CONNECT, keeper.decode_wide_connect),
        (records.TRACED_CONNECT, keeper.decode_traced_connect),
    ],
    ids=["wide", "traced"],
)
@given(data=st.data())
def test_decode_connect(record: Record, decode: Callable[[bytes], Any], data: st.DataObject) -> None:
    whole = st.sampled_from([bytes(45), bytes(46)])
    packet = data.draw(st.one_of(whole, any_packets(record)))
    fields = declared(record, packet)
    expected: Any = MalformedPacket
    if fields is not None:
        wide, compression = fields.pop("wide_xids", True), fields.pop("compression")
        expected = tuple(fields.values()), wide, compression
    assert outcome(lambda: decode(packet)) == expected


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
    """It says that it has 45 bytes, and has some more."""
    opening = struct.pack(">ii", 45, version) + bytes(beyond) + bytes(40) + b"\1"
    behind = b"\0" if version == ProtocolVersion.TRACING else b""
    stream = opening + pack_buffer(b"one") + behind + pack_buffer(b"") + behind
    ways = [(stream[:split], stream[split:]) for split in range(len(stream) + 1)]
    for chunks in (*ways, tuple(bytes((byte,)) for byte in stream)):
        framer = keeper.OpeningFramer(1000)
        assert [frame for chunk in chunks for frame in framer.feed(chunk)] == [opening[4:], b"one", b""]


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=4), st.binary(max_size=20), st.integers(0, 60))
def test_any_other_connection_is_framed_as_ever(frames: list[bytes], tail: bytes, limit: int) -> None:
    stream = b"".join(map(pack_buffer, frames)) + tail

    def framed(framer: Framer | keeper.OpeningFramer) -> Any:
        try:
            return framer.feed(stream)
        except FrameTooLong as error:
            return error.length, error.limit, error.frames, error.rest

    assert framed(keeper.OpeningFramer(limit)) == framed(Framer(limit))


def test_only_a_short_handshake_is_taken_and_nothing_is_kept_of_another() -> None:
    framer = keeper.OpeningFramer(1 << 20)
    most = bytes(keeper.MOST_OF_HANDSHAKE)
    assert framer.feed(pack_buffer(most) + pack_buffer(bytes(5000))) == [most, bytes(5000)]
    framer = keeper.OpeningFramer(1 << 20)
    with pytest.raises(FrameTooLong) as caught:
        framer.feed(INT.pack(keeper.MOST_OF_HANDSHAKE + 1))
    assert (caught.value.limit, caught.value.frames) == (keeper.MOST_OF_HANDSHAKE, [])


def test_without_extensions_a_handshake_is_as_long_as_it_says() -> None:
    opening = struct.pack(">ii", 45, ProtocolVersion.WIDE_XIDS) + bytes(41)
    framer = keeper.OpeningFramer(1000, keeper=False)
    assert framer.feed(opening + pack_buffer(b"one")) == [opening[4:], b"one"]


def test_a_four_letter_word_is_told_by_its_length() -> None:
    framer = keeper.OpeningFramer(1000)
    assert framer.feed(b"ruo") == []
    with pytest.raises(FrameTooLong) as caught:
        framer.feed(b"k")
    assert INT.pack(caught.value.length) == b"ruok"


def test_features_are_the_bits_that_clickhouse_counts() -> None:
    assert sorted(KeeperFeature) == list(range(15))
