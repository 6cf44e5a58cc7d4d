"""Judges the reserve of etcd's quota: what it refuses, and how much a session may add to the tree.

While the reserve is touched at all proxies, a session may add as much as docs/decisions/0032 lends it, and
more while the tree is no larger than when the reserve was touched. Each proxy estimates the growth before it
appends a request; here it is what the log has made of the tree.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from codec.constants import CreateMode, OpCode
from proof.simulation.proxies import Proxy
from proof.simulation.world import World
from proxy.state.machine import Machine
from proxy.state.outcome import Outcome
from schema.entry import Kind, Request

_SHARES = 800  # of the quota: one of them is what a session may add (a tenth of a tenth, an eighth of that)
_LATE = 2.0  # seconds after which requests from before are in the log
_SLACK = 500  # bytes: some requests that were on their way, and estimates


class ReserveJudge:
    """Judges one world."""

    def __init__(
        self, world: World, proxies: Sequence[Proxy], quota: int, violate: Callable[[str], None]
    ) -> None:
        """`quota`: etcd's, in bytes."""
        self._world = world
        self._proxies = proxies
        self._most = quota // _SHARES + _SLACK
        self._violate = violate
        self._since = float("inf")  # when all proxies were found to refuse growth
        self._size = 0
        self._size_then = 0  # the largest between the moment when the first did, and then
        self._locks: dict[int, int] = {}  # ephemeral nodes, by session
        self._grown: Counter[tuple[int, str]] = Counter()  # by session and incarnation that it is attached to

    @property
    def is_touched(self) -> bool:
        """Whether all proxies refuse growth."""
        return all(map(_refuses_growth, self._proxies))

    def applied(self, incarnation: str, request: Request, outcome: Outcome, machine: Machine) -> None:
        """The log has a request of this incarnation, and the machine its outcome."""
        tree, session = machine.tree, request.session_id
        grown, self._size = tree.size - self._size, tree.size
        locks = len(tree.ephemerals.get(session, ()))
        same_locks, self._locks[session] = locks == self._locks.get(session, 0), locks
        self._since = min(self._since, self._world.now) if self.is_touched else float("inf")
        if not any(map(_refuses_growth, self._proxies)):
            self._size_then = 0
        if self._world.now < self._since + _LATE:
            self._grown.clear()
            self._size_then = max(self._size_then, tree.size)
        elif outcome.err:  # a delete that fails is estimated as one that gives space
            self._grown[session, incarnation] = 0
        elif request.kind == Kind.CLIENT and same_locks:  # these have a room of their own
            total = self._grown[session, incarnation] = max(0, self._grown[session, incarnation] + grown)
            if total > self._most and tree.size > self._size_then:
                self._violate(
                    f"session {session:#x} makes the tree grow by {total} bytes while the reserve is touched"
                )

    def refused(self, session: int, opcode: int, fields: Any, machine: Machine, *, is_last: bool) -> None:
        """A proxy refuses a request: none that gives space, and no session's first two locks.

        In the last room a request that gives space is refused as well if it takes more.
        """
        if is_last:
            return
        if opcode == OpCode.DELETE or (opcode == OpCode.SET_DATA and not fields[1]):
            self._violate(f"the reserve refuses session {session:#x} what gives space: {fields[0]}")
        if opcode not in (OpCode.CREATE, OpCode.CREATE2):
            return
        path, _, _, mode = fields
        locks = len(machine.tree.ephemerals.get(session, ()))
        if mode in (CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL) and locks < 2:
            self._violate(
                f"session {session:#x} has one ephemeral node at most, and the reserve refuses it {path}"
            )


def _refuses_growth(proxy: Proxy) -> bool:
    return proxy.alive and proxy.server is not None and proxy.server.log.space.pressure is not None
