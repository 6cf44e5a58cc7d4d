"""From requests to entries and Txns, and what is to be done with etcd's answers.

Pure: the clock is an argument, sending is `appender`'s. One translator serves a proxy for its whole life; the
numbers start again at 1 with each incarnation. A number that was used once is always filled: by the entry as
it was sent, or, after etcd has refused that for certain, by a replacement without the requests that cannot be
appended. Which of the two counts is what the stream shows.
"""

import enum
from collections import deque
from collections.abc import Iterator

from codec.constants import ErrorCode, OpCode
from proxy.etcd.model import DEFAULT_MAX_REQUEST_BYTES, Compare, Get, Put, RangeResult, Txn, TxnResult
from proxy.log.pending import Pending
from schema.entry import EntryWriter, Kind

# Larger entries would hold up those of other proxies: a put of 100 KB takes etcd 2 ms, one of 20 KB 0.8 ms.
ENTRY_BYTES = 512 << 10
# What a single request may take: etcd's --max-request-bytes (1.5 MiB) minus what the Txn adds to the value.
VALUE_BYTES = DEFAULT_MAX_REQUEST_BYTES - 2048
# In one entry. More would only make the proxies and etcd take turns instead of working side by side.
MAX_REQUESTS = 1024
# The bound of entries once etcd, by a lower --max-request-bytes, has refused one with several requests; where
# even such a small one was refused, each request goes alone.
_SMALL_ENTRY_BYTES = 16 << 10
_REQUEST_OVERHEAD = 64  # what a request adds to an entry besides its body, about

# A client's requests that go on while etcd's quota is used up: nothing could end without them.
_UNMETERED_OPS = (OpCode.CLOSE_SESSION, OpCode.SYNC)


class Header:
    """What an entry says besides its requests."""

    __slots__ = ("checkpoint", "clock", "digest", "rules")

    def __init__(self, clock: int, rules: int, checkpoint: int, digest: int) -> None:
        self.clock = clock
        self.rules = rules
        self.checkpoint = checkpoint
        self.digest = digest


class Sent:
    """A number in use: what was sent under it, until the stream has shown what it became."""

    __slots__ = (
        "after",
        "answered",
        "attempts",
        "began",
        "error",
        "header",
        "is_probe",
        "kept",
        "nested",
        "number",
        "original",
        "over",
        "requests",
        "value",
    )

    def __init__(
        self,
        number: int,
        header: Header,
        value: bytes,
        requests: list[Pending],
        *,
        nested: bool,
        is_probe: bool,
    ) -> None:
        """`nested`: the put goes by way of an inner Txn, which etcd's quota check lets pass."""
        self.number = number
        self.header = header
        self.original = value  # what was sent first
        self.value = value  # what is sent now: the same, or its replacement
        self.requests = requests
        self.kept: list[bool] | None = None  # which requests are in the replacement; None: there is none
        self.error = 0  # what those are answered that are not
        self.nested = nested
        self.is_probe = is_probe  # sent to learn whether etcd has space again
        self.attempts = 0
        self.began = 0.0  # when it was first sent, by the appender's clock
        self.answered = False  # the entry, or its replacement, is in the log
        self.over = False  # the stream has shown it, or the incarnation is over
        # Requests refused without an entry, in the order of their sessions behind this one.
        self.after: list[tuple[Pending, int]] = []


class Verdict(enum.Enum):
    """What etcd's answer to an append says."""

    APPENDED = "the entry is in the log"
    THERE = "the key is taken: by this entry sent before, or by what it replaces"
    OVER = "the proxy key is gone, and the incarnation with it"


def append_txn(proxy_key: bytes, proxy_revision: int, entry_key: bytes, value: bytes, *, nested: bool) -> Txn:
    """The Txn that appends an entry. `proxy_revision`: where the proxy key, which is put once, was made."""
    put = Put(entry_key, value)
    return Txn(
        (Compare(proxy_key, proxy_revision), Compare(entry_key, 0)),
        # etcd counts the puts of a Txn against its quota, but not those of Txns within it (server/etcdserver/
        # quota.go, costTxn).
        (Txn((), (put,)) if nested else put,),
        (Get(proxy_key, keys_only=True),),
    )


