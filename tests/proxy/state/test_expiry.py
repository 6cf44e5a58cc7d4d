"""Which containers and TTL nodes are due, by what one server has seen on its own clock."""

import pytest

from proxy.state.expiry import Expiry
from proxy.state.tree import Node, Tree
from schema.entry import NodeDue
from schema.znode import CONTAINER_OWNER, MAX_TTL, OPEN_ACL, ttl_owner


def _node(owner: int, *, created: int = 0) -> Node:
    return Node(b"", OPEN_ACL, owner, 11, 12, 13, 14, 15, 16, created, 0)


def _tree(**nodes: Node) -> Tree:
    tree = Tree()
    tree.attach("/", _node(0))
    for name, node in nodes.items():
        tree.attach(f"/{name}", node)
    return tree


@pytest.mark.parametrize(
    ("owner", "created", "age", "max_never_used", "due"),
    [
        (CONTAINER_OWNER, 1, 0, 0, True),
        (CONTAINER_OWNER, 0, 1 << 50, 0, False),
        (CONTAINER_OWNER, 0, 100, 100, False),
        (CONTAINER_OWNER, 0, 101, 100, True),
        (ttl_owner(100), 0, 100, 0, False),
        (ttl_owner(100), 0, 101, 0, True),
        (ttl_owner(100), 5, 100, 1, False),
        (ttl_owner(MAX_TTL), 0, MAX_TTL, 0, False),
        (0, 5, 1 << 50, 1, False),
        (77, 5, 1 << 50, 1, False),
    ],
)
def test_what_is_due(owner: int, created: int, age: int, max_never_used: int, due: bool) -> None:
    tree = _tree(n=_node(owner, created=created))
    expiry = Expiry(max_never_used)
    expiry.look(tree, 5000)
    expected = [NodeDue("/n", 16, 15, 11, max_never_used)] if due else []
    assert expiry.look(tree, 5000 + age) == expected
    tree.attach("/n/child", _node(0))
    assert expiry.look(tree, 5000 + age) == []
    tree.detach("/n/child")
    assert expiry.look(tree, 5000 + age) == expected


@pytest.mark.parametrize("field", ["version", "mtime", "czxid"])
def test_the_time_begins_anew_with_each_change(field: str) -> None:
    tree = _tree(t=_node(ttl_owner(100)))
    expiry = Expiry(0)
    expiry.look(tree, 0)
    node = tree.nodes["/t"]
    setattr(node, field, getattr(node, field) + 1)
    assert expiry.look(tree, 200) == []
    assert expiry.look(tree, 300) == []
    assert [due.path for due in expiry.look(tree, 301)] == ["/t"]


def test_the_clock_of_the_host_that_wrote_it_does_not_matter() -> None:
    tree = _tree(old=_node(ttl_owner(100)))
    tree.nodes["/old"].mtime = -(1 << 40)
    expiry = Expiry(0)
    assert expiry.look(tree, 1000) == expiry.look(tree, 1100) == []
    assert len(expiry.look(tree, 1101)) == 1


def test_a_server_that_comes_into_charge_starts_anew() -> None:
    tree = _tree(t=_node(ttl_owner(100)))
    expiry = Expiry(0)
    expiry.look(tree, 0)
    expiry.forget()
    assert expiry.look(tree, 200) == []


def test_what_is_due_comes_in_order_and_what_is_gone_is_forgotten() -> None:
    tree = _tree(**{name: _node(CONTAINER_OWNER, created=1) for name in ("b", "a", "c")})
    expiry = Expiry(0)
    assert [due.path for due in expiry.look(tree, 0)] == ["/a", "/b", "/c"]
    tree.detach("/b")
    assert [due.path for due in expiry.look(tree, 0)] == ["/a", "/c"]
    tree.attach("/t", _node(ttl_owner(100)))
    expiry.look(tree, 1000)
    tree.detach("/t")
    expiry.look(tree, 1050)
    tree.attach("/t", _node(ttl_owner(100)))
    assert "/t" not in [due.path for due in expiry.look(tree, 1200)]
