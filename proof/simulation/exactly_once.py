"""Each request that a client sent is in the log at most once, in its session's order; answered ones once.

What became of requests without an answer, the log says. With that, the history needs no guesses: a checker
that has to try all outcomes of twenty lost writes would not come to an end. Pure.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from codec.constants import ErrorCode
from proof.history import History
from proof.history.records import Expired, Invoked, Lost, Record, Replied, Request, Sync, Write
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
    """The history with the outcomes of lost calls that are in the log; tells what is in the log wrongly.

    `ends`: zxids at which the log ends sessions that have not closed themselves.
    """
    sent: dict[int, list[_Sent]] = {}
    answered: dict[int, int] = {}  # zxids by call
    lost: dict[int, int] = {}  # positions of records by call
    for place, record in enumerate(history.records):
        if isinstance(record, Invoked):
            if isinstance(record.request, Write) and not isinstance(record.request, Sync):
                asked = packets.asked(record.request)
                sent.setdefault(record.session, []).append(
                    _Sent(record.call, record.request, asked.opcode, asked.body)
                )
        elif isinstance(record, Replied):
            answered[record.call] = record.reply.zxid or 0
        elif isinstance(record, Lost):
            lost[record.call] = place
    records: list[Record | None] = [
        record._replace(zxid=ends.get(record.session)) if isinstance(record, Expired) else record
        for record in history.records
    ]
    more: list[Record] = []
    for session, logged in sorted(log.items()):
        for write, entry in _matched(session, sent.get(session, []), logged, answered, violate):
            place = lost.get(write.call, -1)
            if place < 0:
                continue
            former = history.records[place]
            records[place] = None
            answer = packets.reply(write.request, entry.zxid, entry.error, entry.body)
            more.append(Replied(max(former.time, int(entry.time * 1e9)), write.call, answer))
    kept = [record for record in records if record is not None]
    return History(sorted([*kept, *more], key=lambda record: record.time))


def _matched(
    session: int,
    sent: list[_Sent],
    logged: list[Logged],
    answered: dict[int, int],
    violate: Callable[[str], None],
) -> list[tuple[_Sent, Logged]]:
    """Which call each entry of the log is.

    Not where a call that is equal to it was refused, and neither has an answer: it may have been either.
    """
    refused = {(entry.opcode, entry.request) for entry in logged if entry.error in _NOT_DONE}
    by_zxid = {answered[write.call]: index for index, write in enumerate(sent) if write.call in answered}
    pairs: list[tuple[_Sent, Logged]] = []
    following = 0
    for entry in logged:
        if entry.error in _NOT_DONE:
            continue  # from a connection that the session has left, and without any effect
        index = by_zxid.get(entry.zxid)
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
            return pairs
        following = index + 1
        if is_certain:
            pairs.append((sent[index], entry))
    return pairs
