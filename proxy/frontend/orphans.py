"""Sessions whose proxy died, until they are ended or continue at another proxy.

Pure: the clock is an argument, in seconds. `sessions` asks which are due, and returns their CLOSEs. The
eldest proxy appends these; each younger one would do so a second after the one before it, in case that is
paused: so long after an orphan is due, and after another proxy has last ended one, since very many take a
while. A second CLOSE does no harm: it names the holder.
"""

import math
from collections.abc import Callable, Container, Iterator

from proxy.state.machine import Machine
from proxy.state.outcome import SessionChange

# Seconds that a living proxy whose key is gone has to carry its sessions over: etcd can end leases too early
# (etcd issue 15247), and a proxy in doubt ends its incarnation itself.
_CARRY_OVER = 2.0


def wait_of_others(timeout: float, lease: float) -> float:
    """Seconds that other proxies wait, after an incarnation's end, before they end one of its sessions.

    `lease`: of that incarnation.
    """
    return max(_CARRY_OVER, timeout - lease)


class _Orphan:
    """A session whose proxy died."""

    __slots__ = ("due", "ending", "incarnation", "session_id", "timeout")

    def __init__(self, session_id: int, incarnation: str, timeout: float, due: float) -> None:
        self.session_id = session_id
        self.incarnation = incarnation
        self.timeout = timeout
        self.due = due  # when the eldest proxy ends it
        self.ending = False


class Orphans:
    """The sessions of dead proxies by id, and since when other proxies have had theirs."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._orphans: dict[int, _Orphan] = {}
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
            del self._orphans[session_id]
            if incarnation is None and not orphan.ending:
                self._others_ended = now
        else:
            orphan.due = max(orphan.due, now + orphan.timeout)
        return True

    def proxy_came(self, incarnation: str) -> None:
        """A proxy lives, so its sessions are not orphans. A load shows them before it shows their proxy."""
        for session_id in [
            each for each, orphan in self._orphans.items() if orphan.incarnation == incarnation
        ]:
            del self._orphans[session_id]

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
                self._orphans[session_id] = _Orphan(session_id, incarnation, timeout, due)

    def loaded(self, own: Container[str], living: Container[str], now: float) -> None:
        """The state was loaded. `own`: incarnations of this proxy; `living`: of all that live.

        Sessions of dead proxies get their whole timeout; those that are already orphans have what they had.
        Sessions of living proxies get it if these die soon: they may have moved there just before.
        """
        orphans: dict[int, _Orphan] = {}
        for session_id, session in self._machine.sessions.items():
            incarnation = session.incarnation
            if incarnation in own:
                continue
            if incarnation in living:
                self._elsewhere[session_id] = now  # at the latest: the log before that was not seen here
                continue
            known = self._orphans.get(session_id)
            if known is None or known.incarnation != incarnation:
                timeout = session.timeout_ms / 1000
                known = _Orphan(session_id, incarnation, timeout, now + timeout)
            orphans[session_id] = known
        self._orphans = orphans

    def start_anew(self, now: float) -> None:
        """etcd answers again, or the standby: every orphan has its whole timeout again."""
        for orphan in self._orphans.values():
            orphan.due = now + orphan.timeout

    def due(self, checked: Callable[[], tuple[float, int]]) -> Iterator[tuple[int, str]]:
        """The sessions that this proxy ends, each with its former holder.

        Each is judged when its turn comes. `checked` returns the time by which it is judged, and this proxy's
        rank: 0 for the eldest.
        """
        now, rank = checked()
        for orphan in list(self._orphans.values()):
            session_id = orphan.session_id
            due = max(orphan.due, self._others_ended if rank else -math.inf) + rank
            if now >= due and not orphan.ending and self._orphans.get(session_id) is orphan:
                orphan.ending = True
                yield session_id, orphan.incarnation
                now, rank = checked()

    def refused(self, session_id: int) -> None:
        """A CLOSE did not end the session: it is due again."""
        orphan = self._orphans.get(session_id)
        if orphan is not None:
            orphan.ending = False
