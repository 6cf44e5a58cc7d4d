"""Which container and TTL nodes are due to be deleted: the decisions of ZooKeeper's ContainerManager.

A node's age is how long this server has seen it unchanged on its own clock, an argument here. Comparing the
node's mtime, another host's clock, with ours would delete nodes too early wherever clocks differ.
"""

from typing import NamedTuple

from proxy.state.tree import Node, Tree
from schema.entry import NodeDue
from schema.znode import CONTAINER_OWNER, ttl_of


class _Seen(NamedTuple):
    """A node as it was when it was first seen so, and when that was (ms)."""

    czxid: int
    version: int
    mtime: int
    since: int


class Expiry:
    """What one server has seen of the nodes that go by themselves."""

    def __init__(self, max_never_used: int) -> None:
        """`max_never_used`: ms that a container may wait for its first child; 0: for ever."""
        self._max_never_used = max_never_used
        self._seen: dict[str, _Seen] = {}

    def look(self, tree: Tree, now: int) -> list[NodeDue]:
        """The nodes that are due at `now`, in ms of a clock that never goes back."""
        seen: dict[str, _Seen] = {}
        due = []
        for path in sorted(tree.mortal):
            node = tree.nodes[path]
            found = self._seen.get(path)
            if found is None or found[:3] != (node.czxid, node.version, node.mtime):
                found = _Seen(node.czxid, node.version, node.mtime, now)
            seen[path] = found
            if not node.children and self._is_over(node, now - found.since):
                due.append(NodeDue(path, node.version, node.mtime, node.czxid, self._max_never_used))
        self._seen = seen
        return due

    def forget(self) -> None:
        """Start anew: another server was in charge, or this one has not looked for long."""
        self._seen.clear()

    def _is_over(self, node: Node, age: int) -> bool:
        """A container once it has had a child, or never got one in time; a TTL node beyond its TTL."""
        if node.owner == CONTAINER_OWNER:
            return node.created > 0 or 0 < self._max_never_used < age
        return ttl_of(node.owner) < age
