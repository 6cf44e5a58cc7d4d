"""Which container and TTL nodes are due to be deleted: the decisions of ZooKeeper's ContainerManager.

A node's age is how long this server has seen it unchanged on its own clock, an argument here. Comparing the
node's mtime, another host's clock, with ours would delete nodes too early wherever clocks differ. Nothing is
kept for each node: its mzxid says when it was written, by a table of when this server had reached which zxid.
"""

from bisect import bisect_left

from proxy.state.tree import Node
from schema.entry import NodeDue
from schema.znode import CONTAINER_OWNER, ttl_of

_PRECISION = 1024  # a moment in the past is known to this part of the time since then
_THIN_OUT_EVERY = 4096  # rows; the table for a year has about 20,000


class Expiry:
    """When this server had applied what, and which nodes are due by that."""

    def __init__(self, max_never_used: int) -> None:
        """`max_never_used`: ms that a container may wait for its first child; 0: for ever."""
        self._max_never_used = max_never_used
        # Row by row: everything up to this zxid was applied at this time (ms). Both grow.
        self._zxids: list[int] = []
        self._times: list[int] = []
        self._thin_out_at = _THIN_OUT_EVERY

    def note(self, zxid: int, now: int) -> None:
        """Everything up to `zxid` is applied at `now`, in ms of a clock that never goes back."""
        if self._zxids and zxid <= self._zxids[-1]:
            return
        self._zxids.append(zxid)
        self._times.append(now)
        if len(self._zxids) >= self._thin_out_at:
            self._thin_out(now)
            self._thin_out_at = len(self._zxids) + _THIN_OUT_EVERY

    def forget(self) -> None:
        """Start anew: the state is another one."""
        self._zxids.clear()
        self._times.clear()

    def due(self, path: str, node: Node, now: int) -> NodeDue | None:
        """The request that deletes a container or TTL node, if it is due at `now`."""
        if node.children or not self._is_over(node, now):
            return None
        return NodeDue(path, node.version, node.mtime, node.czxid, self._max_never_used)

    def _is_over(self, node: Node, now: int) -> bool:
        """A container once it has had a child, or never got one in time; a TTL node beyond its TTL."""
        if node.owner != CONTAINER_OWNER:
            return ttl_of(node.owner) < self._age(node, now)
        return node.created > 0 or 0 < self._max_never_used < self._age(node, now)

    def _age(self, node: Node, now: int) -> int:
        """For how many ms at least this server has known the node as it is."""
        row = bisect_left(self._zxids, node.mzxid)
        return now - self._times[row] if row < len(self._times) else 0

    def _thin_out(self, now: int) -> None:
        """Drop rows that say little: a lookup goes to a later row then, so a node only seems younger."""
        zxids, times = self._zxids, self._times
        kept = [0]
        for row in range(1, len(times) - 1):
            if (times[row + 1] - times[kept[-1]]) * _PRECISION > now - times[row + 1]:
                kept.append(row)
        kept.append(len(times) - 1)
        self._zxids = [zxids[row] for row in kept]
        self._times = [times[row] for row in kept]
