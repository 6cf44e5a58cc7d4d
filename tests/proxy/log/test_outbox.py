"""The outbox alone, and in random histories on the model of etcd: each request counts once, or not."""

import random
from collections import Counter

import pytest

from codec.constants import ErrorCode, OpCode
from lab.fakes.etcd import FakeEtcd
from proxy.etcd.model import Delete, Put, Txn
from proxy.log.follower import Apply, Follower, Item, ProxyGone
from proxy.log.outbox import (
    Header,
    Outbox,
    Sent,
    Verdict,
    append_txn,
    is_metered,
    verdict,
)
from proxy.log.pending import Pending
from schema.entry import Kind, decode_entry
from schema.keys import Keyspace

KEYS = Keyspace("/t")
HEADER = Header(1000, 3, 0, 0)
NOBODY = ()


def request(
    session: int = 1, body: bytes = b"x", *, kind: Kind = Kind.CLIENT, opcode: int = OpCode.CREATE
) -> Pending:
    return Pending(kind, session, opcode, NOBODY, body)


def cut(outbox: Outbox, *, header: Header = HEADER, may_probe: bool = False) -> Sent:
    """The next entry: there is one."""
    sent = outbox.cut(header, may_probe=may_probe)
    assert sent is not None
    return sent


def bodies(value: bytes) -> list[bytes]:
    return [each.body for each in decode_entry(value).requests]


def test_the_header_is_in_the_entry() -> None:
    outbox = Outbox()
    outbox.queue.append(request())
    sent = cut(outbox, header=Header(123, 2, 64, 99))
    entry = decode_entry(sent.value)
    assert (entry.clock, entry.rules, entry.checkpoint, entry.digest) == (123, 2, 64, 99)


def test_an_entry_ends_before_it_gets_too_large_and_a_larger_request_goes_alone() -> None:
    noise = random.Random(1).randbytes
    outbox = Outbox(entry_bytes=1000, value_bytes=5000)
    for size in (400, 400, 400, 3000, 10):
        outbox.queue.append(request(body=noise(size)))
    sizes = []
    while (sent := outbox.cut(HEADER)) is not None:
        sizes.append([len(body) for body in bodies(sent.value)])
    assert sizes == [[400, 400], [400], [3000], [10]]


def test_a_request_that_etcd_would_never_take_is_refused_in_its_turn() -> None:
    noise = random.Random(1).randbytes
    outbox = Outbox(entry_bytes=1000, value_bytes=5000)
    before, large, behind = request(), request(body=noise(6000)), request()
    outbox.queue.append(large)
    assert outbox.cut(HEADER) is None
    assert outbox.take_refused() == [(large, ErrorCode.BAD_ARGUMENTS)]
    assert outbox.take_refused() == []
    outbox.queue.extend((before, large, behind))
    first, second = cut(outbox), cut(outbox)
    assert first.requests == [before]
    assert second.requests == [behind]
    assert outbox.take_refused() == []
    assert first.after == [(large, ErrorCode.BAD_ARGUMENTS)]
    assert outbox.applied(1) is first


def test_one_write_alone_probes_whether_there_is_space_again() -> None:
    outbox = Outbox()
    outbox.full = True
    close, probe, other = request(2, opcode=OpCode.CLOSE_SESSION), request(1), request(3)
    outbox.queue.extend((close, probe, other))
    first, second = cut(outbox, may_probe=True), cut(outbox, may_probe=True)
    assert (first.requests, first.nested, first.is_probe) == ([close], True, False)
    assert (second.requests, second.nested, second.is_probe) == ([probe], False, True)


def test_a_lower_limit_of_etcd_is_learned_and_nothing_small_is_refused() -> None:
    noise = random.Random(1).randbytes
    outbox = Outbox(entry_bytes=200_000)
    pendings = [request(body=noise(40_000)) for _ in range(6)]
    outbox.queue.extend(pendings)
    sent, later = cut(outbox), cut(outbox)
    assert (len(sent.requests), len(later.requests)) == (4, 2)
    # Later numbers may be in the log, so the others cannot follow under other numbers of this incarnation.
    assert not outbox.too_large(sent)
    again = outbox.ended(0)
    assert again == pendings
    outbox.queue.extend(again)
    for number, pending in enumerate(pendings, 1):
        sent = cut(outbox)
        assert (sent.number, sent.requests) == (number, [pending])
        outbox.applied(number)
    outbox.queue.append(request())
    outbox.queue.append(request())
    small = cut(outbox)
    assert len(small.requests) == 2, "small requests still go together"
    assert not outbox.too_large(small)
    for _ in outbox.ended(6):
        outbox.queue.append(request())
        alone = cut(outbox)
        assert len(alone.requests) == 1


