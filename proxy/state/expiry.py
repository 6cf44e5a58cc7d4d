"""Which container and TTL nodes are due to be deleted: the decisions of ZooKeeper's ContainerManager.

A node's age is the time for which this server has seen it unchanged, by its own clock, an argument here. The
node's mtime is of another host's clock: compared with ours, it would delete nodes too early if clocks differ.
No data are kept for each node: a table says when this server had applied which zxid, so a node's mzxid says
when it was written.
"""

from bisect import bisect_left

from proxy.state.node import Node
from schema.entry import NodeDue
from schema.znode import CONTAINER_OWNER, ttl_of

_PRECISION = 1024  # a moment in the past is known to this part of the time since then
_THIN_OUT_EVERY = 4096  # rows; the table for a year has about 20,000


class Expiry:
    """Records when this server had applied which zxid, and finds the nodes that are due."""

    def __init__(self, max_never_used: int) -> None:
        """`max_never_used`: ms that a container may wait for its first child; 0: for ever."""
        self._max_never_used = max_never_used
        # Each row: everything up to this zxid was applied at this time (ms). Both columns grow.
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
        """Start again: the state was replaced."""
        self._zxids.clear()
        self._times.clear()

    def due(self, path: str, node: Node, now: int) -> NodeDue | None:
        """The request that deletes a container or TTL node, if it is due at `now`."""
        if node.children or not self._is_over(node, now):
            return None
        return NodeDue(path, node.version, node.mtime, node.czxid, self._max_never_used)

    def _is_over(self, node: Node, now: int) -> bool:
        """Whether it is a container that had a child or got none in time, or a TTL node past its TTL."""
        if node.owner != CONTAINER_OWNER:
            return ttl_of(node.owner) < self._age(node, now)
        return node.created > 0 or 0 < self._max_never_used < self._age(node, now)

    def _age(self, node: Node, now: int) -> int:
        """For how many ms at least this server has seen the node unchanged."""
        row = bisect_left(self._zxids, node.mzxid)
        return now - self._times[row] if row < len(self._times) else 0

    def _thin_out(self, now: int) -> None:
        """Drop rows that add little precision. A lookup then finds a later row: a node only seems younger."""
        zxids, times = self._zxids, self._times
        kept = [0]
        for row in range(1, len(times) - 1):
            if (times[row + 1] - times[kept[-1]]) * _PRECISION > now - times[row + 1]:
                kept.append(row)
        kept.append(len(times) - 1)
        self._zxids = [zxids[row] for row in kept]
        self._times = [times[row] for row in kept]
