"""Pages: what is written comes back, shares what it should, stays near its size; anything else is refused."""

import json
import random
from struct import Struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.jute import OPEN_ACL, Acl
from schema import pages
from schema.budgets import BudgetsValue, BudgetValue
from schema.compression import wrap
from schema.errors import BadValue
from schema.json_values import pack_json
from schema.pages import (
    PAGE_BYTES,
    PageHeader,
    SessionValue,
    StateValue,
    decode_nodes,
    decode_sessions,
    decode_state,
    encode_nodes,
    encode_sessions,
    encode_state,
    page_header,
    split_nodes,
    split_sessions,
)
from schema.znode import Znode
from tests.schema.damage import assert_all_damage_is_refused
from tests.schema.strategies import INTS, LONGS, PATHS, TEXTS, UNSIGNED, ZNODES, fields
from tests.table import one_by_one

_NODES = st.lists(st.tuples(PATHS, ZNODES), min_size=1, max_size=8).map(
    lambda nodes: sorted(dict(nodes).items())
)


def _plain(nodes: list[tuple[str, Znode]]) -> list[tuple[str, dict[str, object]]]:
    return [(path, fields(node)) for path, node in nodes]


def _node(data: bytes | None = b"", acl: tuple[Acl, ...] = OPEN_ACL, zxid: int = 1) -> Znode:
    return Znode(data, acl, 0, zxid, zxid, zxid, 1_700_000_000_000, 1_700_000_000_000, 0, 0, 0)


@given(_NODES)
def test_a_page_of_znodes_comes_back(nodes: list[tuple[str, Znode]]) -> None:
    page = encode_nodes(nodes)
    assert _plain(decode_nodes(page)) == _plain(nodes)
    assert page_header(page) == PageHeader(len(nodes), nodes[0][0], nodes[-1][0])


def test_equal_acls_are_one_tuple_across_pages_and_the_open_one_is_the_open_one() -> None:
    def page() -> list[tuple[str, Znode]]:
        acls = [(Acl(31, "world", "anyone"),), (Acl(1, "ip", "::"),), (), (Acl(1, "ip", "::"),)]
        return decode_nodes(encode_nodes([(f"/{place}", _node(acl=acl)) for place, acl in enumerate(acls)]))

    one, other = page(), page()
    assert one[0][1].acl is OPEN_ACL
    assert one[1][1].acl is one[3][1].acl is other[1][1].acl == (Acl(1, "ip", "::"),)
    assert one[2][1].acl == ()


def test_what_a_page_cannot_hold_is_not_written() -> None:
    wrong = {name: _node() for name in ("version", "czxid", "owner")}
    wrong["version"].version, wrong["czxid"].czxid, wrong["owner"].owner = 1 << 31, 1 << 63, -(1 << 63) - 1
    for nodes, words in (
        ([("/a\0b", _node())], "NUL"),
        ([("/a", _node()), ("/b\0", _node())], "NUL"),
        ([], "no znodes"),
        *(([("/", node)], "does not fit") for node in wrong.values()),
    ):
        with pytest.raises(ValueError, match=words):
            encode_nodes(nodes)
    with pytest.raises(ValueError, match="3 bytes, not 16"):
        encode_sessions([SessionValue(1, 1, b"abc", "")])


@pytest.mark.parametrize("count", [1, 3, 100])
def test_all_damage_to_a_page_is_refused(count: int) -> None:
    page = encode_nodes([(f"/{number}", _node(b"data", (Acl(1, "ip", "::"),))) for number in range(count)])
    assert_all_damage_is_refused(decode_nodes, page)
    assert_all_damage_is_refused(page_header, page)


def test_a_page_byte_for_byte() -> None:
    nodes = [
        ("/a", Znode(None, OPEN_ACL, 5, 1, 2, 3, 4, 6, 7, 8, 9)),
        ("/ä", Znode(b"xyz", (), -5, -1, -2, -3, -4, -6, -7, -8, -9)),
    ]
    body = (
        Struct(">II").pack(6, 35)
        + Struct(">12q").pack(1, -1, 2, -2, 3, -3, 4, -4, 6, -6, 5, -5)
        + Struct(">8i2I").pack(7, -7, 8, -8, 9, -9, -1, 3, 0, 1)
        + "/a\0/ä".encode()
        + Struct(">IIiI5sI6sI").pack(2, 1, 31, 5, b"world", 6, b"anyone", 0)
        + b"xyz"
    )
    head = Struct(">II2sI3s").pack(2, 2, b"/a", 3, "/ä".encode())
    assert encode_nodes(nodes) == wrap(0x4E, body, head)


_PAGE = encode_nodes([("/a", _node(b"abc")), ("/b", _node(b"d"))])
_HEAD, _BODY = _PAGE[14:30], _PAGE[30:]
_LENGTHS = 8 + 2 * (6 * 8 + 3 * 4)


