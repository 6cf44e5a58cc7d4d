"""Primitives, and that text is what it is to Java."""

import copy
import itertools
import re
import sys
from collections.abc import Callable
from contextlib import closing
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.constants import OpCode
from codec.errors import MalformedPacket, NullString
from codec.jute import (
    INT,
    LONG,
    NO_TEXT,
    NULL,
    OPEN_ACL,
    Acl,
    Reader,
    from_text,
    pack_acls,
    pack_buffer,
    pack_string,
    pack_strings,
    to_text,
)
from codec.packets import REQUEST_HEADER
from lab.oracle import wire
from lab.oracle.wire import Connection
from lab.servers import ZooKeeperServer
from tests.codec.generate import INTS, LONGS
from tests.codec.generate import TEXTS as BMP_TEXTS
from tests.table import one_by_one

TEXTS = st.text()
ACLS = st.lists(st.builds(Acl, INTS, TEXTS, TEXTS), max_size=3)


@given(INTS, LONGS, st.booleans(), st.integers(-128, 127), st.binary())
def test_numbers_and_buffers_are_read_one_after_another(
    number: int, long: int, truth: bool, byte: int, data: bytes
) -> None:
    packet = INT.pack(number) + LONG.pack(long) + bytes([truth, byte % 256]) + pack_buffer(data) + NULL
    reader = Reader(b"xx" + packet, 2)
    assert reader.remaining == len(packet)
    assert (reader.int(), reader.long(), reader.boolean(), reader.byte()) == (number, long, truth, byte)
    assert (reader.buffer(), reader.buffer(), reader.remaining) == (data, None, 0)


@given(st.lists(BMP_TEXTS), st.lists(st.builds(Acl, INTS, BMP_TEXTS, BMP_TEXTS), max_size=3))
def test_vectors_as_the_oracles(texts: list[str], acls: list[Acl]) -> None:
    assert pack_strings(texts) == wire.pack_strings(texts)
    assert pack_acls(acls) == wire.pack_acls(acls)
    assert Reader(pack_strings(texts)).strings() == texts


@given(st.lists(st.builds(Acl, INTS, st.text("ab"), st.text("ab")), max_size=3))
def test_acls_come_back(acls: list[Acl]) -> None:
    reader = Reader(pack_acls(acls) + pack_acls(OPEN_ACL))
    assert (reader.acls(), reader.acls(), reader.remaining) == (tuple(acls), OPEN_ACL, 0)


@one_by_one(
    ("read", "packet"),
    [
        (Reader.int, INT.pack(7)),
        (Reader.long, LONG.pack(7)),
        (Reader.boolean, b"\1"),
        (Reader.byte, b"\1"),
        (Reader.buffer, pack_buffer(b"abc")),
        (Reader.string, pack_string("/äb")),
        (Reader.text, pack_string("/ab")),
        (Reader.strings, pack_strings(["", "ab"])),
        (Reader.acls, pack_acls(OPEN_ACL)),
        (Reader.acls, pack_acls([*OPEN_ACL, Acl(1, "ip", "::1")])),
        (Reader.buffer, INT.pack(-2)),
        (Reader.string, INT.pack(-(2**31))),
        (Reader.strings, INT.pack(2**31 - 1)),
        (Reader.acls, INT.pack(2**31 - 1)),
    ],
)
def test_a_cut_or_impossible_value_is_malformed(read: Callable[[Reader], object], packet: bytes) -> None:
    impossible = INT.unpack_from(packet.ljust(4))[0] in (-2, -(2**31), 2**31 - 1)
    for end in range(len(packet) + impossible):
        with pytest.raises(MalformedPacket):
            read(Reader(packet[:end]))


def test_nulls() -> None:
    assert Reader(NULL).string() is None
    assert Reader(NULL).strings() is None
    assert Reader(NULL).acls() is None
    assert pack_string(None) == pack_buffer(None) == NULL
    with pytest.raises(NullString) as null:
        Reader(b"xx" + NULL + b"more", 2).text()
    assert null.value.end == 6
    assert Reader(INT.pack(1) + NULL).strings() == [None]


@pytest.mark.parametrize("count", [-2, -(2**31), 0])
def test_counts_below_null_mean_no_elements(count: int) -> None:
    assert Reader(INT.pack(count)).strings() == []
    assert Reader(INT.pack(count)).acls() == ()


