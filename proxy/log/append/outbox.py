"""Turns requests into entries: it batches and numbers them, and remembers what was sent.

All requests that wait go into one entry, whatever they are (a multi is one request). Pure: the clock is an
argument, and `appender` sends. One outbox serves a proxy for its whole life; the numbers start again at 1
with each incarnation.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from codec.constants import ErrorCode, OpCode
from codec.errors import MalformedPacket
from proxy.etcd.model import DEFAULT_MAX_REQUEST_BYTES
from proxy.log.append.pending import Pending
from proxy.log.append.sent import FORMS, STAGES, EntryHeader, Form, Learned, Sent, Stage
from proxy.log.append.space import JUDGED_AT_ONCE, UNMETERED, Space
from proxy.log.append.syncs import ROOT_PATH, Syncs, needs_no_entry
from proxy.state.machine import Machine
from proxy.state.ops import EXTENDED
from proxy.state.ops.beginning import beginning
from proxy.support import probe
from schema.entry import EntryWriter, Identities, Kind

# Larger entries would delay those of other proxies: a put of 100 KB takes etcd 2 ms, one of 20 KB 0.8 ms.
ENTRY_BYTES = 512 << 10
# What a single request may take: etcd's --max-request-bytes (1.5 MiB) minus what the Txn adds to the value.
VALUE_BYTES = DEFAULT_MAX_REQUEST_BYTES - 2048
# In one entry. With more, the proxies and etcd would wait for each other instead of working in parallel.
MAX_REQUESTS = 1024
# The bound of entries after etcd, with a lower --max-request-bytes, has refused one with several requests. If
# etcd refuses even such a small entry, each request gets an entry of its own. A bound never rises again: each
# attempt would end an incarnation.
_SMALL_ENTRY_BYTES = 16 << 10
# Of the requests that one `cut` refuses, about. A request of many parts takes longer to judge.
_REFUSED_BYTES = 128 << 10
_REQUEST_OVERHEAD = 64  # bytes that a request adds to an entry besides its body, about
# An Enum's attributes take longer.
_SENT, _DIRECT, _FILLED, _DECIDED = Stage.SENT, Form.DIRECT, Learned.FILLED, Learned.DECIDED


def is_metered(pending: Pending) -> bool:
    """Whether a request is refused while etcd's quota is used up."""
    if pending.kind == Kind.CLIENT:
        return pending.opcode not in UNMETERED
    return pending.kind == Kind.OPEN


def _bare(pending: Pending) -> tuple[Identities, bytes]:
    """The identities and the body of a request in an entry that a full etcd takes.

    They have nothing that clients may make long: they would fill etcd's disk, whatever its quota is.
    """
    if pending.kind == Kind.CLIENT and pending.opcode == OpCode.SYNC:
        return (), ROOT_PATH  # which only the reply has
    if pending.kind == Kind.CLIENT and pending.opcode == OpCode.CLOSE_SESSION:
        return pending.identities, b""
    return pending.identities, pending.body


class SpentBudgets:
    """Refuses requests of this proxy's clients while a budget is spent, before they take room in the log.

    The state machine decides about all others. As with the space in etcd, proxies need not agree about a
    request that is not appended.
    """

    def __init__(self, machine: Machine, report: Callable[[str], None]) -> None:
        """`report`: takes the path of the budget of each request that was refused."""
        self._machine = machine
        self.report = report

    def __bool__(self) -> bool:
        return bool(self._machine.budgets)

    def refusing(self, pending: Pending, incarnation: str, clock: int) -> str | None:
        """The path of the budget that a request would fail by now. `clock`: milliseconds since 1970."""
        if pending.kind != Kind.CLIENT:
            return None
        budgets = self._machine.budgets
        fields = pending.fields
        if fields is None:  # most often it is long
            if not budgets.is_any_spent(incarnation, clock):
                return None
            try:
                fields = beginning(pending.opcode, pending.body)
            except MalformedPacket:
                return None
        effect = EXTENDED.writes[pending.opcode].effect
        return budgets.refuses(incarnation, clock, effect, fields)


class _Refusal(NamedTuple):
    """The answer to a request that is not sent."""

    error: ErrorCode
    note: Callable[[], object] = lambda: None  # counts it


