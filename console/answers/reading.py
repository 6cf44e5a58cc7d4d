"""What the answers about the tree share: who may read what, and pauses. Every walk is bounded."""

import asyncio
import hashlib
from collections.abc import Callable
from typing import NamedTuple

from console.people.logins import Call, Refused
from console.walks.listing import may_read, walk
from console.walks.pacing import Pace, paced
from proxy.admin.facts import Facts
from proxy.state.auth.scheme import Identities
from proxy.state.node import Node

_MOST_TOGETHER = 100_000  # znodes of one recursive deletion, copy or export
_WALKS = 2  # walks through the tree at a time


class Subtree(NamedTuple):
    """A znode and all below it, as they were found."""

    paths: list[str]  # parents first
    mark: bytes  # a hash of the paths and of when each was created


class Reading:
    """The tree of one proxy, as the ACLs let logins read it."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.subject = facts.subject
        self.walks = asyncio.Semaphore(_WALKS)
        self._turn = asyncio.Lock()

    def pace(self, call: Call) -> Pace:
        """That of one request."""
        return Pace(self._turn, call.is_gone)

    def demand_serving(self) -> None:
        """Raises Refused while the tree is not whole, or not what the log says."""
        if not (self.subject.handshake.is_open and self.facts.is_readable):
            raise Refused(503, self.facts.why_not_ready)

    def node(self, path: str, identities: Identities) -> Node:
        """The node, if it may be read."""
        node = self.subject.machine.tree.nodes.get(path)
        if node is None or not self.facts.is_readable:
            self.demand_serving()
        if node is None:
            raise Refused(404, f"there is no znode {path!r}")
        if not may_read(node, identities):
            raise Refused(403, f"the ACL of {path!r} does not let this login read it: add an identity")
        return node

    async def subtree(
        self,
        path: str,
        identities: Identities,
        pace: Pace,
        visit: Callable[[str, Node], object] | None = None,
    ) -> Subtree:
        """A znode and all below it. Raises Refused if not all of it may be listed.

        `visit` is called with each node in the moment in which it is found.
        """
        self.node(path, identities)
        hidden: list[str] = []
        found: list[str] = []
        mark = hashlib.sha256()
        nodes = self.subject.machine.tree.nodes
        async with self.walks:
            async for below in paced(walk(nodes, identities, path, hidden=hidden.append), pace):
                node = nodes.get(below)
                found.append(below)
                mark.update(f"{below}\0{node.czxid if node else 0}\0".encode("utf-8", "surrogatepass"))
                if visit is not None and node is not None:
                    visit(below, node)
                if hidden:
                    break
                if len(found) > _MOST_TOGETHER:
                    raise Refused(
                        409, f"{path} has more than {_MOST_TOGETHER} znodes: take parts of it, one by one"
                    )
        if hidden:
            raise Refused(403, f"the ACL of {hidden[0]!r} does not let this login list its children")
        return Subtree(found, mark.digest())
