"""The tree: links between nodes, ephemerals by session, what goes by itself, and what reads send."""

import pytest

from proxy.state.tree import Node, Tree
from schema.znode import OPEN_ACL, Znode


def _node(owner: int = 0, data: bytes | None = b"") -> Node:
    return Node(data, OPEN_ACL, owner, 1, 2, 3, 4, 5, 6, 0, 7)


def test_a_node_is_a_znode() -> None:
    """Node's constructor is written out once more, for speed: the same arguments mean the same fields."""
    arguments = (b"data", OPEN_ACL, *range(1, 10))
    node, znode = Node(*arguments), Znode(*arguments)
    fields = Znode.__slots__
    assert [getattr(node, name) for name in fields] == [getattr(znode, name) for name in fields]
    assert not hasattr(node, "__dict__")


def test_a_node_needs_a_parent_to_be_linked_to() -> None:
    tree = Tree()
    tree.enter("/p/c", _node())
    with pytest.raises(KeyError):
        tree.link("/p/c")
    tree.enter("/p", _node())
    tree.link("/p/c")
    assert tree.nodes["/p"].children == {"c"}