def _changed(place: int, new: bytes) -> bytes:
    return wrap(0x4E, _BODY[:place] + new + _BODY[place + len(new) :], _HEAD)


@one_by_one(
    ("page", "message"),
    [
        (wrap(0x4E, _BODY, b"\0\0\0\x03" + _HEAD[4:]), "3 znodes has 2 paths|has only|should start"),
        (wrap(0x4E, _BODY, b"\0\0\0\x01" + _HEAD[4:]), "."),
        (wrap(0x4E, _BODY, b"\xff\xff\xff\xff" + _HEAD[4:]), "a page of 4294967295 znodes has only"),
        (wrap(0x4E, _BODY, b"\0\0\0\0" + _HEAD[4:]), "."),
        (wrap(0x4E, _BODY, _HEAD[:-1]), "a page's header of 15 bytes is cut short"),
        (wrap(0x4E, _BODY, _HEAD + b"\0"), "more than it should"),
        (wrap(0x4E, b"", _HEAD), "has only 0 bytes"),
        (_changed(0, b"\xff\xff\xff\xff"), "data should start at byte"),
        (_changed(4, b"\xff\xff\xff\xff"), "data should start at byte"),
        (_changed(_LENGTHS, b"\xff\xff\xff\xfe"), "a znode with -2 bytes of data"),
        (_changed(_LENGTHS, b"\0\0\0\x04"), "data end at byte"),
        (_changed(_LENGTHS, b"\0\0\0\x02"), "data end at byte"),
        (_changed(_LENGTHS + 8, b"\0\0\0\x01"), "whose ACL is not in it"),
        (_changed(_LENGTHS + 18, b"x"), "a page of 2 znodes has 1 paths"),
        (_changed(_LENGTHS + 17, b"\xff"), "not UTF-8"),
        (_changed(_LENGTHS + 21, b"\0\0\0\x02"), "a page's ACLs of 31 bytes is cut short"),
        (_changed(_LENGTHS + 21, b"\0\0\0\0"), "a page's ACLs has 27 bytes more"),
    ],
)
def test_a_page_whose_numbers_do_not_fit_is_refused(page: bytes, message: str) -> None:
    assert len(decode_nodes(wrap(0x4E, _BODY, _HEAD))) == 2
    with pytest.raises(BadValue, match=message):
        decode_nodes(page)


def _many(count: int, data: int, seed: int = 1) -> list[tuple[str, Znode]]:
    noise = random.Random(seed)
    return [(f"/many/{number:08d}", _node(noise.randbytes(data), zxid=number)) for number in range(count)]