def verdict(answer: TxnResult, proxy_revision: int) -> Verdict:
    """What the answer to an append says. An absent key would say nothing of a Txn that is on its way."""
    if answer.succeeded:
        return Verdict.APPENDED
    (proxy,) = answer.responses
    assert isinstance(proxy, RangeResult)
    if proxy.kvs and proxy.kvs[0].mod_revision == proxy_revision:
        return Verdict.THERE
    return Verdict.OVER


def is_metered(pending: Pending) -> bool:
    """Whether a request is refused while etcd's quota is used up."""
    if pending.kind == Kind.CLIENT:
        return pending.opcode not in _UNMETERED_OPS
    return pending.kind == Kind.OPEN


class Translator:
    """What waits to be sent, and what is on its way."""

    def __init__(self, entry_bytes: int = ENTRY_BYTES, value_bytes: int = VALUE_BYTES) -> None:
        #: What waits for an entry, in order. The hot path appends here directly.
        self.queue: deque[Pending] = deque()
        #: Requests that were refused and have nothing to wait for, with their errors; see `take_refused`.
        self.refused: list[tuple[Pending, int]] = []
        #: etcd's quota was used up when last asked.
        self.full = False
        #: Bytes of the entries that the stream has not shown yet.
        self.bytes = 0
        #: Entries that may not be in the log yet.
        self.unanswered = 0
        #: The last number of this incarnation that was applied.
        self.applied_number = 0
        self._entry_bytes = entry_bytes
        self._value_bytes = value_bytes
        self._sent: dict[int, Sent] = {}
        self._next = 1

    @property
    def outstanding(self) -> int:
        """Requests without an outcome."""
        on_their_way = sum(len(sent.requests) + len(sent.after) for sent in self._sent.values())
        return len(self.queue) + len(self.refused) + on_their_way

    def __iter__(self) -> Iterator[Sent]:
        return iter(list(self._sent.values()))

    def get(self, number: int) -> Sent | None:
        """What was sent under a number, if the stream has not shown it yet."""
        return self._sent.get(number)

    # -- sending -------------------------------------------------------------------------------------------

    def cut(self, header: Header, *, may_probe: bool = False) -> Sent | None:
        """Make the next entry of what waits; None if there is nothing to send.

        While etcd is full, requests that take space are refused, but with `may_probe` one of them is sent
        alone.
        """
        queue = self.queue
        while queue:
            requests: list[Pending] = []
            writer = EntryWriter()
            is_probe = False
            full = self.full
            while queue and len(requests) < MAX_REQUESTS:
                pending = queue[0]
                if full and is_metered(pending):
                    if requests:
                        break
                    if not may_probe:
                        self._refuse(queue.popleft(), ErrorCode.SYSTEM_ERROR)
                        continue
                    is_probe = True
                elif requests and writer.size + len(pending.body) + _REQUEST_OVERHEAD > self._entry_bytes:
                    break
                queue.popleft()
                requests.append(pending)
                writer.add(pending.kind, pending.session_id, pending.opcode, pending.identities, pending.body)
                if is_probe:
                    break
            if not requests:
                return None
            value = writer.finish(header.clock, header.rules, header.checkpoint, header.digest)
            if len(value) > self._value_bytes and len(requests) == 1:
                self._refuse(requests[0], ErrorCode.BAD_ARGUMENTS)
                continue
            sent = Sent(self._next, header, value, requests, nested=full and not is_probe, is_probe=is_probe)
            self._sent[self._next] = sent
            self._next += 1
            self.bytes += len(value)
            self.unanswered += 1
            return sent
        return None

    def refuse_metered(self) -> None:
        """Refuse what waits and takes space, while nothing can be sent; each session's order is kept.

        A client that wants to go on with its session is refused as well: it will find another proxy, and its
        request, appended much later, would take the session away from there.
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

    def _refuse(self, pending: Pending, error: int) -> None:
        """Answer a request without an entry, once what its session has sent before is applied."""
        last = next(reversed(self._sent.values()), None)
        if last is None:
            self.refused.append((pending, error))
        else:
            last.after.append((pending, error))

    def take_refused(self) -> list[tuple[Pending, int]]:
        """Requests to be answered now, with an error."""
        refused, self.refused = self.refused, []
        return refused

    # -- etcd's answers ------------------------------------------------------------------------------------

    def landed(self, sent: Sent) -> None:
        """The number is filled: the entry is in the log."""
        if not sent.answered and not sent.over:
            self.unanswered -= 1
            sent.answered = True

    def no_space(self, sent: Sent) -> None:
        """etcd refused the entry for want of space: from now on its replacement is sent under its number.

        The refused entry may be in the log all the same: the Txn that crosses the quota is applied.
        """
        self.full = True
        sent.is_probe = False
        self._replace(sent, ErrorCode.SYSTEM_ERROR)

    def too_large(self, sent: Sent) -> bool:
        """etcd, perhaps with a lower limit than usual, refused the entry; whether its number can be filled.

        A request that is too large by itself is refused. Several go on in smaller entries, but not under
        other numbers: later ones may be in the log, also of the same sessions. So unless etcd is too full to
        let this proxy register again, the incarnation has to end, and the next one sends all of it again.
        """
        if len(sent.requests) == 1:
            self._value_bytes = min(self._value_bytes, len(sent.value) - 1)
        else:
            bound = _SMALL_ENTRY_BYTES if len(sent.value) > 2 * _SMALL_ENTRY_BYTES else 0
            self._entry_bytes = min(self._entry_bytes, bound)
            if not self.full:
                return False
        error = ErrorCode.SYSTEM_ERROR if self.full else ErrorCode.BAD_ARGUMENTS
        self._replace(sent, error, nothing=sent.kept is not None)
        return True

    def _replace(self, sent: Sent, error: int, *, nothing: bool = False) -> None:
        """Make the entry that fills the number in place of the refused one, without what takes space."""
        if sent.kept is None or nothing:
            sent.kept = [not nothing and not is_metered(pending) for pending in sent.requests]
            sent.error = error
            writer = EntryWriter()
            for pending, kept in zip(sent.requests, sent.kept, strict=True):
                if kept:
                    writer.add(
                        pending.kind, pending.session_id, pending.opcode, pending.identities, pending.body
                    )
            header = sent.header
            value = writer.finish(header.clock, header.rules, header.checkpoint, header.digest)
            self.bytes += len(value) - len(sent.value)
            sent.value = value
        sent.nested = True

    # -- what the stream shows -----------------------------------------------------------------------------

    def applied(self, number: int) -> Sent | None:
        """An entry of this incarnation was applied, all of it; its refused followers are due now."""
        sent = self._sent.pop(number, None)
        self.applied_number = max(self.applied_number, number)
        if sent is not None:
            self._over(sent)
        return sent

    def _over(self, sent: Sent) -> None:
        if not sent.answered:
            self.unanswered -= 1
        sent.over = True
        self.bytes -= len(sent.value)

    def skipped(self, applied_number: int) -> list[tuple[Pending, int]]:
        """A loaded state holds the numbers up to this: their requests, to be answered with these errors."""
        lost: list[tuple[Pending, int]] = []
        for number in [number for number in self._sent if number <= applied_number]:
            sent = self._sent.pop(number)
            self._over(sent)
            lost += [(pending, int(ErrorCode.CONNECTION_LOSS)) for pending in sent.requests]
            lost += sent.after
        self.applied_number = max(self.applied_number, applied_number)
        return lost

    def ended(self, applied_number: int) -> list[Pending]:
        """The incarnation is over, and the state holds its numbers up to this: what did not count, in order.

        The next numbers are those of a new incarnation. What was not sent yet stays in the queue.
        """
        again: list[Pending] = []
        for number, sent in self._sent.items():
            assert number > applied_number, f"number {number} was applied, and its requests not answered"
            self._over(sent)
            again += sent.requests
            again += [pending for pending, _ in sent.after]
        self._sent.clear()
        self._next = 1
        self.applied_number = 0
        return again
