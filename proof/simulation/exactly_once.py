"""Each request that a client sent is in the log at most once, in its session's order; answered ones once.

What became of requests without an answer, the log says. With that, the history needs no guesses: a checker
that has to try all outcomes of twenty lost writes would not come to an end. Pure.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from codec.constants import ErrorCode
from proof.history import History
from proof.history.records import Expired, Invoked, Lost, Record, Replied, Reply, Request, Sync, Write
from proof.simulation import packets

_NOT_DONE = (ErrorCode.SESSION_MOVED, ErrorCode.SESSION_EXPIRED)


class Logged(NamedTuple):
    """A client's write in the log, and what came of it."""

    time: float  # seconds of the world
    zxid: int
    opcode: int
    request: bytes  # its body
    error: int
    body: bytes  # of the reply


class _Sent(NamedTuple):
    """A client's write."""

    call: int
    request: Request
    opcode: int
    body: bytes


def settled(
    history: History,
    log: dict[int, list[Logged]],
    violate: Callable[[str], None],
    ends: Mapping[int, int] = MappingProxyType({}),
) -> History:
    """The history with the outcomes of lost calls that are in the log, and without those that are not in it.

    Nothing may be on its way to the log any more. Tells what is in the log wrongly. `ends`: zxids at which
    the log ends sessions that have not closed themselves.
    """
    sent: dict[int, list[_Sent]] = {}
    answered: dict[int, Reply] = {}  # by call
    invoked: dict[int, int] = {}  # positions of records by call
    lost: dict[int, int] = {}
    for place, record in enumerate(history.records):
        if isinstance(record, Invoked):
            invoked[record.call] = place
            if isinstance(record.request, Write) and not isinstance(record.request, Sync):
                asked = packets.asked(record.request)
                sent.setdefault(record.session, []).append(
                    _Sent(record.call, record.request, asked.opcode, asked.body)
                )
        elif isinstance(record, Replied):
            answered[record.call] = record.reply
        elif isinstance(record, Lost):
            lost[record.call] = place
    records: list[Record | None] = [
        record._replace(zxid=ends.get(record.session)) if isinstance(record, Expired) else record
        for record in history.records
    ]
    more: list[Record] = []
    for session in sorted({*log, *sent}):
        writes = sent.get(session, [])
        matched = _matched(session, writes, log.get(session, []), answered, violate)
        for write in writes:
            was_lost = lost.get(write.call)
            if was_lost is None or (write.opcode, write.body) in matched.unsure:
                continue
            records[was_lost] = None
            entry = matched.entries.get(write.call)
            if entry is None:
                records[invoked[write.call]] = None
            else:
                answer = packets.reply(write.request, entry.zxid, entry.error, entry.body)
                time = max(history.records[was_lost].time, int(entry.time * 1e9))
                more.append(Replied(time, write.call, answer))
    kept = [record for record in records if record is not None]
    return History(sorted([*kept, *more], key=lambda record: record.time))


class _Matched(NamedTuple):
    """What the log has of a session's calls."""

    entries: dict[int, Logged]
    """By call."""
    unsure: set[tuple[int, bytes]]
    """Opcodes and bodies of calls of which the log does not say which it has."""


def _matched(
    session: int,
    sent: list[_Sent],
    logged: list[Logged],
    answered: dict[int, Reply],
    violate: Callable[[str], None],
) -> _Matched:
    """Which call each entry of the log is.

    Not where a call that is equal to it was refused, and neither has an answer: it may have been either.
    """
    refused = {(entry.opcode, entry.request) for entry in logged if entry.error in _NOT_DONE}
    # A server refuses a write with SYSTEMERROR at the zxid of its state. It is not in the log, but another
    # one of the session may be, at this zxid.
    outcomes = {
        (reply.zxid, reply.error == ErrorCode.SYSTEM_ERROR): index
        for index, write in enumerate(sent)
        if (reply := answered.get(write.call)) is not None
    }
    matched = _Matched({}, set())
    following = 0
    for entry in logged:
        if entry.error in _NOT_DONE:
            continue  # from a connection that the session has left, and without any effect
        index = outcomes.get((entry.zxid, entry.error == ErrorCode.SYSTEM_ERROR))
        is_certain = index is not None or (entry.opcode, entry.request) not in refused
        if index is None:
            index = next(
                (
                    index
                    for index in range(following, len(sent))
                    if (sent[index].opcode, sent[index].body) == (entry.opcode, entry.request)
                    and sent[index].call not in answered
                ),
                None,
            )
        if index is None or index < following:
            violate(
                f"session {session:#x}: the request at zxid {entry.zxid:#x} (opcode {entry.opcode}, error"
                f" {entry.error}) is in the log twice, out of order, or was never sent"
            )
            matched.unsure.update((write.opcode, write.body) for write in sent)
            return matched
        following = index + 1
        if is_certain:
            matched.entries[sent[index].call] = entry
        else:
            matched.unsure.add((entry.opcode, entry.request))
    return matched
