"""Taking turns with other proxies: whoever has won a path lets the loser of the race go first, once.

Where two proxies write to one node, the last winner's next Txn always starts a little ahead of the loser's:
it would win for ever. So a component that loses its race says over which paths, by a put of its failure
branch; the proxy whose write is the last one there then holds its own writes to the path back, until the
other's has come or a round trip and a half is over. Part of the committer's shell; knows no requests.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any

from proxy.mirror import Mirror
from proxy.tree import Node

# Seconds that a path is held back, at least and at most, whatever the round trips are.
_SHORTEST = 0.001
_LONGEST = 0.05
_OWN_REVISIONS = 64  # as many last wins are remembered
_SMOOTHING = 0.2  # the newest round trip's share in the average


class Hold:
    """A path held back; stands in the committer's locks as a Txn in flight would."""

    __slots__ = ("path", "seen", "timer", "waiting")

    def __init__(self, path: str, seen: int) -> None:
        self.path = path
        self.seen = seen  # the revision of our own write there
        self.waiting: list[Any] = []  # whoever asked for the path meanwhile
        self.timer: asyncio.TimerHandle | None = None


class Courtesy:
    """What one proxy owes to the others."""

    def __init__(self, mirror: Mirror, locks: dict[str, Any], wake: Callable[[list[Any]], None]) -> None:
        """`locks` are the committer's, by path; `wake` takes those who waited for a path."""
        self._mirror = mirror
        self._locks = locks
        self._wake = wake
        self._own: deque[int] = deque(maxlen=_OWN_REVISIONS)
        self._owed: set[str] = set()  # paths to be held back when our Txn in flight there is over
        self._holds: dict[str, Hold] = {}
        self.round_trip = _SHORTEST  # seconds that a Txn of ours takes, as of late

    def won(self, revision: int, seconds: float) -> None:
        """A Txn of ours was applied at `revision`, `seconds` after it was sent."""
        self._own.append(revision)
        self.round_trip += _SMOOTHING * (seconds - self.round_trip)

    def lost(self, paths: Iterable[str]) -> None:
        """Another proxy has lost its race for one of these paths, or more."""
        for path in paths:
            node = self._mirror.tree.nodes.get(path)
            if node is None or _changed(node) not in self._own or path in self._holds:
                continue
            if path in self._locks:
                self._owed.add(path)
            else:
                self._hold(path, node)

    def released(self, paths: Collection[str]) -> None:
        """Our Txn in flight that changed these paths is over."""
        if self._owed:
            for path in self._owed.intersection(paths):
                self._owed.discard(path)
                node = self._mirror.tree.nodes.get(path)
                if node is not None and _changed(node) in self._own:
                    self._hold(path, node)

    def applied(self) -> None:
        """The mirror has moved on: who was waited for may have come."""
        for hold in list(self._holds.values()):
            node = self._mirror.tree.nodes.get(hold.path)
            if node is None or _changed(node) != hold.seen:
                self._end(hold)

    def _hold(self, path: str, node: Node) -> None:
        hold = self._holds[path] = self._locks[path] = Hold(path, _changed(node))
        patience = min(max(1.5 * self.round_trip, _SHORTEST), _LONGEST)
        hold.timer = asyncio.get_running_loop().call_later(patience, self._end, hold)

    def _end(self, hold: Hold) -> None:
        if hold.timer is not None:
            hold.timer.cancel()
        del self._holds[hold.path]
        del self._locks[hold.path]
        self._wake(hold.waiting)


def _changed(node: Node) -> int:
    """The revision of the last change of a node or its children."""
    return max(node.mod, node.counter_mod)
