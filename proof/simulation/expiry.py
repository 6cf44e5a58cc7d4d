"""Whether sessions end too early: what each proxy heard, and which leases were kept alive, when.

With T a session's timeout: its proxy may end it T after it heard the client last. What it hears once it has
decided so is too late, as with ZooKeeper, however long the CLOSE is on its way. Other proxies may end it
once the proxy's lease has run out, T after the last keep-alive that etcd granted at the earliest. Where etcd
itself has ended the lease too early, the proxy has two seconds to carry its sessions over.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from proof.simulation.etcd import Cluster
from proof.simulation.proxies import PREFIX
from proof.simulation.world import World
from proxy.etcd.model import DELETE
from schema.errors import ForeignKey
from schema.keys import KeyKind, Keyspace

_TOLERANCE = 0.05  # seconds; clocks differ by less than one in a thousand besides
_CARRY_OVER = 2.0
_OVERDUE = 10.0  # seconds for a look, a CLOSE and its entry
_SETTLED = 8.0  # seconds within which a proxy that reaches etcd has carried its sessions over


class _Attached(NamedTuple):
    incarnation: str
    timeout: float
    heard: float
    began: float  # when it came there by an attach


class ExpiryJudge:
    """Times of the world at which what happened that sessions' lives depend on."""

    def __init__(self, world: World, cluster: Cluster, violate: Callable[[str], None]) -> None:
        self._world = world
        self._cluster = cluster
        self._violate = violate
        self._keys = Keyspace(PREFIX)
        self._sessions: dict[int, _Attached] = {}
        self._leases: dict[str, int] = {}  # by incarnation
        self._gone: dict[str, float] = {}  # when an incarnation's key went
        self._came: dict[str, float] = {}
        self._early: set[int] = set()
        self._closing: dict[tuple[int, str], float] = {}  # when proxies decided to end their own
        #: Sessions whose time did not count from their clients' answers, but from the keep-alives of their
        #: proxy, which is gone, or from a late attach, which took them to another one.
        self.excused: set[int] = set()
        #: When a session was heard last, and by which incarnation.
        self._last: dict[int, tuple[float, str]] = {}

    def committed(self, events: list[Any]) -> None:
        """A revision of etcd: proxies come and go."""
        for event in events:
            try:
                parsed = self._keys.parse(event.kv.key)
            except ForeignKey:
                continue
            if parsed.kind is KeyKind.PROXY:
                if event.type == DELETE:
                    self._gone[parsed.incarnation] = self._world.now
                else:
                    self._leases[parsed.incarnation] = event.kv.lease
                    self._came[parsed.incarnation] = self._world.now

    def moved(self, cluster: Cluster) -> None:
        """The tree goes on in another etcd."""
        self._cluster = cluster

    def attached(self, session: int, incarnation: str, timeout_ms: int, carried: bool) -> None:
        """The log attaches a session: its client has sent something, unless it was carried over."""
        self._closing.pop((session, incarnation), None)
        known = self._sessions.get(session)
        now = self._world.now
        heard, began = (known.heard, known.began) if carried and known is not None else (now, now)
        self._sessions[session] = _Attached(incarnation, timeout_ms / 1000, heard, began)

    def heard(self, session: int, incarnation: str) -> None:
        """A proxy has read something of a session's client."""
        if (session, incarnation) in self._closing:
            return
        self._last[session] = (self._world.now, incarnation)
        known = self._sessions.get(session)
        if known is not None and known.incarnation == incarnation:
            self._sessions[session] = known._replace(heard=self._world.now)

    def closing(self, session: int, incarnation: str) -> None:
        """A proxy has decided to end a session of its own."""
        self._closing[session, incarnation] = self._world.now

    def ended_early(self, lease: int) -> None:
        """A fault ends a lease."""
        self._early.add(lease)

    def is_orphan(self, session: int) -> bool:
        """Whether a session's proxy is gone for having been silent, and for no other reason."""
        known = self._sessions.get(session)
        if known is None or known.incarnation not in self._gone:
            return False
        return self._leases.get(known.incarnation, 0) not in self._early

    def _is_served_elsewhere(self, session: int, known: _Attached) -> bool:
        """Whether a late attach of a connection that the client had given up took the session away.

        The proxy that the client is at does not know that yet: its state is older.
        """
        heard, incarnation = self._last.get(session, (0.0, ""))
        return incarnation != known.incarnation and heard > known.began

    def _heard_by_another(self, session: int) -> float:
        """When a proxy in good health heard a session that it should have carried over long ago."""
        heard, incarnation = self._last.get(session, (0.0, ""))
        now = self._world.now
        renewed = self._cluster.store.renewed.get(self._leases.get(incarnation, 0), 0.0)
        settled = incarnation not in self._gone and now - self._came.get(incarnation, now) >= _SETTLED
        return heard if settled and now - renewed < _SETTLED / 3 else 0.0

    def overdue(self, sessions: Iterable[int], calm_since: float) -> list[str]:
        """Sessions of silent clients that live on, though nothing was wrong since a time of the world."""
        found = []
        for session in sessions:
            known = self._sessions.get(session)
            if known is None:
                continue
            silent = self._world.now - max(known.heard, calm_since)
            if silent > known.timeout * 1.001 + _OVERDUE:
                found.append(
                    f"session {session:#x} lives on {silent:.0f} s after it was heard of, in calm; its"
                    f" timeout is {known.timeout:.0f} s"
                )
        return found

    def expired(self, session: int, holder: str, *, deceived: bool = False) -> None:
        """The log ends a session.

        `deceived`: the state of the server that ends it may be wrong by a bug of etcd. By that state the
        session may be due, and the server cannot know that before it has found the bug.
        """
        known = self._sessions.pop(session, None)
        if known is None:
            return
        now = self._world.now
        since = known.heard
        lease = self._leases.get(known.incarnation, 0)
        gone = self._gone.get(known.incarnation)
        decided = self._closing.pop((session, known.incarnation), now)
        if gone is None:
            now = decided
            if self._is_served_elsewhere(session, known):
                self.excused.add(session)
        else:
            renewed = self._cluster.store.renewed.get(lease, 0.0)
            since = max(min(since, renewed), known.began)
            self.excused.add(session)
            since = max(since, self._heard_by_another(session))
            if lease in self._early and now - gone >= _CARRY_OVER and since <= renewed:
                return
        if now - since < known.timeout * 0.999 - _TOLERANCE:
            if deceived:
                self.excused.add(session)
                return
            self._violate(
                f"session {session:#x} ends {now - since:.3f} s after it was heard of; its timeout is"
                f" {known.timeout:.3f} s (holder {holder})"
            )