def test_a_request_that_this_etcd_refuses_by_itself_leaves_a_void() -> None:
    noise = random.Random(1).randbytes
    outbox = Outbox()
    outbox.queue.append(request(body=noise(100_000)))
    sent = cut(outbox)
    assert outbox.too_large(sent)
    assert bodies(sent.value) == []
    assert sent.error == ErrorCode.BAD_ARGUMENTS
    # The next one as large is refused without an entry, the next one that is smaller is not.
    outbox.queue.append(request(body=noise(100_000)))
    assert outbox.cut(HEADER) is None
    assert [error for _, error in sent.after] == [ErrorCode.BAD_ARGUMENTS]
    outbox.queue.append(request(body=noise(50_000)))
    assert outbox.cut(HEADER) is not None


def test_an_entry_refused_as_too_large_by_a_full_etcd_which_lets_no_proxy_register() -> None:
    outbox = Outbox()
    for opcode in (OpCode.CREATE, OpCode.CLOSE_SESSION):
        outbox.queue.append(request(opcode=opcode))
    sent = cut(outbox)
    outbox.full = True
    assert outbox.too_large(sent)
    assert sent.kept == [False, True]
    assert sent.error == ErrorCode.SYSTEM_ERROR


def test_which_requests_take_space() -> None:
    assert is_metered(request())
    assert is_metered(request(kind=Kind.OPEN))
    for opcode in (OpCode.CLOSE_SESSION, OpCode.SYNC):
        assert not is_metered(request(opcode=opcode))
    for kind in set(Kind) - {Kind.CLIENT, Kind.OPEN}:
        assert not is_metered(request(kind=kind))


def test_what_a_load_has_skipped_loses_its_answers() -> None:
    outbox = Outbox()
    pendings = [request(body=b"%d" % number) for number in range(3)]
    for pending in pendings:
        outbox.queue.append(pending)
        outbox.cut(HEADER)
    assert outbox.skipped(2) == [(pending, ErrorCode.CONNECTION_LOSS) for pending in pendings[:2]]
    assert outbox.ended(2) == pendings[2:]
    assert (outbox.bytes, outbox.unanswered, outbox.outstanding) == (0, 0, 0)


