"""Rows as keys and values: what goes in comes out, and what zketcd cannot hold is told."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.etcd.records import counter_of, kind_of, obstacle_to, puts_of, row_of
from pipeline.table import AclRow, ZnodeRow
from proxy.etcd.model import KeyValue
from schema.keys import Keyspace
from schema.values import encode_node

KEYS = Keyspace("/t")
_LONGS = st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1)
_INTS = st.integers(min_value=-(1 << 31), max_value=(1 << 31) - 1)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF), max_size=8)
_ACLS = st.none() | st.lists(st.builds(AclRow, _INTS, _TEXTS, _TEXTS), min_size=1, max_size=3).map(tuple)
_OPEN = (AclRow(31, "world", "anyone"),)

znode_rows = st.builds(
    ZnodeRow,
    st.sampled_from(["/", "/a", "/a/b-c"]),
    st.none() | st.binary(max_size=30),
    _ACLS,
    *(_LONGS,) * 5,
    *(_INTS,) * 3,
    _LONGS,
)


@given(znode_rows)
def test_a_row_comes_back(row: ZnodeRow) -> None:
    pairs = [KeyValue(put.key, put.value, 7, 8, 1, 0) for put in puts_of(KEYS, row)]
    assert pairs[0].key == KEYS.node(row.path)
    assert [pair.key for pair in pairs[1:]] in ([], [KEYS.counter(row.path)])
    counter = counter_of(pairs[1], ((0, 0),)) if pairs[1:] else None
    # An open ACL that is written down says the same to every client as none.
    expected = row._replace(acl=None) if row.acl == _OPEN else row
    assert row_of(row.path, pairs[0], counter, ((0, 0),)) == expected


def test_a_leaf_has_no_counter() -> None:
    leaf = ZnodeRow("/a", b"", None, 5, 6, 5, 1, 2, 0, 0, 0, 0)
    assert len(puts_of(KEYS, leaf)) == 1
    assert len(puts_of(KEYS, leaf._replace(created=1))) == 2
    assert len(puts_of(KEYS, leaf._replace(pzxid=9))) == 2  # its only child was an ephemeral, long ago


def test_zxids_of_nodes_born_here_are_revisions_and_their_offset() -> None:
    value = encode_node(b"x", (), 0, 1, 2, 3, 4)
    row = row_of("/a", KeyValue(b"k", value, 10, 20, 2, 0), None, ((0, 0), (15, 1000)))
    assert (row.czxid, row.mzxid, row.pzxid, row.created) == (10, 1020, 10, 0)
    again = encode_node(b"x", (), 0, 1, 2, 3, 4, czxid_is_mod=True)
    assert row_of("/a", KeyValue(b"k", again, 10, 20, 2, 0), None, ((0, 0),)).czxid == 20


def test_kinds_of_nodes() -> None:
    assert kind_of(0) == "persistent"
    assert kind_of(0x100000000000001) == "ephemeral"
    assert kind_of(-(1 << 63)) == "container"
    assert kind_of(-(1 << 56) + 5000) == "ttl"


def test_what_cannot_be_held() -> None:
    assert obstacle_to(KEYS, "/a", 1_000_000, None) is None
    assert "exceed" in str(obstacle_to(KEYS, "/a", 1536 * 1024, None))
    assert obstacle_to(KEYS, "/a", 1536 * 1024, None, max_request_bytes=10_000_000) is None
    assert "path" in str(obstacle_to(KEYS, "/a//b", 0, None))
    assert "path" in str(obstacle_to(KEYS, "a", 0, None))