@pytest.mark.long
@pytest.mark.parametrize("data", [0, 50, 5000])
@pytest.mark.parametrize("target", [4096, PAGE_BYTES])
def test_pages_hold_all_znodes_and_are_about_as_large_as_wanted(data: int, target: int) -> None:
    nodes = _many(200_000 // (data + 20), data)
    written = list(split_nodes(iter(nodes), target))
    assert _plain([node for page in written for node in decode_nodes(page)]) == _plain(nodes)
    assert max(map(len, written)) <= 2 * target or max(page_header(page).count for page in written) == 1
    if len(written) > 4 and data < target:
        assert sum(map(len, written)) / len(written) > target / 3


@pytest.mark.long
def test_pages_stay_small_where_noise_follows_what_compresses_well() -> None:
    zeros = [(f"/a/{number:08d}", _node(bytes(1000))) for number in range(20_000)]
    nodes = zeros + _many(5000, 1000)
    written = list(split_nodes(nodes))
    assert max(map(len, written)) <= 2 * PAGE_BYTES
    assert [path for page in written for path, _ in decode_nodes(page)] == [path for path, _ in nodes]


def test_a_large_znode_has_a_page_of_its_own() -> None:
    nodes = [("/a", _node()), ("/b", _node(random.Random(1).randbytes(1 << 20))), ("/c", _node())]
    sizes = [len(page) for page in split_nodes(nodes)]
    assert max(sizes) < (1 << 20) + 1000
    assert list(split_nodes([])) == []


_HASHES = st.binary(min_size=16, max_size=16)
_SESSIONS = st.lists(st.builds(SessionValue, LONGS, INTS, _HASHES, TEXTS), max_size=8)


@given(_SESSIONS)
def test_a_page_of_sessions_comes_back(sessions: list[SessionValue]) -> None:
    assert decode_sessions(encode_sessions(sessions)) == sessions


def test_a_page_of_sessions_byte_for_byte() -> None:
    sessions = [
        SessionValue(1, 4000, b"a" * 16, "cafe"),
        SessionValue(-2, 5000, b"b" * 16, "x"),
        SessionValue(3, 6000, b"c" * 16, "cafe"),
    ]
    body = (
        Struct(">II").pack(3, 2)
        + Struct(">qi16sI").pack(1, 4000, b"a" * 16, 0)
        + Struct(">qi16sI").pack(-2, 5000, b"b" * 16, 1)
        + Struct(">qi16sI").pack(3, 6000, b"c" * 16, 0)
        + Struct(">I4sI1s").pack(4, b"cafe", 1, b"x")
    )
    assert encode_sessions(sessions) == wrap(0x53, body)


@pytest.mark.parametrize("count", [0, 1, 200])
def test_all_damage_to_a_page_of_sessions_or_a_state_is_refused(count: int) -> None:
    sessions = [SessionValue(number, 4000, bytes(16), "cafe") for number in range(count)]
    assert_all_damage_is_refused(decode_sessions, encode_sessions(sessions))
    assert_all_damage_is_refused(decode_state, encode_state(_STATE))


def test_a_page_of_sessions_whose_numbers_do_not_fit_is_refused() -> None:
    two = Struct(">II")
    for body, message in (
        *((cut, "cut short") for cut in (b"", two.pack(1, 0), two.pack(1 << 31, 0), two.pack(0, 1 << 31))),
        (two.pack(0, 0) + b"x", "more than it should"),
        (Struct(">IIqi16sI").pack(1, 0, 1, 1, b"", 0), "whose incarnation is not in it"),
    ):
        with pytest.raises(BadValue, match=message):
            decode_sessions(wrap(0x53, body))


def test_sessions_are_split_into_pages() -> None:
    noise = random.Random(1)
    sessions = [SessionValue(noise.getrandbits(63), 4000, noise.randbytes(16), "cafe") for _ in range(10_000)]
    written = list(split_sessions(iter(sessions)))
    assert [session for page in written for session in decode_sessions(page)] == sessions
    assert len(written) > 1
    assert max(map(len, written)) <= PAGE_BYTES + 100
    assert list(split_sessions([])) == []


_STATES = st.builds(
    StateValue,
    LONGS,
    st.integers(min_value=0),
    st.integers(0, 9),
    UNSIGNED,
    st.dictionaries(TEXTS, st.integers(min_value=0), max_size=4),
    st.lists(st.tuples(st.integers(min_value=0), UNSIGNED), max_size=4).map(tuple),
    st.builds(
        BudgetsValue,
        LONGS,
        st.dictionaries(TEXTS, LONGS, max_size=4),
        st.lists(st.builds(BudgetValue, TEXTS, LONGS, LONGS, LONGS, LONGS, LONGS), max_size=3).map(tuple),
    ),
    st.lists(st.builds(range, LONGS, LONGS), max_size=3).map(tuple),
)
_STATE = StateValue(5, 64, 1, 7, {"b": 2, "a": 1}, ((32, 255), (64, (1 << 64) - 1)))


@given(_STATES)
def test_a_state_comes_back(state: StateValue) -> None:
    assert decode_state(encode_state(state)) == state


def test_a_state_is_readable_and_in_one_order() -> None:
    members = json.loads(encode_state(_STATE))
    members.pop("crc")
    assert members == {
        "schema": 2,
        "zxid": 5,
        "entries": 64,
        "level": 1,
        "cluster_id": 7,
        "applied": {"a": 1, "b": 2},
        "checkpoints": [[32, "00000000000000ff"], [64, "ffffffffffffffff"]],
    }
    assert list(members["applied"]) == ["a", "b"]
    restored = json.loads(encode_state(_STATE._replace(undone=(range(6, 9), range(10, 20)))))
    assert restored["undone"] == [[6, 9], [10, 20]]
    assert json.loads(encode_state(_STATE._replace(paid_at=9)))["paid_at"] == 9


def test_a_state_with_a_member_of_another_type_is_refused() -> None:
    members = json.loads(encode_state(_STATE))
    del members["schema"], members["crc"]
    wrong: dict[str, list[Any]] = {
        "zxid": ["5"],
        "entries": [None],
        "applied": [[1], {"a": "1"}],
        "checkpoints": [3, [[1]], [[1, 2]], [[1, "x"]]],
        "undone": [3, [3], [[1]], [[1, "2"]], [[1, 2, 3]]],
        "paid_at": ["5", None],
    }
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(BadValue, match="a snapshot's state has no proper"):
                decode_state(pack_json({**members, name: value}))
        if name not in members:
            continue
        with pytest.raises(BadValue, match=name):
            decode_state(pack_json({each: value for each, value in members.items() if each != name}))


def test_no_long_table_of_acls_stays_in_memory() -> None:
    for count, cached in ((5, 1), (2000, 0)):
        acls = [tuple(Acl(1, "ip", f"10.0.{count}.{number}") for number in range(count)), OPEN_ACL]
        pages._unpack_short.cache_clear()
        pages._shared_acl.cache_clear()
        found = pages.unpack_acls(pages.pack_acls(acls))
        assert found == acls
        assert found[1] is OPEN_ACL
        assert pages._unpack_short.cache_info().currsize == cached
        assert pages._shared_acl.cache_info().currsize == 1 + cached
