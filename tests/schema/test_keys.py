"""Keys: every one names one thing, and the two ranges of the storage contract hold exactly what they say."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schema.keys import ForeignKey, Keyspace, Kind, ParsedKey, session_id_of
from schema.paths import ROOT, is_valid, parent_of

KEYS = Keyspace("/some/prefix")

# Characters on both sides of '/' and '0', between which the ranges end, and some that take several bytes.
_NAMES = st.text(st.sampled_from(" !-.0:a~é中\uffef"), min_size=1, max_size=3).filter(
    lambda name: name not in (".", "..")
)
_PATHS = st.lists(_NAMES, max_size=4).map(lambda steps: "/" + "/".join(steps))


def _is_below(path: str, top: str) -> bool:
    return path != ROOT and path.startswith(top if top == ROOT else top + "/")


def _range_of(top: str, first: bytes, last: bytes) -> tuple[bytes, bytes]:
    """The range as an operator would write it: the node space, the path, and two characters behind it."""
    start = KEYS.nodes + (b"" if top == ROOT else top.encode())
    return start + first, start + last


@given(st.sets(_PATHS, max_size=30), _PATHS)
def test_the_children_are_one_range(paths: set[str], top: str) -> None:
    start, end = _range_of(top, b"//", b"/0")
    found = {path for path in paths if start <= KEYS.node(path) < end}
    assert found == {path for path in paths if path != ROOT and parent_of(path) == top}


@given(st.sets(_PATHS, max_size=30), _PATHS)
def test_the_subtree_is_one_range(paths: set[str], top: str) -> None:
    start, end = _range_of(top, b"/", b"0")
    found = {path for path in paths if start <= KEYS.node(path) < end}
    assert found == {path for path in paths if _is_below(path, top)}


@given(st.sets(_PATHS, max_size=30), _PATHS)
def test_the_counters_of_a_subtree_are_one_range(paths: set[str], top: str) -> None:
    prefix = KEYS.counters + (b"" if top == ROOT else top.encode())
    found = {path for path in paths if prefix + b"/" < KEYS.counter(path) < prefix + b"0"}
    assert found == {path for path in paths if _is_below(path, top)}


@given(_NAMES, st.sets(_NAMES, max_size=20))
def test_keys_of_siblings_are_in_the_order_of_their_names(parent: str, names: set[str]) -> None:
    paths = [f"/{parent}/{name}" for name in names]
    assert sorted(paths, key=KEYS.node) == sorted(paths, key=str.encode)


@given(st.sets(_PATHS, max_size=30), st.sets(_PATHS, max_size=30))
def test_no_two_things_share_a_key(nodes: set[str], counters: set[str]) -> None:
    assert all(map(is_valid, nodes))
    keys = {KEYS.node(path) for path in nodes} | {KEYS.counter(path) for path in counters}
    assert len(keys) == len(nodes) + len(counters)


@given(_PATHS)
def test_a_nodes_key_is_taken_apart_again(path: str) -> None:
    assert KEYS.path_of_node(KEYS.node(path)) == path
    assert KEYS.parse(KEYS.node(path)) == ParsedKey(Kind.NODE, path)
    assert KEYS.parse(KEYS.counter(path)) == ParsedKey(Kind.COUNTER, path)


@given(st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1))
def test_a_sessions_key_is_taken_apart_again(session_id: int) -> None:
    kind, name = KEYS.parse(KEYS.session(session_id))
    assert kind is Kind.SESSION
    assert session_id_of(name) == session_id


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (KEYS.marker("cafe", 3), ParsedKey(Kind.MARKER, "cafe/3")),
        (KEYS.event_list(7), ParsedKey(Kind.EVENTS, "7")),
        (KEYS.proxy("cafe"), ParsedKey(Kind.PROXY, "cafe")),
        (KEYS.loss(7), ParsedKey(Kind.LOSS, "7")),
        (KEYS.tree, ParsedKey(Kind.TREE, "")),
        (KEYS.node("/"), ParsedKey(Kind.NODE, "/")),
        (KEYS.counter("/"), ParsedKey(Kind.COUNTER, "/")),
    ],
)
def test_every_other_key_is_taken_apart_again(key: bytes, expected: ParsedKey) -> None:
    assert KEYS.parse(key) == expected
    assert KEYS.start <= key < KEYS.end


def test_keys_are_readable() -> None:
    assert KEYS.node("/clickhouse/task_queue/ddl") == b"/some/prefix/node/clickhouse/task_queue//ddl"
    assert KEYS.node("/a") == b"/some/prefix/node//a"
    assert KEYS.node("/") == b"/some/prefix/node"
    assert KEYS.counter("/a/b") == b"/some/prefix/children/a/b"
    assert KEYS.session(-2) == b"/some/prefix/session/fffffffffffffffe"


@pytest.mark.parametrize(
    "key",
    [
        b"/some/prefix/",
        b"/some/prefix/nodes",
        b"/some/prefix/nodes//a",
        b"/some/prefix/node/a",
        b"/some/prefix/treeish",
        b"/some/prefix/childrens",
        b"/some/prefix/session/",
        b"/some/prefix/session/one",
        b"/some/prefix/session/00000000000000001",
        b"/some/prefix/session/-000000000000001",
        b"/x",
    ],
)
def test_foreign_keys_are_refused(key: bytes) -> None:
    with pytest.raises(ForeignKey, match="not a key of zketcd's schema"):
        KEYS.parse(key)


@given(st.binary())
def test_any_bytes_are_a_key_of_ours_or_refused(rest: bytes) -> None:
    for space in (b"", b"node", b"children", b"session/", b"marker/"):
        with contextlib.suppress(ForeignKey):
            KEYS.parse(KEYS.start + space + rest)


@pytest.mark.parametrize("prefix", ["", "/", "/a/", "/a//b"])
def test_bad_prefixes_are_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="the prefix"):
        Keyspace(prefix)


def test_prefixes_of_which_one_begins_the_other_do_not_overlap() -> None:
    one, other = Keyspace("/zk"), Keyspace("/zk2")
    assert one.end <= other.start