class History:
    """One proxy on the model of etcd, its Txns at the mercy of a random network, and a reader of the log."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.store = FakeEtcd()
        self.outbox = Outbox(entry_bytes=600, value_bytes=2000)
        self.follower = Follower(KEYS)
        self.applied_number = 0  # of this incarnation
        self.taken = 1  # events up to this revision went to the follower
        self.waiting: list[Item] = []  # items not yet applied
        self.lives = 0
        self.incarnation = ""
        self.revision = 0
        self.network: list[tuple[str, Sent, Txn]] = []  # copies on their way, in no order
        self.submitted: dict[int, list[bytes]] = {}
        self.finished: list[tuple[int, bytes, int]] = []  # session, body, error
        self.executed: list[bytes] = []
        self.counter = 0
        self.over = False
        self.register()

    def register(self) -> None:
        self.lives += 1
        self.incarnation = f"p{self.lives}"
        self.store.lease_grant(self.lives, 5)
        answer = self.store.txn(Txn((), (Put(KEYS.proxy(self.incarnation), b"", self.lives),)))
        self.revision = answer.revision
        self.over = False

    # Steps

    def submit(self) -> None:
        self.counter += 1
        session = self.random.randrange(4)
        kind = self.random.choice((Kind.CLIENT, Kind.CLIENT, Kind.CLIENT, Kind.CLOSE))
        body = b"%d:%d:" % (session, self.counter) + self.random.randbytes(self.random.choice((5, 50, 700)))
        self.submitted.setdefault(session, []).append(body)
        self.outbox.queue.append(request(session, body, kind=kind))

    def cut(self) -> None:
        if self.over:
            return
        sent = self.outbox.cut(HEADER, may_probe=self.random.random() < 0.3)
        self.refuse()
        if sent is not None:
            self.send(sent)

    def refuse(self) -> None:
        for pending, error in self.outbox.take_refused():
            self.finished.append((pending.session_id, pending.body, error))

    def send(self, sent: Sent) -> None:
        sent.attempts += 1
        txn = append_txn(
            KEYS.proxy(self.incarnation),
            self.revision,
            KEYS.entry(self.incarnation, sent.number),
            sent.value,
            nested=sent.nested,
        )
        self.network.append((self.incarnation, sent, txn))

    def again(self) -> None:
        """Send something again whose outcome is not known."""
        open_ones = [sent for sent in self.outbox if not sent.answered]
        if open_ones and not self.over:
            self.send(self.random.choice(open_ones))

    def arrive(self) -> None:
        """A copy gets to etcd, or is lost; so may its answer be. A copy may arrive twice."""
        if not self.network:
            return
        index = self.random.randrange(len(self.network))
        incarnation, sent, txn = self.network[index]
        if self.random.random() < 0.8:
            del self.network[index]
        fate = self.random.random()
        if fate < 0.15:
            return  # lost
        listens = incarnation == self.incarnation and not self.over and not sent.over and not sent.answered
        if fate < 0.3 and not any(isinstance(op, Txn) for op in txn.success):
            # The quota's edge: refused, or applied and refused.
            if self.random.random() < 0.4:
                self.store.txn(txn)
            if listens:
                if self.random.random() < 0.7:
                    self.outbox.no_space(sent)
                elif not self.outbox.too_large(sent):
                    self.over = True
            return
        answer = self.store.txn(txn)
        if fate < 0.5 or not listens:
            return  # the answer is lost
        told = verdict(answer, self.revision)
        if told is Verdict.OVER:
            self.over = True
        else:
            self.outbox.landed(sent)
            if told is Verdict.APPENDED and not sent.nested:
                self.outbox.full = False

    def follow(self) -> None:
        history = self.store.history_from(self.taken + 1)
        for events in history[: self.random.randrange(1, 4)]:
            self.waiting += self.follower.feed(events)
            self.taken = events[0].kv.mod_revision
        count = self.random.randrange(4)
        items, self.waiting = self.waiting[:count], self.waiting[count:]
        for item in items:
            self.apply(item)

    def apply(self, item: Item) -> None:
        if isinstance(item, Apply):
            self.executed += [each.body for each in decode_entry(item.value).requests]
            sent = self.outbox.get(item.number) if item.incarnation == self.incarnation else None
            if sent is None:
                raise AssertionError(f"{item} is nobody's")
            if item.value == sent.original:
                kept = [True] * len(sent.requests)
            else:
                assert item.value == sent.value
                assert sent.kept is not None
                kept = sent.kept
            for pending, executed in zip(sent.requests, kept, strict=True):
                self.finished.append((pending.session_id, pending.body, 0 if executed else sent.error))
            assert self.outbox.applied(item.number) is sent
            self.applied_number = item.number
            self.finished += [(pending.session_id, pending.body, error) for pending, error in sent.after]
        elif isinstance(item, ProxyGone) and item.incarnation == self.incarnation:
            again = self.outbox.ended(self.applied_number)
            self.outbox.submit_first(again)
            self.applied_number = 0
            self.register()

    def expire(self) -> None:
        """The lease runs out, whatever is on its way."""
        if (self.over or self.random.random() < 0.15) and KEYS.proxy(self.incarnation) in self.keys():
            self.store.lease_revoke(self.lives)

    def truncate(self) -> None:
        """What the follower has delivered is deleted: a late copy may be put again."""
        for number in range(1, self.follower.delivered(self.incarnation) + 1):
            if self.random.random() < 0.5:
                self.store.txn(Txn((), (Delete(KEYS.entry(self.incarnation, number)),)))

    def keys(self) -> set[bytes]:
        return {pair.key for pair in self.store.snapshot()}

    def settle(self) -> None:
        """No more faults: everything gets its outcome."""
        for _ in range(400):
            self.cut()
            for sent in self.outbox:
                if not sent.answered and not self.over:
                    self.send(sent)
            for incarnation, sent, txn in self.network:
                answer = self.store.txn(txn)
                if incarnation == self.incarnation and not sent.over:
                    told = verdict(answer, self.revision)
                    if told is Verdict.OVER:
                        self.over = True
                    else:
                        self.outbox.landed(sent)
                        self.outbox.full = False
            self.network.clear()
            self.follow()
            if self.over and KEYS.proxy(self.incarnation) in self.keys():
                self.store.lease_revoke(self.lives)
            if not self.outbox.outstanding and not self.waiting:
                return
        raise AssertionError(f"{self.outbox.outstanding} requests never got an outcome")

    def check(self) -> None:
        finished = [body for _, body, _ in self.finished]
        assert Counter(finished) == Counter(body for each in self.submitted.values() for body in each)
        for session, sent in self.submitted.items():
            assert [body for owner, body, _ in self.finished if owner == session] == sent
        assert self.executed == [body for _, body, error in self.finished if not error]
        # Whoever reads the whole log at once sees the same.
        reader = Follower(KEYS)
        items = [item for events in self.store.history_from(1) for item in reader.feed(events)]
        read = [
            each.body
            for item in items
            if isinstance(item, Apply)
            for each in decode_entry(item.value).requests
        ]
        assert read == self.executed
        assert (self.outbox.bytes, self.outbox.unanswered) == (0, 0)


@pytest.mark.parametrize("seed", range(300))
def test_random_histories(seed: int) -> None:
    history = History(seed)
    steps = [
        history.submit,
        history.submit,
        history.cut,
        history.again,
        history.arrive,
        history.arrive,
        history.follow,
        history.expire,
        history.truncate,
    ]
    for _ in range(150):
        history.random.choice(steps)()
    history.settle()
    history.check()