class Outbox:
    """The requests of this proxy without an outcome: those that wait, and those that were sent.

    A request is in the queue, among the syncs, in an entry, behind one, or refused. One object has all these
    places, since a session's requests keep their order from one to the next (rule 2.7).
    """

    def __init__(
        self,
        space: Space | None = None,
        budgets: SpentBudgets | None = None,
        entry_bytes: int = ENTRY_BYTES,
        value_bytes: int = VALUE_BYTES,
    ) -> None:
        """`space`, `budgets`: refuse requests before etcd is full, or while a budget is spent."""
        #: The requests that wait for an entry, in order.
        self.queue: deque[Pending] = deque()
        #: Refused requests that can be answered at once, with their errors; see `take_refused`.
        self.refused: list[tuple[Pending, int]] = []
        #: Whether etcd's quota was used up when it last answered an append; see `set_full`.
        self.is_full = False
        #: Bytes, before compression, of the entries that are not applied yet.
        self.bytes = 0
        #: Entries that may not be in the log yet.
        self.unanswered = 0
        #: Syncs that need no entry.
        self.syncs = Syncs()
        #: Only carrying sessions over is sent, see `hold`.
        self.is_held = False
        #: The name of the incarnation that numbers its entries here; "" before the first.
        self.incarnation = ""
        self._arrived: Callable[[], None] = lambda: None
        self._expected = 0  # so many requests were answered since the last entry was made
        self._space = space
        self._budgets = budgets
        self._next_by_entry = False  # the syncs that wait are sent in an entry
        self._entry_bytes = entry_bytes
        self._value_bytes = value_bytes
        self._sent: dict[int, Sent] = {}
        self._next = 1

    @property
    def outstanding(self) -> int:
        """Requests without an outcome."""
        on_their_way = sum(len(sent.requests) + len(sent.after) for sent in self._sent.values())
        return len(self.queue) + len(self.refused) + len(self.syncs) + on_their_way

    @property
    def first_sent(self) -> int:
        """The first number in use whose outcome the stream has not shown; 0 if there is none."""
        return next(iter(self._sent), 0)

    def missing(self, applied_number: int) -> int:
        """The first number that has had its outcome, and is not in a state that was loaded; 0 if none is.

        The state holds the numbers up to `applied_number`.
        """
        following = applied_number + 1
        return following if following < (self.first_sent or self._next) else 0

    @property
    def is_gathering(self) -> bool:
        """Whether more requests are likely to come soon: clients answered together continue together."""
        return len(self.queue) < self._expected

    def gathered(self) -> None:
        """The requests that were likely to come have not."""
        self._expected = 0

    def set_full(self, is_full: bool) -> bool:
        """By an answer of etcd's, its quota is used up, or no longer; returns whether that is new."""
        was_full, self.is_full = self.is_full, is_full
        return is_full is not was_full

    def get(self, number: int) -> Sent | None:
        """What was sent under a number, if the stream has not shown it yet."""
        return self._sent.get(number)

    # -- requests ------------------------------------------------------------------------------------------

    def on_arrival(self, arrived: Callable[[], None]) -> None:
        """Have this called when requests arrive."""
        self._arrived = arrived

    def submit(self, pending: Pending) -> None:
        """Take a request for the log. It is sent with all others that the loop has read in the same turn."""
        self.queue.append(pending)
        self._arrived()

    def submit_all(self, requests: Iterable[Pending]) -> None:
        """Take requests for the log, in this order."""
        self.queue.extend(requests)
        self._arrived()

    def submit_first(self, requests: Iterable[Pending]) -> None:
        """Take requests that are sent before all that wait."""
        self.queue.extendleft(reversed(list(requests)))
        self._arrived()

    def hold(self) -> None:
        """Send nothing more until `release`, except requests to carry sessions over: these may move now."""
        self.is_held = True

    def release(self) -> None:
        """Send what waits."""
        self.is_held = False
        self._arrived()

    def end(self) -> None:
        """Another process has taken over: drop what waits, and all that comes from now on."""
        self.queue = deque(maxlen=0)

    def set_syncs_apart(self) -> bool:
        """Let a read answer syncs instead of an entry, if nothing but syncs waits and nothing is on its way.

        Returns whether a read has to be begun. Otherwise an entry is sent in any case, and a sync costs next
        to nothing in it. At a full etcd a sync is the request by which an operator gets a new entry, which a
        snapshot needs (docs/etcd.md).
        """
        queue = self.queue
        if (
            not self._sent
            and not self.is_held
            and not self.is_full
            and not self._next_by_entry
            and queue
            and all(map(needs_no_entry, queue))
        ):
            self.syncs.add(queue)
            queue.clear()
        return bool(self.syncs.waiting)

    def append_syncs(self) -> None:
        """No read can answer the syncs: send them in an entry. If one is on its way, that proves them."""
        if not self._sent:
            self._next_by_entry = True
            self.submit_first([pending for pending, _ in self.syncs.take_all()])

    # -- entries -------------------------------------------------------------------------------------------

    def cut(self, header: EntryHeader, *, may_try: bool = False) -> Sent | None:
        """Make the next entry from the requests that wait; None if there is nothing to send.

        While etcd is full, requests that take space are refused. With `may_try` one of them is sent alone.
        Also None if it has refused as much as one turn of the loop allows; `has_next` is true then.
        """
        while True:
            writer = EntryWriter()
            requests, form = self._next_requests(writer, header.clock, may_try)
            if not requests:
                return None
            value = header.finish(writer)
            if len(requests) > 1 or len(value) <= self._value_bytes:
                break
            self._refuse(requests[0], ErrorCode.BAD_ARGUMENTS)
        sent = Sent(self._next, header, value, writer.size, requests, form)
        self._sent[self._next] = sent
        self._next += 1
        self._next_by_entry = False
        self._expected = 0
        self.bytes += writer.size
        self.unanswered += 1
        return sent

    @property
    def has_next(self) -> bool:
        """Whether the first request that waits may be sent or refused now."""
        return bool(self.queue) and (not self.is_held or self.queue[0].kind == Kind.CARRY_OVER)

    def _next_requests(self, writer: EntryWriter, clock: int, may_try: bool) -> tuple[list[Pending], Form]:
        """Take the requests of an entry from the queue, and write them; also returns the entry's form.

        Requests before them that may not be sent are refused.
        """
        queue, full = self.queue, self.is_full
        space = self._space if self._space is not None and self._space.is_short() else None
        most = self._entry_bytes if space is None else min(self._entry_bytes, JUDGED_AT_ONCE)
        is_limited = full or space is not None or bool(self._budgets)
        requests: list[Pending] = []
        may_refuse = _REFUSED_BYTES
        while queue and len(requests) < MAX_REQUESTS and may_refuse > 0:
            pending = queue[0]
            if self.is_held and pending.kind != Kind.CARRY_OVER:
                break
            if requests and writer.size + len(pending.body) + _REQUEST_OVERHEAD > most:
                break
            is_trial = full and is_metered(pending)
            if is_trial and requests:
                break
            if is_limited or not pending.is_wanted:
                refusal = self._refusal(pending, clock, may_try, space, writer.size)
                if refusal is not None:
                    if requests:
                        break
                    refusal.note()
                    may_refuse -= self._refuse(queue.popleft(), refusal.error)
                    continue
            queue.popleft()
            requests.append(pending)
            identities, body = _bare(pending) if full else (pending.identities, pending.body)
            writer.add(pending.kind, pending.session_id, pending.opcode, identities, body)
            if is_trial:
                return requests, Form.TRIAL
        return requests, Form.NESTED if full else _DIRECT

    def _refusal(
        self, pending: Pending, clock: int, may_try: bool, space: Space | None, size: int
    ) -> _Refusal | None:
        """Why a request is not sent; None if it is. `size`: bytes of its entry so far."""
        if not pending.is_wanted:
            return _Refusal(ErrorCode.SYSTEM_ERROR)
        budgets = self._budgets
        if budgets and (spent := budgets.refusing(pending, self.incarnation, clock)) is not None:
            return _Refusal(ErrorCode.THROTTLED_OP, partial(budgets.report, spent))
        if self.is_full and not may_try and is_metered(pending):
            return _Refusal(ErrorCode.SYSTEM_ERROR)
        if space is not None and not space.admits(pending, self.bytes + size):
            return _Refusal(ErrorCode.SYSTEM_ERROR, space.count_refused)
        return None

    def refuse_metered(self) -> None:
        """Refuse waiting requests that take space, while nothing can be sent; each session's order is kept.

        A client that wants to continue its session is refused as well. It will connect to another proxy, and
        this request, if it were appended much later, would move the session away from that proxy.
        """
        busy: set[int] = set()
        rest: deque[Pending] = deque()
        for pending in self.queue:
            refused = is_metered(pending) or pending.kind == Kind.ATTACH
            if refused and pending.session_id not in busy:
                self._refuse(pending, ErrorCode.SYSTEM_ERROR)
            else:
                busy.add(pending.session_id)
                rest.append(pending)
        self.queue.clear()
        self.queue.extend(rest)

    def _refuse(self, pending: Pending, error: int) -> int:
        """Answer a request without an entry, once what its session has sent before is applied; its size."""
        last = next(reversed(self._sent.values()), None)
        if last is not None:
            last.after.append((pending, error))
        elif self.syncs:
            self.syncs.refuse(pending, error)
        else:
            self.refused.append((pending, error))
        return len(pending.body) + _REQUEST_OVERHEAD

    def take_refused(self) -> list[tuple[Pending, int]]:
        """The requests to be answered now, with their errors."""
        refused, self.refused = self.refused, []
        return refused

    # -- etcd's answers ------------------------------------------------------------------------------------

    def appended(self, sent: Sent) -> None:
        """The number is filled: the entry, or its replacement, is in the log."""
        self._learned(sent, _FILLED)

    def no_space(self, sent: Sent) -> None:
        """etcd refused the entry because its quota is used up: send the replacement under its number.

        The refused entry may be in the log nevertheless: etcd applies the Txn that exceeds the quota.
        """
        self._replace(sent, Learned.NO_SPACE, ErrorCode.SYSTEM_ERROR)

    def too_large(self, sent: Sent) -> bool:
        """etcd refused the entry as too large; whether its number can be filled.

        etcd may have a lower limit than usual. A single request that is too large is refused. Several
        requests are sent again in smaller entries, but not under other numbers, since later entries, even of
        the same sessions, may be in the log. So the incarnation has to end, and the next one sends all of
        them again, unless etcd is too full to let this proxy register again.
        """
        if len(sent.requests) == 1:
            self._value_bytes = min(self._value_bytes, len(sent.value) - 1)
        else:
            bound = _SMALL_ENTRY_BYTES if len(sent.value) > 2 * _SMALL_ENTRY_BYTES else 0
            self._entry_bytes = min(self._entry_bytes, bound)
            if not self.is_full:
                return False
        error = ErrorCode.SYSTEM_ERROR if self.is_full else ErrorCode.BAD_ARGUMENTS
        self._replace(sent, Learned.TOO_LARGE, error)
        return True

    def _replace(self, sent: Sent, why: Learned, error: int) -> None:
        """Make the entry that replaces the refused one under its number, without requests that take space."""
        probe.current.reached("a replacement entry")
        sent.form = FORMS[sent.form][why]
        is_empty = sent.form is Form.EMPTY
        sent.kept = [not is_empty and not is_metered(pending) for pending in sent.requests]
        sent.error = error
        writer = EntryWriter()
        for pending, is_kept in zip(sent.requests, sent.kept, strict=True):
            if is_kept:
                writer.add(pending.kind, pending.session_id, pending.opcode, *_bare(pending))
        sent.value = sent.header.finish(writer)
        self.bytes += writer.size - sent.size
        sent.size = writer.size

    def _learned(self, sent: Sent, what: Learned) -> None:
        """Change the stage of an entry."""
        if sent.stage is _SENT:  # whatever is learned, it is another one now
            self.unanswered -= 1
        sent.stage = STAGES[sent.stage][what]

    # -- the stream ----------------------------------------------------------------------------------------

    def settle(self, number: int) -> Sent | None:
        """An entry of this incarnation was applied completely; returns it. Answer its `after` next."""
        sent = self._sent.pop(number, None)
        if sent is not None:
            self._over(sent)
            self._expected += len(sent.requests)
        return sent

    def _over(self, sent: Sent) -> None:
        self._learned(sent, _DECIDED)
        self.bytes -= sent.size

    def skipped(self, applied_number: int) -> list[tuple[Pending, int]]:
        """A loaded state holds the numbers up to this one: their requests, with the errors to answer."""
        lost: list[tuple[Pending, int]] = []
        numbers = [number for number in self._sent if number <= applied_number]
        if numbers:  # all syncs precede them
            lost += [(each, error or int(ErrorCode.CONNECTION_LOSS)) for each, error in self.syncs.take_all()]
        for number in numbers:
            sent = self._sent.pop(number)
            self._over(sent)
            lost += [(pending, int(ErrorCode.CONNECTION_LOSS)) for pending in sent.requests]
            lost += sent.after
        return lost

    def abandon(self) -> list[tuple[Pending, int]]:
        """It is unknown which entries took effect: all requests that were sent, with the errors to answer."""
        self.incarnation = ""
        return self.skipped(self._next)

    def begin_incarnation(self, name: str) -> None:
        """The next entries are numbered by this incarnation."""
        self.incarnation = name

    def end_incarnation(self, applied_number: int) -> list[Pending]:
        """The incarnation is over: the requests that did not take effect, in order.

        The state holds its numbers up to `applied_number`. The next numbers are those of a new incarnation.
        Requests that were not sent stay in the queue.
        """
        again: list[Pending] = [pending for pending, _ in self.syncs.take_all()]
        for number, sent in self._sent.items():
            assert number > applied_number, f"number {number} was applied, and its requests not answered"
            self._over(sent)
            again += sent.requests
            again += [pending for pending, _ in sent.after]
        self._sent.clear()
        self._next = 1
        return again
