"""The tree: links between nodes, ephemerals by session, what goes by itself, and what reads send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.jute import pack_strings
from codec.packets import STAT
from proxy.state.tree import Node, Tree
from schema.znode import CONTAINER_OWNER, OPEN_ACL, Znode, pack_stat, session_of, ttl_owner


def _node(owner: int = 0, data: bytes | None = b"") -> Node:
    return Node(data, OPEN_ACL, owner, 1, 2, 3, 4, 5, 6, 0, 7)


def test_a_node_is_a_znode() -> None:
    """Node's constructor is written out once more, for speed: the same arguments mean the same fields."""
    arguments = (b"data", OPEN_ACL, *range(1, 10))
    node, znode = Node(*arguments), Znode(*arguments)
    fields = Znode.__slots__
    assert [getattr(node, name) for name in fields] == [getattr(znode, name) for name in fields]
    assert not hasattr(node, "__dict__")


def test_a_stat_is_packed_once_until_something_changes() -> None:
    tree = Tree()
    parent = _node(data=b"12345")
    tree.attach("/", _node())
    tree.attach("/p", parent)
    assert STAT.unpack(parent.stat()) == (1, 2, 4, 5, 6, 0, 7, 0, 5, 0, 3)
    assert parent.stat() is parent.stat()
    assert parent.names() == pack_strings([])
    tree.attach("/p/a", _node(owner=77))
    assert parent.stat() == pack_stat(parent, 1)
    assert parent.names() == pack_strings(["a"])
    parent.created = 9
    parent.changed()
    assert STAT.unpack(parent.stat())[5] == 2 * 9 - 1
    tree.detach("/p/a")
    assert parent.stat() == pack_stat(parent, 0)
    assert parent.names() == pack_strings([])


_PATHS = st.sampled_from(["/a", "/b", "/a/x", "/a/x/y", "/b/x"])
_OWNERS = st.sampled_from([0, 1, 2, CONTAINER_OWNER, ttl_owner(5)])


@given(st.lists(st.tuples(st.booleans(), _PATHS, _OWNERS), max_size=30))
def test_links_and_owners_follow_the_nodes(steps: list[tuple[bool, str, int]]) -> None:
    tree = Tree()
    tree.attach("/", _node())
    plain: dict[str, int] = {"/": 0}
    for enters, path, owner in steps:
        above = path[: path.rindex("/")] or "/"
        if enters and path not in plain and above in plain:
            tree.attach(path, _node(owner))
            plain[path] = owner
        elif not enters and path in plain and not any(other.startswith(path + "/") for other in plain):
            node = tree.nodes[path]
            assert tree.detach(path) is node
            del plain[path]
    for path in plain:
        start = path.rstrip("/") + "/"
        children = {
            other[len(start) :]
            for other in plain
            if other != "/" and other.startswith(start) and "/" not in other[len(start) :]
        }
        assert (tree.nodes[path].children or set()) == children
        assert tree.nodes[path].children != set()
    sessions = {session_of(owner) for owner in plain.values()} - {0}
    assert tree.ephemerals == {
        session: {path for path, owner in plain.items() if owner == session} for session in sessions
    }
    assert set(tree.expiring) == {path for path, owner in plain.items() if owner and not session_of(owner)}
    assert tree.data_size == sum(map(len, plain))


def test_a_node_needs_a_parent_to_be_linked_to() -> None:
    tree = Tree()
    tree.enter("/p/c", _node())
    with pytest.raises(KeyError):
        tree.link("/p/c")
    tree.enter("/p", _node())
    tree.link("/p/c")
    assert tree.nodes["/p"].children == {"c"}


def test_a_tree_that_becomes_another_one_stays_the_object_that_it_was() -> None:
    tree, other = Tree(), Tree()
    tree.attach("/", _node())
    other.attach("/", _node())
    other.attach("/c", _node(CONTAINER_OWNER))
    other.attach("/e", _node(77))
    tree.become(other)
    for name in Tree.__slots__:
        assert getattr(tree, name) is getattr(other, name)
