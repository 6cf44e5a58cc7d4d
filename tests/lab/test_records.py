"""Every declaration, with values and bytes derived from it."""

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.constants import OpCode
from codec.errors import MalformedPacket
from lab import records
from lab.records import decode, encode
from tests.codec.generate import RECORDS, broken_packets, plain, values

BY_NAME = pytest.mark.parametrize("name", sorted(RECORDS))
FEWER = settings(max_examples=settings().max_examples // 3)  # many records are alike


@BY_NAME
@FEWER
@given(data=st.data())
def test_what_is_encoded_decodes_to_the_same_value_and_bytes(name: str, data: st.DataObject) -> None:
    record = RECORDS[name]
    value = data.draw(values(record))
    packet = encode(record, value)
    assert plain(decode(record, packet)) == value
    assert encode(record, decode(record, packet)) == packet
    assert plain(decode(record, b"head" + packet, 4)) == value
    has_optional_end = name in ("ConnectRequest", "ConnectResponse")
    for end in range(len(packet) - has_optional_end):
        with pytest.raises(MalformedPacket):
            decode(record, packet[:end])


@BY_NAME
@FEWER
@given(data=st.data())
def test_broken_bytes_give_a_value_or_malformed_packet(name: str, data: st.DataObject) -> None:
    packet = data.draw(st.one_of(st.binary(max_size=60), broken_packets(RECORDS[name])))
    try:
        decode(RECORDS[name], packet)
    except MalformedPacket:
        return
    assert decode(RECORDS[name], packet + b"more") is not None


def test_the_message_names_the_field_on_one_line() -> None:
    """For it is logged."""
    with pytest.raises(MalformedPacket, match=r"^passwd: [^\n]*expected 9999, found 0$"):
        decode(records.ConnectRequest, struct.pack(">iqiqi", 0, 0, 10_000, 0, 9999))


def test_every_opcode_that_a_client_may_send_has_a_request_and_a_response() -> None:
    internal = {OpCode.NOTIFICATION, OpCode.CREATE_SESSION, OpCode.ERROR}
    assert set(records.REQUESTS) == set(OpCode) - internal
    # A check outside a multi is refused: Request.isValid.
    assert set(records.RESPONSES) == set(OpCode) - internal - {OpCode.CHECK}


@pytest.mark.parametrize(
    ("packet", "value"),
    [("ffffffff", None), ("fffffffe", []), ("80000000", []), ("00000000", []), ("00000001ffffffff", [None])],
)
def test_counts_of_vectors_as_zookeeper_takes_them(packet: str, value: Any) -> None:
    assert decode(records.GetChildrenResponse, bytes.fromhex(packet)).children == value


@pytest.mark.parametrize("byte", [1, 2, 128, 255])
def test_any_byte_but_zero_is_true(byte: int) -> None:
    assert decode(records.ExistsRequest, b"\0\0\0\x01/" + bytes([byte])).watch is True


def test_a_multi_with_an_operation_that_it_cannot_hold_is_malformed() -> None:
    packet = encode(records.MultiHeader, {"type": OpCode.EXISTS, "done": False, "err": -1})
    with pytest.raises(MalformedPacket):
        decode(records.MultiOperationRecord, packet + b"\0\0\0\x01/\0")
