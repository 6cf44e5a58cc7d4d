"""What zxids say compared with real time and with each other: one pass over the records, no search.

* Two acknowledged writes never have one zxid: each is applied once, in one place.
* A write is later than all that anybody had seen before it was sent, also one that the tree refused; so is
  what a sync brings.
* A session never goes back: neither replies nor events have zxids below what it has seen. An outcome that is
  known from the log only, behind the end of its connection, is not what a session saw.
* Two acknowledged sequential creates in one directory never get one number, and a later one gets a higher
  one, unless the directory was made anew between them.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from proof.history.calls import Call, Taken, failure, parent, parts_of
from proof.history.model import JUDGED
from proof.history.records import (
    SEQUENCE_DIGITS,
    CloseSession,
    Create,
    Delete,
    Disconnected,
    Event,
    Invoked,
    Replied,
    Sync,
    Violation,
    Write,
)


def check_order(taken: Taken) -> Iterator[Violation]:
    """Yield what is out of order."""
    yield from _zxids(taken)
    yield from _RealTime(taken).violations()
    yield from _sequence_numbers(taken)


def _zxids(taken: Taken) -> Iterator[Violation]:
    owner: dict[int, Call] = {}
    for call in taken.calls:
        if call.zxid is None or not call.changed:
            continue
        other = owner.setdefault(call.zxid, call)
        if other is not call:
            places = (*other.records(), *call.records())
            yield Violation("zxid", f"two acknowledged writes have zxid {call.zxid:#x}", places)


class _Seen(NamedTuple):
    """A zxid that a client has seen, and the place of the record that showed it."""

    zxid: int
    place: int


_NOTHING = _Seen(0, -1)


class _RealTime:
    """One pass over the records, with what each session, and all together, had seen by then."""

    def __init__(self, taken: Taken) -> None:
        self._records = taken.records
        self._by_number = {call.number: call for call in taken.calls}
        self._seen = _NOTHING  # the highest zxid of all sessions
        self._by_session: dict[int, _Seen] = {}  # the highest zxid of each
        self._when_sent: dict[int, _Seen] = {}  # of calls that wait: what all had seen when they were sent
        self._synced: dict[int, _Seen] = {}  # of sessions: what their last sync promised
        self._ended: dict[int, int] = {}  # where the last connection of a session has ended

    def violations(self) -> Iterator[Violation]:
        """Yield what is out of order."""
        for place, record in enumerate(self._records):
            if isinstance(record, Invoked):
                self._when_sent[record.call] = self._seen
            elif isinstance(record, Replied):
                yield from self._replied(record, place)
            elif isinstance(record, Disconnected):
                self._ended[record.session] = place
            elif isinstance(record, Event) and record.zxid is not None:
                yield from self._goes_back(record.session, record.zxid, place)
                self._note(record.session, record.zxid, place)

    def _note(self, session: int, zxid: int, place: int) -> None:
        if zxid > self._by_session.get(session, _NOTHING).zxid:
            self._by_session[session] = _Seen(zxid, place)
        if zxid > self._seen.zxid:
            self._seen = _Seen(zxid, place)

    def _goes_back(self, session: int, zxid: int, place: int) -> Iterator[Violation]:
        highest = self._by_session.get(session, _NOTHING)
        if zxid < highest.zxid:
            yield Violation(
                "session order",
                f"session {session:#x} saw zxid {highest.zxid:#x}, and then {zxid:#x}",
                (highest.place, place),
            )

    def _replied(self, record: Replied, place: int) -> Iterator[Violation]:
        call = self._by_number[record.call]
        zxid = record.reply.zxid or 0
        before = self._when_sent.pop(record.call)
        if not zxid or call.reply is None:
            return
        if self._ended.get(call.session, -1) < call.invoked:
            yield from self._goes_back(call.session, zxid, place)
        promised = self._synced.get(call.session, _NOTHING)
        if zxid < promised.zxid:
            yield Violation(
                "sync",
                f"a reply behind a sync has zxid {zxid:#x}, below {promised.zxid:#x}",
                (promised.place, place),
            )
        decided = call.changed or failure(record.reply) in JUDGED
        if decided and isinstance(call.request, Write) and zxid <= before.zxid:
            yield Violation(
                "real time",
                f"a write got zxid {zxid:#x}, but {before.zxid:#x} had been seen before it was sent",
                (before.place, *call.records()),
            )
        if isinstance(call.request, Sync) and failure(record.reply) == 0 and before.zxid > promised.zxid:
            self._synced[call.session] = before
            if zxid < before.zxid:
                yield Violation(
                    "sync",
                    f"a sync has zxid {zxid:#x}; {before.zxid:#x} had been seen before it",
                    (before.place, place),
                )
        self._note(call.session, zxid, place)


def _sequence_numbers(taken: Taken) -> Iterator[Violation]:
    """By zxid where they are known, for uniqueness without them as well."""
    removed: set[str] = set()
    for call in taken.calls:
        if isinstance(call.request, CloseSession):
            continue
        removed |= {part.path for part in parts_of(call.request) if isinstance(part, Delete)}
    given: dict[str, list[tuple[int | None, int, Call]]] = {}
    for call in taken.calls:
        if not call.changed or call.reply is None:
            continue
        parts = parts_of(call.request)
        replies = (call.reply,) if parts == (call.request,) else call.reply.parts or ()
        for part, reply in zip(parts, replies, strict=False):
            if isinstance(part, Create) and part.sequential and reply.path is not None:
                digits = reply.path[len(part.path) :]
                right = len(digits) == SEQUENCE_DIGITS and digits.isdigit()
                if not right or not reply.path.startswith(part.path):
                    yield Violation("sequence", f"{part.path} got the name {reply.path}", call.records())
                    continue
                given.setdefault(parent(part.path), []).append((call.zxid, int(digits), call))
    for directory, entries in given.items():
        if directory in removed:
            continue
        numbers: dict[int, Call] = {}
        for _, number, call in entries:
            other = numbers.setdefault(number, call)
            if other is not call:
                places = (*other.records(), *call.records())
                yield Violation("sequence", f"number {number} was given twice in {directory}", places)
        ranked = sorted((entry for entry in entries if entry[0] is not None), key=lambda entry: entry[0] or 0)
        for earlier, later in pairwise(ranked):
            if earlier[0] != later[0] and earlier[1] > later[1]:
                places = (*earlier[2].records(), *later[2].records())
                yield Violation("sequence", f"numbers of {directory} do not grow with the zxid", places)
