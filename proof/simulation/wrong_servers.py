"""Servers that a bug of etcd's has deceived: for how long clients got answers from a wrong state.

A watch that leaves out an entry makes a server's state wrong before it can know. What is promised then is
that the server finds it soon, stops serving, and loads its state anew. So what it answered meanwhile is
judged by time alone: the history takes such a call as one without an answer. All else is judged as ever.
"""

from collections.abc import Callable

from proof.history import History
from proof.history.records import Attached, Event, Expired, Invoked, Lost, Replied, Violation
from proof.simulation.world import World

FOUND_WITHIN = 3.0
"""Seconds, if nothing else is wrong."""
_ON_THE_WAY = 5.0  # seconds for which answers and events may be under way


class WrongServers:
    """The servers whose state a bug of etcd may have made wrong, by their names."""

    def __init__(self, world: World, violate: Callable[[str], None]) -> None:
        self._world = world
        self._violate = violate
        self._lied_to: set[str] = set()
        self._wrong_since: dict[str, float] = {}
        self._right_since: dict[str, float] = {}
        self._at: dict[str, str] = {}  # clients and their servers
        #: Sessions that got answers of a wrong state: the watch events that they get do not count.
        self.sessions: set[int] = set()
        #: Seconds after which a server that is wrong may answer no client.
        self.limit = FOUND_WITHIN
        #: How often a server was wrong, and the longest time after which one answered a client, in seconds.
        self.times = 0
        self.longest = 0.0

    def left_out(self, server: str) -> None:
        """etcd's watch leaves something out for a server."""
        self._lied_to.add(server)

    def explains(self, server: str) -> bool:
        """Whether a server's state may be wrong for this reason; it is."""
        if server not in self._lied_to:
            return False
        if server not in self._wrong_since:
            self._wrong_since[server] = self._world.now
            self.times += 1
            self._world.trace(server, "its state is wrong, since etcd has left out an entry")
        return True

    def loaded(self, server: str) -> None:
        """A server has loaded its state anew, or begins."""
        if server in self._lied_to:
            self._lied_to.discard(server)
            self._right_since[server] = self._world.now
        if self._wrong_since.pop(server, None) is not None:
            self._world.trace(server, "its state is right again")

    def attached(self, client: str, session: int, server: str) -> None:
        """A client begins or continues a session."""
        self._at[client] = server
        if self.is_wrong(server):
            self.sessions.add(session)

    def is_wrong(self, server: str) -> bool:
        """Whether its state is wrong, or was when it sent what comes now."""
        since = self._right_since.get(server, -_ON_THE_WAY)
        return server in self._wrong_since or self._world.now - since < _ON_THE_WAY

    def may_be_wrong(self, server: str) -> bool:
        """Whether its state is wrong, or may be: states are compared after whole entries.

        What a server does may come before that, and no entry may follow.
        """
        return self.is_wrong(server) or server in self._lied_to

    def answered(self, client: str, session: int, came_at: float, history: History) -> bool:
        """Whether the answer that a client has just got, and its history just noted, may be wrong."""
        server = self._at.get(client, "")
        if not self.may_be_wrong(server):
            return False
        self.sessions.add(session)
        last = history.records[-1]
        assert isinstance(last, Replied)
        history.records[-1] = Lost(last.time, last.call)
        since = self._wrong_since.get(server)
        if since is not None and came_at > since:
            self.longest = max(self.longest, came_at - since)
            if came_at - since > self.limit:
                self._violate(
                    f"{server} answers {client} {came_at - since:.1f} s after its state became wrong"
                )
        return True

    def expired(self, server: str, history: History) -> None:
        """A server has said that a session is over, and the history has just noted that: it may be wrong."""
        if self.may_be_wrong(server):
            last = history.records.pop()
            assert isinstance(last, Expired)

    def excuses(self, violation: Violation, history: History) -> bool:
        """Whether it concerns what a session saw that got answers from a wrong state."""
        if not (violation.rule.startswith("watch") or violation.rule == "session order"):
            return False
        records = [history.records[place] for place in violation.records]
        calls = {record.call for record in records if isinstance(record, Replied | Lost)}
        told = {record.session for record in records if isinstance(record, Event | Attached | Invoked)}
        told |= {
            record.session
            for record in (history.records if calls else ())
            if isinstance(record, Invoked) and record.call in calls
        }
        return not told.isdisjoint(self.sessions)
