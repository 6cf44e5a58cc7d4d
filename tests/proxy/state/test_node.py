"""The two forms of a znode show the same, and a packed one is made of whatever can be packed."""

import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codec.jute import OPEN_ACL, Acl
from proxy.state import node as module
from proxy.state.digest import node_hash, page_hash
from proxy.state.node import FullNode, PackedNode, full_node, make_node, new_node, nodes_of
from proxy.state.rights import OPEN
from schema.pages import NodePage, encode_nodes
from schema.znode import CONTAINER_OWNER, Fields, Znode, pack_stat, ttl_owner

_ACL = (Acl(1, "ip", "::1"),)
_FIELDS = Znode.__slots__
_LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
_INTS = st.integers(-(1 << 31), (1 << 31) - 1)

znodes: st.SearchStrategy[Fields] = st.tuples(
    st.none() | st.binary(max_size=9),
    st.sampled_from([OPEN_ACL, _ACL, ()]),
    st.sampled_from([0, 0, 5, 1 << 62, -1 << 62, CONTAINER_OWNER, ttl_owner(7)]),
    *[_LONGS] * 5,
    _INTS,
    st.just(0) | _INTS,
    _INTS,
)


def _shown(node: FullNode | PackedNode) -> list[Any]:
    methods = (node.content, node.stat, node.names, node.digested, node.fields)
    found = [show() for show in methods]
    return [*found, *(getattr(node, name) for name in _FIELDS), node.size, node.children]


@given(znodes)
def test_both_forms_show_the_same(fields: Fields) -> None:
    full, node = FullNode(*fields), make_node(*fields)
    assert _shown(node) == _shown(full)
    assert node.fields() == fields
    assert node.stat() == pack_stat(Znode(*fields), 0)
    _, _, owner, *_, created, _ = fields
    assert isinstance(node, PackedNode) is (not created and owner not in (CONTAINER_OWNER, ttl_owner(7)))
    assert _shown(full_node({"/n": node}, "/n")) == _shown(full)


@given(znodes, st.none() | st.binary(max_size=9), _LONGS, _LONGS)
@example((b"", OPEN_ACL, 0, 1, 1, 1, 1, 1, (1 << 31) - 1, 0, 0), None, 2, 2)
def test_both_forms_are_written_alike(fields: Fields, data: bytes | None, zxid: int, time: int) -> None:
    node = make_node(*fields)
    if isinstance(node, PackedNode):
        written = node.written(data, zxid, time)
        version = (node.version + 1 + (1 << 31)) % (1 << 32) - (1 << 31)
        acl, owner, czxid, pzxid, ctime, aversion = (fields[place] for place in (1, 2, 3, 5, 6, 10))
        expected = (data, acl, owner, czxid, zxid, pzxid, ctime, time, version, 0, aversion)
        assert written.fields() == expected
        assert type(written) is type(node)


@given(st.dictionaries(st.sampled_from(["/", "/a", "/é", "/zookeeper/x", "/zz"]), znodes, min_size=1))
def test_a_page_holds_the_same_nodes(given: dict[str, Fields]) -> None:
    named = [(path, make_node(*fields)) for path, fields in sorted(given.items())]
    page = NodePage(encode_nodes(named))
    found = nodes_of(page)
    assert page.paths == [path for path, _ in named]
    assert [_shown(node) for node in found] == [_shown(node) for _, node in named]
    assert [type(node) for node in found] == [type(node) for _, node in named]
    assert page_hash(page) == sum(node_hash(path, node) for path, node in named)


def test_of_very_many_acls_not_each_has_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_kinds", {OPEN: PackedNode})
    monkeypatch.setattr(module, "_MOST_ACLS", 3)
    acls = [(Acl(1, "digest", str(number)),) for number in range(5)]
    nodes = [make_node(b"x", acl, *[0] * 9) for acl in [*acls, OPEN_ACL]]
    assert [isinstance(node, PackedNode) for node in nodes] == [True, True, False, False, False, True]
    assert [node.acl for node in nodes] == [*acls, OPEN_ACL]
    page = NodePage(encode_nodes([(f"/{place}", node) for place, node in enumerate(nodes)]))
    assert [(type(node), node.acl) for node in nodes_of(page)] == [(type(node), node.acl) for node in nodes]


def test_a_packed_node_is_one_small_object() -> None:
    """Its reply to getData, 33 bytes of any bytes object, and 16 of any object of a class of Python's."""
    node = new_node(bytes(100), OPEN, 0, 1 << 40, 1 << 40)
    assert sys.getsizeof(node) == len(node.content()) + 33 + 16
    assert not hasattr(node, "__dict__")


def test_a_long_acl_has_no_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classes stay for good."""
    monkeypatch.setattr(module, "_kinds", {OPEN: PackedNode})
    for count, is_packed in ((20, True), (200, False)):
        acl = tuple(Acl(1, "digest", f"u{number}:x") for number in range(count))
        assert isinstance(make_node(b"x", acl, *[0] * 9), PackedNode) is is_packed
    assert len(module._kinds) == 2
