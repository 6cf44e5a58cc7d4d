"""What zxids say beside real time and beside each other: one pass over the records, no search.

* Two acknowledged writes never have one zxid: each is applied once, in one place.
* A write is later than all that anybody had seen before it was sent; so is what a sync brings.
* A session never goes back: neither its replies' zxids, nor a reply behind an event.
* Two acknowledged sequential creates in one directory never get one number, and a later one gets a higher
  one, unless the directory was made anew between them.
"""

from collections.abc import Iterator
from itertools import pairwise

from proof.history.calls import Call, Taken, failure, parent, parts_of
from proof.history.records import (
    SEQUENCE_DIGITS,
    CloseSession,
    Create,
    Delete,
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
    yield from _real_time(taken)
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


def _real_time(taken: Taken) -> Iterator[Violation]:
    by_number = {call.number: call for call in taken.calls}
    seen, seen_at = 0, -1  # the highest zxid that anybody has seen
    floor: dict[int, tuple[int, int]] = {}  # of calls that wait: what had been seen when they were sent
    mine: dict[int, tuple[int, int]] = {}  # of sessions: the highest zxid, and where
    synced: dict[int, tuple[int, int]] = {}  # of sessions: what a sync promised
    for place, record in enumerate(taken.records):
        if isinstance(record, Invoked):
            floor[record.call] = (seen, seen_at)
        elif isinstance(record, Replied):
            call = by_number[record.call]
            zxid = record.reply.zxid or 0
            low, low_at = floor.pop(record.call)
            if not zxid or call.reply is None:
                continue
            highest, highest_at = mine.get(call.session, (0, -1))
            if zxid < highest:
                yield Violation(
                    "session order",
                    f"session {call.session:#x} saw zxid {highest:#x}, and then {zxid:#x}",
                    (highest_at, place),
                )
            promised, promised_at = synced.get(call.session, (0, -1))
            if zxid < promised:
                yield Violation(
                    "sync",
                    f"a reply behind a sync has zxid {zxid:#x}, below {promised:#x}",
                    (promised_at, place),
                )
            if call.changed and isinstance(call.request, Write) and zxid <= low:
                yield Violation(
                    "real time",
                    f"a write got zxid {zxid:#x}, but {low:#x} had been seen before it was sent",
                    (low_at, *call.records()),
                )
            if isinstance(call.request, Sync) and failure(record.reply) == 0 and low > promised:
                synced[call.session] = (low, low_at)
                if zxid < low:
                    yield Violation(
                        "sync",
                        f"a sync has zxid {zxid:#x}; {low:#x} had been seen before it",
                        (low_at, place),
                    )
            if zxid > highest:
                mine[call.session] = (zxid, place)
            if zxid > seen:
                seen, seen_at = zxid, place
        elif isinstance(record, Event) and record.zxid is not None:
            if record.zxid > mine.get(record.session, (0, -1))[0]:
                mine[record.session] = (record.zxid, place)
            if record.zxid > seen:
                seen, seen_at = record.zxid, place


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
