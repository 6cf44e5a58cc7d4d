"""Values: what is encoded comes back, the bytes are those of the contract, anything else is refused."""

import contextlib
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.jute import Acl
from schema.values import (
    OPEN_ACL,
    BadValue,
    NodeValue,
    SessionValue,
    TreeEvent,
    TreeRecord,
    decode_counter,
    decode_events,
    decode_loss,
    decode_node,
    decode_session,
    decode_tree,
    encode_counter,
    encode_events,
    encode_loss,
    encode_node,
    encode_session,
    encode_tree,
)

_LONGS = st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1)
_INTS = st.integers(min_value=-(1 << 31), max_value=(1 << 31) - 1)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF), max_size=10)
_ACLS = st.one_of(
    st.just(OPEN_ACL), st.lists(st.builds(Acl, _INTS, _TEXTS, _TEXTS), min_size=1, max_size=3).map(tuple)
)


@st.composite
def _nodes(draw: st.DrawFn) -> NodeValue:
    czxid = draw(st.none() | _LONGS)
    return NodeValue(
        data=draw(st.none() | st.binary(max_size=40)),
        acl=draw(_ACLS),
        owner=draw(st.just(0) | _LONGS),
        ctime=draw(_LONGS),
        mtime=draw(_LONGS),
        version=draw(_INTS),
        aversion=draw(_INTS),
        czxid=czxid,
        mzxid=draw(st.none() | _LONGS),
        czxid_is_mod=czxid is None and draw(st.booleans()),
    )


@given(_nodes())
def test_a_node_comes_back(node: NodeValue) -> None:
    assert decode_node(encode_node(*node)) == node


@given(_nodes(), st.integers(min_value=0, max_value=200))
def test_a_node_cut_in_its_header_is_refused(node: NodeValue, size: int) -> None:
    value = encode_node(*node)
    header = len(value) - len(node.data or b"")
    with pytest.raises(BadValue, match="cut short"):
        decode_node(value[: min(size, header - 1)])


@given(st.binary(max_size=60), st.integers(min_value=0, max_value=63))
def test_any_bytes_are_a_node_or_refused(rest: bytes, flags: int) -> None:
    with contextlib.suppress(BadValue):
        decode_node(bytes((1, flags)) + rest)


def test_the_plainest_node_byte_for_byte() -> None:
    value = encode_node(b"data", OPEN_ACL, 0, 1, 2, 3, 4)
    assert value.hex(" ", 4) == (bytes((1, 0)) + struct.pack(">qqii", 1, 2, 3, 4) + b"data").hex(" ", 4)


def test_a_node_with_everything_byte_for_byte() -> None:
    acl = (Acl(1, "ip", "::"),)
    value = encode_node(None, acl, 5, 1, 2, 3, 4, 6, 7)
    assert value == (
        bytes((1, 1 + 2 + 4 + 8 + 16))
        + struct.pack(">qqii", 1, 2, 3, 4)
        + struct.pack(">qqq", 5, 6, 7)
        + struct.pack(">i", 20)
        + struct.pack(">iii2si2s", 1, 1, 2, b"ip", 2, b"::")
    )


def test_a_node_created_again_byte_for_byte() -> None:
    assert encode_node(b"", OPEN_ACL, 0, 0, 0, 0, 0, None, None, True)[:2] == bytes((1, 32))


@pytest.mark.parametrize("version", [0, 2, 255])
def test_a_node_of_another_version_is_refused(version: int) -> None:
    value = bytes((version,)) + encode_node(b"data", OPEN_ACL, 0, 1, 2, 3, 4)[1:]
    with pytest.raises(BadValue, match=f"version {version}"):
        decode_node(value)


@pytest.mark.parametrize("flag", [64, 128])
def test_a_node_with_an_unknown_flag_is_refused(flag: int) -> None:
    value = bytearray(encode_node(b"data", OPEN_ACL, 0, 1, 2, 3, 4))
    value[1] |= flag
    with pytest.raises(BadValue, match=hex(flag)):
        decode_node(bytes(value))


def test_a_node_whose_acl_is_no_acl_is_refused() -> None:
    value = encode_node(b"", (Acl(1, "ip", "::"),), 0, 1, 2, 3, 4)
    with pytest.raises(BadValue):
        decode_node(value[:-4])
    with pytest.raises(BadValue):
        decode_node(value[:30] + struct.pack(">ii", 8, 1))


def test_equal_acls_of_two_nodes_are_one_object() -> None:
    value = encode_node(b"", (Acl(1, "ip", "::"),), 0, 1, 2, 3, 4)
    assert decode_node(value).acl is decode_node(value + b"x").acl
    assert decode_node(encode_node(b"", (Acl(31, "world", "anyone"),), 0, 1, 2, 3, 4)).acl is OPEN_ACL


