"""Sessions whose proxy died, until they are ended or continue at another proxy.

Pure: the clock is an argument, in seconds. `sessions` asks which are due, and returns their CLOSEs. The
eldest proxy appends these; each younger one would do so a second after the one before it, in case that is
paused: so long after an orphan is due, and after another proxy has last ended one, since very many take a
while. A second CLOSE does no harm: it names the holder.
"""

import math
from collections import deque
from collections.abc import Container

from proxy.frontend.due import DueQueue
from proxy.state.machine import Machine
from proxy.state.outcome import CarriedOver, SessionChange
from proxy.state.pause import Pause

# Seconds that a living proxy whose key is gone has to carry its sessions over: etcd can end leases too early
# (etcd issue 15247), and a proxy in doubt ends its incarnation itself.
_CARRY_OVER = 2.0


def wait_of_others(timeout: float, lease: float) -> float:
    """Seconds that other proxies wait, after an incarnation's end, before they end one of its sessions.

    `lease`: of that incarnation.
    """
    return max(_CARRY_OVER, timeout - lease)


class Orphan:
    """A session whose proxy died."""

    __slots__ = ("due", "ending", "id", "incarnation", "second", "timeout")

    def __init__(self, session_id: int, incarnation: str, timeout: float, due: float) -> None:
        self.id = session_id
        self.second = -1
        self.incarnation = incarnation
        self.timeout = timeout
        self.due = due  # when the eldest proxy ends it
        self.ending = False


class Orphans:
    """The sessions of dead proxies by id, and since when other proxies have had theirs."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._orphans: dict[int, Orphan] = {}
        self._due: DueQueue[Orphan] = DueQueue()
        self._reached: deque[Orphan] = deque()  # those that may be due, in turn
        self._elsewhere: dict[int, float] = {}
        self._others_ended = -math.inf  # when another proxy was last seen to end an orphan

    def __len__(self) -> int:
        return len(self._orphans)

    def changed(self, change: SessionChange, is_own: bool, now: float) -> bool:
        """A session was opened, attached, carried over or ended; returns whether it was an orphan.

        `is_own`: it is attached to this proxy now.
        """
        session_id, incarnation = change.session_id, change.incarnation
        if incarnation is None or is_own:
            self._elsewhere.pop(session_id, None)
        else:
            self._elsewhere[session_id] = now
        orphan = self._orphans.get(session_id)
        if orphan is None:
            return False
        if orphan.incarnation != incarnation:
            self._remove(orphan)
            if incarnation is None and not orphan.ending:
                self._others_ended = now
        else:
            orphan.due = max(orphan.due, now + orphan.timeout)
        return True

    def all_changed(self, carried: CarriedOver, now: float) -> None:
        """Sessions were carried over from one other proxy to another. Pauses: there may be many."""
        for some in self._machine.transaction.pause.batches(carried.session_ids):
            self._elsewhere.update(dict.fromkeys(some, now))
            for session_id in some:
                if (orphan := self._orphans.get(session_id)) is not None:
                    self._remove(orphan)

    def proxy_came(self, incarnation: str) -> None:
        """A proxy lives, so its sessions are not orphans. A load shows them before it shows their proxy."""
        pause = self._machine.transaction.pause
        orphans = pause.each(self._orphans.values())
        for orphan in pause.each([each for each in orphans if each.incarnation == incarnation]):
            self._remove(orphan)

    def _remove(self, orphan: Orphan) -> None:
        del self._orphans[orphan.id]
        self._due.remove(orphan)

    def proxy_gone(self, incarnation: str, lease: float, now: float) -> None:
        """The key of another proxy was deleted. Pauses: there may be many sessions.

        `lease`: its seconds; 0 if its sessions have their whole timeouts.
        """
        sessions = self._machine.sessions
        for session_id, session in self._machine.transaction.pause.each(sessions.items()):
            if session.incarnation == incarnation:
                timeout = session.timeout_ms / 1000
                due = now + wait_of_others(timeout, lease)
                came = self._elsewhere.get(session_id)
                if came is not None:
                    due = max(due, came + timeout)
                orphan = self._orphans[session_id] = Orphan(session_id, incarnation, timeout, due)
                self._due.file(orphan, due)

    def loaded(self, own: Container[str], living: Container[str], now: float, pause: Pause) -> None:
        """The state was loaded. `own`: incarnations of this proxy; `living`: of all that live.

        Sessions of dead proxies get their whole timeout; those that are already orphans have what they had.
        Sessions of living proxies get it if these die soon: they may have moved there just before.
        """
        orphans: dict[int, Orphan] = {}
        for session_id, session in pause.each(self._machine.sessions.items()):
            incarnation = session.incarnation
            if incarnation in own:
                continue
            if incarnation in living:
                self._elsewhere[session_id] = now  # at the latest: the log before that was not seen here
                continue
            known = self._orphans.get(session_id)
            if known is None or known.incarnation != incarnation:
                timeout = session.timeout_ms / 1000
                known = Orphan(session_id, incarnation, timeout, now + timeout)
            orphans[session_id] = known
        self._orphans = orphans
        self._due = DueQueue()
        self._reached.clear()
        for orphan in pause.each(orphans.values()):
            self._due.file(orphan, orphan.due)

    def start_anew(self, now: float) -> None:
        """etcd answers again, or the standby: every orphan has its whole timeout again."""
        for orphan in self._orphans.values():
            orphan.due = now + orphan.timeout

    def reach(self, now: float, rank: int) -> None:
        """Those that may be due by now have their turn. `rank`: this proxy's; 0 is the eldest."""
        self._reached += self._due.take(now - rank)

    def has_next(self, now: float, rank: int) -> bool:
        """Whether this proxy is to judge one that may be due: no other one is at work."""
        return bool(self._reached) and (not rank or now >= self._others_ended + rank)

    def next_due(self, now: float, rank: int) -> Orphan | None:
        """Judge one whose turn it is; returns it if it is due, and is to be ended."""
        orphan = self._reached.popleft()
        if self._orphans.get(orphan.id) is not orphan or orphan.ending:
            return None
        if now < orphan.due + rank:
            self._due.file(orphan, orphan.due)
            return None
        orphan.ending = True
        return orphan

    def refused(self, session_id: int) -> None:
        """A CLOSE did not end the session: it is due again."""
        orphan = self._orphans.get(session_id)
        if orphan is not None:
            orphan.ending = False
            self._due.file(orphan, orphan.due)