def test_null_schemes_and_ids_of_acls() -> None:
    def entry(scheme: str | None, identity: str | None) -> Reader:
        return Reader(INT.pack(1) + INT.pack(31) + pack_string(scheme) + pack_string(identity))

    assert entry(None, "x").acls() == (Acl(31, NO_TEXT, "x"),)
    assert entry("digest", None).acls() == (Acl(31, "digest", NO_TEXT),)
    assert NO_TEXT != ""
    assert Acl(31, "ip", "") != Acl(31, "ip", NO_TEXT)
    assert len({"", NO_TEXT}) == 2
    assert copy.deepcopy(Acl(31, "ip", NO_TEXT)).id is NO_TEXT


@one_by_one(
    ("text", "raw"),
    [
        ("/a\0\x7f", b"/a\0\x7f"),
        ("ä€", b"\xc3\xa4\xe2\x82\xac"),
        ("\uffff", b"\xef\xbf\xbf"),
        ("\U00010000\U0010ffff", b"\xed\xa0\x80\xed\xb0\x80\xed\xaf\xbf\xed\xbf\xbf"),
        ("\ud800", b"\xed\xa0\x80"),
    ],
)
def test_text_is_encoded_one_utf16_unit_after_another(text: str, raw: bytes) -> None:
    assert from_text(text) == raw


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_is_utf8_decodes_as_such(text: str) -> None:
    assert to_text(text.encode()) == text


@given(st.binary() | st.lists(st.sampled_from(b"\xed\xa0\xbd\x80\xbf\x9f\xe1\xf0A\xc3")).map(bytes))
def test_an_encoded_surrogate_is_one_error(raw: bytes) -> None:
    alone = re.sub(rb"\xed[\xa0-\xbf][\x80-\xbf]?", "\ufffd".encode(), raw)
    assert to_text(raw) == alone.decode(errors="replace")


def test_no_character_costs_a_call() -> None:
    """260,000 characters beyond U+FFFF in the id of an ACL took 0.3 s for each getACL."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        raw = from_text("\U0001f600" * 1000)
        to_text(raw)
    finally:
        sys.setprofile(None)
    assert calls < 50


@given(st.binary())
def test_any_bytes_are_text(raw: bytes) -> None:
    from_text(to_text(raw))


def test_text_is_decoded_and_encoded_as_zookeeper_does(zookeeper_server: ZooKeeperServer) -> None:
    """A sync echoes its path, decoded and encoded by Java, whatever the bytes are."""
    # The borders of UTF-8's byte classes, in every combination of up to three and many of four.
    borders = bytes.fromhex("41 7f 80 8f 90 9f a0 bf c1 c2 df e0 e1 ed ef f0 f1 f4 f5 ff")
    raws = [bytes(raw) for size in (1, 2, 3) for raw in itertools.product(borders, repeat=size)]
    raws += [bytes(raw) for raw in itertools.product(bytes.fromhex("e1 ed f0 f4"), borders, borders, borders)]
    with closing(Connection(zookeeper_server.port, 30.0)) as connection:
        connection.connect()
        for start in range(0, len(raws), 500):
            batch = raws[start : start + 500]
            requests = [REQUEST_HEADER.pack(1, OpCode.SYNC) + pack_buffer(raw) for raw in batch]
            connection.send(b"".join(map(pack_buffer, requests)))
            for raw in batch:
                reply = connection.receive_frame()
                assert isinstance(reply, bytes)
                assert reply[16:] == pack_string(to_text(raw)), raw.hex()


@given(ACLS, st.integers(0, 60), st.binary(max_size=4))
def test_entries_of_acls_are_read_as_their_fields_one_by_one(acls: list[Acl], at: int, odd: bytes) -> None:
    """Whole, cut, and with other bytes in the middle."""
    raw = pack_acls(acls)
    for data in (raw, raw[:at], raw[:at] + odd + raw[at + len(odd) :]):
        assert _entry(data, Reader.acl) == _entry(data, Reader._careful_acl)


def _entry(data: bytes, read: Callable[[Reader], Acl]) -> tuple[Acl, int] | None:
    reader = Reader(data, 4)
    try:
        return read(reader), reader.position
    except MalformedPacket:
        return None