@given(_INTS, st.none() | _LONGS)
def test_a_counter_comes_back(created: int, pzxid: int | None) -> None:
    value = encode_counter(created, pzxid)
    assert decode_counter(value) == (created, pzxid)
    for size in range(len(value)):
        with pytest.raises(BadValue):
            decode_counter(value[:size])


def test_counters_byte_for_byte() -> None:
    assert encode_counter(258) == bytes((1, 0, 0, 0, 1, 2))
    assert encode_counter(3, 4) == bytes((1, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4))


@pytest.mark.parametrize("value", [bytes((2, 0, 0, 0, 0, 1)), bytes((1, 2, 0, 0, 0, 1))])
def test_counters_of_another_version_or_flag_are_refused(value: bytes) -> None:
    with pytest.raises(BadValue, match="child counter of version"):
        decode_counter(value)


@given(st.builds(SessionValue, st.text(), _INTS, st.text()))
def test_a_session_comes_back(session: SessionValue) -> None:
    assert decode_session(encode_session(session)) == session


def test_a_session_is_readable() -> None:
    assert json.loads(encode_session(SessionValue("abc", 4000, "cafe"))) == {
        "version": 1,
        "password_hash": "abc",
        "timeout_ms": 4000,
        "owner": "cafe",
    }


_OFFSETS = st.lists(st.tuples(_LONGS, _LONGS), min_size=1, max_size=3).map(tuple)


@given(st.builds(TreeRecord, st.booleans(), _OFFSETS, _LONGS))
def test_the_trees_record_comes_back(record: TreeRecord) -> None:
    assert decode_tree(encode_tree(record)) == record


def test_the_trees_record_is_readable() -> None:
    assert json.loads(encode_tree(TreeRecord(True, ((0, 0), (10, 90)), 7))) == {
        "version": 1,
        "complete": True,
        "offsets": [[0, 0], [10, 90]],
        "cluster_id": 7,
    }


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"no json",
        b"\xff",
        b"[1]",
        b"{}",
        b'{"version": 2}',
        b'{"version": 1}',
        b'{"version": 1, "complete": true, "offsets": [], "cluster_id": 1}',
        b'{"version": 1, "complete": true, "offsets": [[1]], "cluster_id": 1}',
        b'{"version": 1, "complete": true, "offsets": 3, "cluster_id": 1}',
        b'{"version": 1, "password_hash": "a", "timeout_ms": "x", "owner": "b"}',
    ],
)
def test_other_records_are_refused(value: bytes) -> None:
    with pytest.raises(BadValue):
        decode_session(value)
    with pytest.raises(BadValue):
        decode_tree(value)


_EVENTS = st.lists(st.builds(TreeEvent, st.integers(1, 4), _TEXTS, _ACLS), max_size=5)


@given(_EVENTS)
def test_events_come_back_in_their_order(events: list[TreeEvent]) -> None:
    assert decode_events(encode_events(events)) == events


@pytest.mark.parametrize("paths", [[], ["/a"], ["/a/b", "/ü"]])
def test_a_loss_tells_whose_it_was_and_for_what(paths: list[str]) -> None:
    assert decode_loss(encode_loss("cafe", paths)) == ("cafe", paths)


@given(_EVENTS.filter(bool), st.integers(min_value=0))
def test_events_cut_short_are_refused(events: list[TreeEvent], size: int) -> None:
    value = encode_events(events)
    whole = {len(encode_events(events[:count])) for count in range(len(events) + 1)}
    size %= len(value)
    if size not in whole:
        with pytest.raises(BadValue):
            decode_events(value[:size])


@given(st.binary(max_size=60))
def test_any_bytes_are_events_or_refused(rest: bytes) -> None:
    for value in (rest, b"\x01" + rest):
        with contextlib.suppress(BadValue):
            decode_events(value)


def test_events_byte_for_byte() -> None:
    events = [TreeEvent(1, "/a", OPEN_ACL), TreeEvent(2, "/b", (Acl(1, "ip", "::"),))]
    assert encode_events(events) == (
        bytes((1,))
        + bytes((1,))
        + struct.pack(">ii", 2, 0)
        + b"/a"
        + bytes((2,))
        + struct.pack(">ii", 2, 20)
        + b"/b"
        + struct.pack(">iii2si2s", 1, 1, 2, b"ip", 2, b"::")
    )


def test_events_of_another_version_are_refused() -> None:
    with pytest.raises(BadValue, match="another version"):
        decode_events(b"\x02")
