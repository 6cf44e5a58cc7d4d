"""Which containers and TTL nodes are due, in ZooKeeper's own terms."""

import pytest

from proxy.draft import Entry
from proxy.reaping import candidates, is_due
from proxy.tree import CONTAINER_OWNER, MAX_TTL, Node, Tree, ttl_owner
from schema.values import OPEN_ACL


def _node(owner: int, *, created: int = 0, mtime: int = 1000) -> Node:
    node = Node()
    node.data, node.acl, node.owner = b"", OPEN_ACL, owner
    node.czxid = node.mzxid = node.pzxid = node.ctime = 1
    node.mtime = mtime
    node.version = node.aversion = 0
    node.created = created
    node.mod = node.counter_mod = 1
    node.explicit_czxid = False
    node.children = None
    return node


@pytest.mark.parametrize(
    ("owner", "created", "now", "max_never_used", "due"),
    [
        (CONTAINER_OWNER, 1, 0, 0, True),
        (CONTAINER_OWNER, 0, 1 << 50, 0, False),
        (CONTAINER_OWNER, 0, 1100, 100, False),
        (CONTAINER_OWNER, 0, 1101, 100, True),
        (ttl_owner(100), 0, 1100, 0, False),
        (ttl_owner(100), 0, 1101, 0, True),
        (ttl_owner(100), 5, 1100, 1, False),
        (ttl_owner(100), 0, 5, 0, False),  # another proxy's clock is ahead
        (ttl_owner(MAX_TTL), 0, MAX_TTL, 0, False),
        (0, 5, 1 << 50, 1, False),
        (77, 5, 1 << 50, 1, False),
    ],
)
def test_what_is_due(owner: int, created: int, now: int, max_never_used: int, due: bool) -> None:
    node = _node(owner, created=created)
    tree = Tree()
    tree.attach("/", _node(0))
    tree.attach("/n", node)
    assert is_due(Entry("/n", node), now, max_never_used) is due
    assert candidates(tree, now, max_never_used) == (["/n"] if due else [])
    tree.attach("/n/child", _node(0))
    assert candidates(tree, now, max_never_used) == []
    tree.detach("/n/child")
    assert candidates(tree, now, max_never_used) == (["/n"] if due else [])
