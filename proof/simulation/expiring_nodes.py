"""TTL nodes and containers over hours: a client that uses them, and a judge of when they go.

The history checker has no record for them. So this client's nodes are its own, no other client looks at them,
and the log says what became of them: a TTL node goes after its TTL and not before, counted from its last
write, and only without children; a container goes when its last child has gone, and not before.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence

from typing_extensions import override

from proof.history import Create, Delete, History, SetData
from proof.history.records import Opened, Request
from proof.simulation.clients import Address, Client, Clock, Timers
from proof.simulation.oracle import Oracle
from proof.simulation.packets import CreateExpiring
from proxy.state.node import Node
from schema.znode import CONTAINER_OWNER, ttl_of

ROOT = "/m"
_TTLS = (20.0, 120.0, 600.0, 1800.0)  # seconds
_KNOWN = 12  # nodes that the client keeps writing to
_TOLERANCE = 0.05  # seconds; hosts' clocks differ by less than one in a thousand besides
#: Seconds after which what is due must be gone: two looks of ContainerManager's, and the pauses in which the
#: proxies keep account of time.
_LATE = 200.0


class ExpiringNodesClient(Client):
    """Makes TTL nodes and containers, writes to them, and leaves them alone."""

    def __init__(
        self, world: Clock, host: Timers, name: str, proxies: Sequence[Address], timeout_ms: int
    ) -> None:
        super().__init__(world, host, name, proxies, History(), timeout_ms)
        self._mix.missing_roots()  # the other clients make them
        self._number = 0
        self._names: list[str] = []
        self._containers: list[str] = []

    @property
    def session_ids(self) -> set[int]:
        """All sessions that it has had."""
        return {record.session for record in self.history.records if isinstance(record, Opened)}

    @override
    def _choose(self) -> list[Request]:
        rng = self._random
        self._number += 1
        number = self._number
        data = b"%d" % number
        match rng.randrange(6):
            case 0 | 1:
                path = f"{ROOT}/t{number}"
                self._names = [*self._names[-_KNOWN:], path]
                return [Create(ROOT), CreateExpiring(path, data, int(rng.choice(_TTLS) * 1000))]  # type: ignore[list-item]
            case 2:
                path = f"{ROOT}/c{number}"
                self._containers = [*self._containers[-_KNOWN:], path]
                return [Create(ROOT), CreateExpiring(path, data), Create(f"{path}/x")]  # type: ignore[list-item]
            case 3 if self._containers:
                path = rng.choice(self._containers)
                return [Delete(f"{path}/x"), *([Create(f"{path}/x")] if rng.random() < 0.4 else [])]
            case _ if self._names:
                return [SetData(rng.choice(self._names), data)]
        return [Create(ROOT)]


class ExpiringNodesJudge:
    """Whether TTL nodes and containers go when they should."""

    def __init__(self, oracle: Oracle, violate: Callable[[str], None]) -> None:
        self._oracle = oracle
        self._violate = violate
        self.ended = 0  # nodes that went
        oracle.listeners.due = self.due

    def due(self, path: str, node: Node) -> None:
        """The log deletes a container or TTL node that is due."""
        self.ended += 1
        if node.owner == CONTAINER_OWNER:
            if not node.created:
                self._violate(f"container {path} goes, and never had a child")
            return
        ttl = ttl_of(node.owner) / 1000
        age = self._oracle.now - self._time_of(node.mzxid)
        if age < ttl * 0.999 - _TOLERANCE:
            self._violate(f"TTL node {path} goes {age:.3f} s after its last write; its TTL is {ttl:.3f} s")

    def look(self, calm_since: float) -> None:
        """No node may be here that should be gone. Since a time of the world no proxy has begun anew."""
        for path, node in self._oracle.machine.tree.nodes.items():
            if node.owner >= 0 or node.children:
                continue
            if node.owner == CONTAINER_OWNER and not node.created:
                continue
            ttl = ttl_of(node.owner) / 1000
            since = max(calm_since, self._time_of(max(node.mzxid, node.pzxid)))
            age = self._oracle.now - since
            if age > ttl * 1.005 + _LATE:
                what = f"TTL node {path}" if ttl else f"container {path}"
                self._violate(f"{what} should be gone: nothing has happened to it for {age:.0f} s")

    def _time_of(self, zxid: int) -> float:
        oracle = self._oracle
        return oracle.times[min(bisect_left(oracle.zxids, zxid), len(oracle.times) - 1)]
