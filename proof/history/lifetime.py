"""Sessions end when their timeout has passed since their last answered request was sent, and not before.

How late they end is no promise: a proxy and an election of etcd's may lie between. What their end does to
ephemerals is the search's: all go at one zxid, none before, none stays.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator
from itertools import accumulate

from proof.history.calls import NEVER, Call, Session, Taken
from proof.history.records import SESSION_EXPIRED, SESSION_MOVED, CloseSession, Reply, Violation

_MS = 1_000_000
_GONE = (SESSION_EXPIRED, SESSION_MOVED)
_IDS = 2**64  # an id may be below 0: it is a signed number of 64 bits


def ends_of(taken: Taken, orphans: Collection[int] = (), drift: float = 0.0) -> dict[int, Call]:
    """An end for each session that did not close itself.

    It is a call that the session never made: with an answer if the server said that the session is over (the
    end came before that, at its zxid if that is known), without one else (at any time, or never). It is
    "invoked" when the session may end at the earliest. `orphans` may end as soon as their last acknowledged
    write was sent: what they read later may be older than their end.
    """
    times = [record.time for record in taken.records]
    ends: dict[int, Call] = {}
    high_after = _lowest_after(taken)
    for session in taken.sessions.values():
        if any(call.changed for call in session.calls if isinstance(call.request, CloseSession)):
            continue
        if session.id in orphans:
            earliest = max((call.invoked for call in session.calls if call.changed), default=-1)
        else:
            earliest = max((call.returned for call in session.calls if call.returned != NEVER), default=-1)
            due = _due(taken, session, drift)
            if due is not None:
                earliest = max(earliest, bisect_left(times, due[0]))
        end = Call(-1 - session.id % _IDS, session.id, CloseSession(), earliest)
        if session.expired is not None:
            end.invoked = min(earliest, session.expired)  # `check_expiry` tells if that is too early
            end.returned, end.reply = session.expired, Reply(zxid=session.end)
            end.high = high_after[session.expired]
        end.low = max((call.zxid or 0 for call in session.calls), default=0)
        ends[session.id] = end
    for session in taken.sessions.values():
        _bound_lost(session, ends.get(session.id))
    return ends


def _lowest_after(taken: Taken) -> list[int]:
    """For each record the lowest zxid of a write that was sent behind it."""
    lowest = [NEVER] * (len(taken.records) + 1)
    for call in taken.calls:
        if call.changed and call.zxid is not None:
            lowest[call.invoked] = call.zxid
    return list(accumulate(reversed(lowest), min))[::-1]


def _bound_lost(session: Session, end: Call | None) -> None:
    """A call without an answer comes before the session's next that was answered, and before its end."""
    high = NEVER if end is None else end.high
    for call in reversed(session.calls):
        if call.returned == NEVER:
            call.high = high
        elif call.zxid is not None:
            high = min(high, call.zxid)


def check_expiry(taken: Taken, drift: float = 0.0) -> Iterator[Violation]:
    """Yield sessions that the server called over too early."""
    for session in taken.sessions.values():
        due = _due(taken, session, drift)
        if session.expired is None or due is None:
            continue
        early = due[0] - taken.records[session.expired].time
        if early > 0:
            message = f"session {session.id:#x} was over {early / _MS:.0f} ms too early"
            yield Violation("lifetime", message, (due[1], session.expired))


def check_afterlife(taken: Taken) -> Iterator[Violation]:
    """Yield what sessions were still answered behind their end."""
    for session in taken.sessions.values():
        over = NEVER if session.expired is None else session.expired
        for call in session.calls:
            if call.invoked > over and call.reply is not None and call.reply.error not in _GONE:
                message = f"session {session.id:#x} was over, and call {call.number} was answered"
                yield Violation("lifetime", message, (over, *call.records()))
            if call.changed and isinstance(call.request, CloseSession):
                over = min(over, call.invoked)


def _due(taken: Taken, session: Session, drift: float) -> tuple[int, int] | None:
    """When the session may end, and the record that says so; None where that is not known."""
    if not session.timeout_ms or any(isinstance(call.request, CloseSession) for call in session.calls):
        return None
    answered = [
        call.invoked for call in session.calls if call.reply is not None and call.reply.error not in _GONE
    ]
    if not answered:
        return None
    last = max(answered)
    return taken.records[last].time + int(session.timeout_ms * _MS * (1 - drift)), last
