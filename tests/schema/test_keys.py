"""Keys: what is built comes back, the ranges hold what they should, anything else is refused."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schema.errors import ForeignKey
from schema.keys import KeyKind, Keyspace, ParsedKey, snapshot_name
from tests.table import one_by_one

KEYS = Keyspace("/some/prefix")
_INCARNATIONS = st.text("0123456789abcdefXYZ_.-", min_size=1, max_size=12)
_NUMBERS = st.integers(min_value=0, max_value=10**16 - 1)


def test_keys_are_readable() -> None:
    name = snapshot_name(77, "cafe")
    assert KEYS.tree == b"/some/prefix/live/tree"
    assert KEYS.proxy("cafe") == b"/some/prefix/live/proxy/cafe"
    assert KEYS.entry("cafe", 12) == b"/some/prefix/live/log/cafe/0000000000000012"
    assert name == "0000000000000077-cafe"
    assert KEYS.node_page(name, 3) == b"/some/prefix/snapshot/0000000000000077-cafe/nodes/00000003"
    assert KEYS.session_page(name, 0) == b"/some/prefix/snapshot/0000000000000077-cafe/sessions/00000000"
    assert KEYS.state_page(name) == b"/some/prefix/snapshot/0000000000000077-cafe/state"
    assert KEYS.prefix == b"/some/prefix"


def _within(key: bytes, start: bytes, end: bytes) -> bool:
    return start <= key < end


@given(_INCARNATIONS, _NUMBERS)
def test_every_key_is_taken_apart_again(incarnation: str, number: int) -> None:
    name = snapshot_name(number, incarnation)
    for key, expected in (
        (KEYS.tree, ParsedKey(KeyKind.TREE, "", 0)),
        (KEYS.proxy(incarnation), ParsedKey(KeyKind.PROXY, incarnation, 0)),
        (KEYS.entry(incarnation, number), ParsedKey(KeyKind.ENTRY, incarnation, number)),
        (KEYS.node_page(name, 7), ParsedKey(KeyKind.PAGE, incarnation, number)),
        (KEYS.session_page(name, 7), ParsedKey(KeyKind.PAGE, incarnation, number)),
        (KEYS.state_page(name), ParsedKey(KeyKind.PAGE, incarnation, number)),
    ):
        assert KEYS.parse(key) == expected
        assert any(_within(key, *each) for each in KEYS.ranges)
        assert _within(key, KEYS.live, KEYS.live_end) is (expected.kind is not KeyKind.PAGE)
        assert _within(key, KEYS.proxies, KEYS.proxies_end) is (expected.kind is KeyKind.PROXY)
        assert _within(key, KEYS.log, KEYS.log_end) is (expected.kind is KeyKind.ENTRY)
        assert _within(key, KEYS.snapshots, KEYS.snapshots_end) is (expected.kind is KeyKind.PAGE)
        assert _within(key, *KEYS.snapshot(name)) is (expected.kind is KeyKind.PAGE)


@given(_INCARNATIONS, _INCARNATIONS, _NUMBERS, _NUMBERS)
def test_an_incarnations_entries_are_one_range_in_the_order_of_their_numbers(
    one: str, other: str, first: int, second: int
) -> None:
    assert _within(KEYS.entry(other, first), *KEYS.entries_of(one)) is (one == other)
    assert (KEYS.entry(one, first) < KEYS.entry(one, second)) is (first < second)


@given(_INCARNATIONS, _INCARNATIONS, _NUMBERS, _NUMBERS)
def test_a_snapshots_pages_are_one_range_with_no_other_snapshots(
    one: str, other: str, first: int, second: int
) -> None:
    name, foreign = snapshot_name(first, one), snapshot_name(second, other)
    for key in (KEYS.node_page(foreign, 0), KEYS.session_page(foreign, 99_999_999), KEYS.state_page(foreign)):
        assert _within(key, *KEYS.snapshot(name)) is (name == foreign)


_FOREIGN = """
tree node//a session/00000000000000aa
live live/ live/trees live/tree/
live/proxy/ live/proxy/a/b live/proxy/ä
live/log/ live/log/cafe live/log/cafe/ live/log/cafe/1 live/log/cafe/000000000000000a
live/log/cafe/00000000000000001 live/log/cafe/0000000000000001/ live/log/cafe/-000000000000001
live/log//0000000000000001 live/log/a/b/0000000000000001
snapshot/ snapshot/5-cafe snapshot/5-cafe/ snapshot/5-cafe/nodes/1 snapshot/5-cafe/nodes/00000001x
snapshot/5-cafe/others/00000001 snapshot/5-cafe/state/ snapshot/-cafe/state snapshot/5/state
snapshot/x-cafe/state
"""


@one_by_one("rest", ["", *_FOREIGN.split()])
def test_foreign_keys_are_refused(rest: str) -> None:
    with pytest.raises(ForeignKey, match="not a key of zketcd's schema"):
        KEYS.parse(b"/some/prefix/" + rest.encode())


@one_by_one("prefix", ["/some/prefix2", "/some/prefi", "/some/prefix/more", "/other", "/some"])
def test_keys_of_a_prefix_next_to_ours_are_foreign(prefix: str) -> None:
    other = Keyspace(prefix)
    name = snapshot_name(1, "cafe")
    for key in (other.tree, other.proxy("cafe"), other.entry("cafe", 1), other.node_page(name, 0)):
        with pytest.raises(ForeignKey):
            KEYS.parse(key)


@one_by_one("other", ["/zk2", "/zk0", "/zk-", "/zk/a", "/zk/tree", "/zk/follow", "zk"])
def test_trees_do_not_overlap_where_one_prefix_begins_the_other(other: str) -> None:
    ranges = sorted((*Keyspace("/zk").ranges, *Keyspace(other).ranges))
    assert all(end <= start for (_, end), (start, _) in pairwise(ranges))


@pytest.mark.parametrize("prefix", ["", "/", "/a/", "/a//b"])
def test_bad_prefixes_are_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="the prefix"):
        Keyspace(prefix)
