"""When entries are sent, how many at once, when again; etcd answers when the test says so."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest

from codec.constants import ErrorCode, OpCode
from codec.jute import pack_string
from lab.fakes.clock import FakeClock
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.etcd.model import (
    Compare,
    EtcdNoSpace,
    EtcdRefused,
    EtcdUnknown,
    KeyValue,
    Put,
    RangeResult,
    RefusalKind,
    Txn,
    TxnResult,
)
from proxy.log.append import appender as appender_module
from proxy.log.append.appender import Appender
from proxy.log.append.head_reader import HeadReader
from proxy.log.append.outbox import Outbox
from proxy.log.append.pending import CallbackRequest, Pending
from proxy.log.append.registration import Incarnation
from proxy.log.combine.combining import Combining
from proxy.log.context import Context
from proxy.log.follow.log_order import LogOrder
from proxy.log.follow.watch_guard import WatchGuard
from proxy.log.living import LivingProxies
from proxy.log.status import Stats
from proxy.state import capture
from proxy.support.environment import Environment
from proxy.support.tasks import Tasks
from schema.entry import Kind, decode_entry
from schema.keys import Keyspace
from tests import golden
from tests.proxy.log.proxies import until

KEYS = Keyspace("/t")
PROXY_REVISION = 5
SCRIPT = Path(__file__).with_name("appender.txt")
# What is left of requests at a full etcd.
_BARE = {pack_string("/"): "sync", b"": "close"}


class Call(NamedTuple):
    """A Txn that was sent, and its answer."""

    txn: Txn
    answer: asyncio.Future[TxnResult]

    def put(self) -> Put:
        (op,) = self.txn.success
        if isinstance(op, Txn):
            (op,) = op.success
        assert isinstance(op, Put)
        return op


class SlowEtcd(FakeEtcdClient):
    """Answers when a test says so."""

    def __init__(self) -> None:
        super().__init__(FakeEtcd())
        self.sent: list[Call] = []

    async def txn(self, txn: Txn, timeout: float) -> TxnResult:
        call = Call(txn, asyncio.get_running_loop().create_future())
        self.sent.append(call)
        return await call.answer


class World:
    """An appender. In a script `number/kind` is a request, which creates a node unless it has a kind."""

    def __init__(self) -> None:
        self.etcd = SlowEtcd()
        self.tasks = Tasks()
        self.outbox = Outbox()
        self.stats = Stats()
        self.timeout = 60.0
        self.told: list[str] = []
        self.seen = 0  # how many Txns were reported
        self.cancelled: set[int] = set()
        self.clock = FakeClock()
        environment = Environment(self.clock)
        context = Context(
            self.etcd, KEYS, self.tasks, capture.new_machine(1), self.stats, environment=environment
        )
        guard = mock.Mock(spec=WatchGuard)
        follower = mock.Mock(order=LogOrder(KEYS), watch_guard=guard)
        head = HeadReader(context, self.outbox, follower, mock.Mock())
        combining = Combining(context, LivingProxies(), lambda: 0.0)
        self.appender = Appender(
            context, self.outbox, head, guard, combining, lambda seconds, _error: seconds >= self.timeout
        )
        self.incarnations: list[Incarnation] = []
        self.start("p")

    def start(self, name: str) -> None:
        incarnation = Incarnation(KEYS, name, 5.0)
        incarnation.registered(PROXY_REVISION, 1, 5.0, 0.0)
        self.incarnations.append(incarnation)
        self.appender.start(incarnation)

    def submit(self, body: bytes, opcode: int = OpCode.CREATE) -> None:
        self.outbox.submit(Pending(Kind.CLIENT, 1, opcode, (), body, callback=self.answered))

    def answered(self, pending: Pending, _zxid: int, error: int, _body: bytes) -> None:
        self.told.append(f"refused {pending.body.decode()}: {ErrorCode(error).name}")

    async def answer(self, words: Sequence[str]) -> list[str]:
        """Do what a script says; what comes of it."""
        match words:
            case ["submit", *requests]:
                for request in requests:
                    name, _, kind = request.partition("/")
                    self.submit(name.encode(), _OPCODES[kind])
            case ["applied", number]:
                sent = self.outbox.settle(int(number))
                assert sent is not None
                self.told += [f"{each.body.decode()}: {ErrorCode(error).name}" for each, error in sent.after]
                self.appender.make_room()
            case ["round", "trip", milliseconds]:
                self.stats.round_trip.note(int(milliseconds) / 1000)
            case ["wait"]:
                pass
            case ["after", "a", "second"]:
                self.clock.now += 1.0
            case ["a", "moment", "later"]:
                assert self.appender._gathering is not None
                self.appender._gathering.cancel()
                self.appender._gathered()
            case ["idle"]:
                self.clock.now += 0.01
            case ["impatient"]:
                self.timeout = 0.0
            case ["hold"]:
                self.outbox.hold()
            case ["release"]:
                self.outbox.release()
            case ["stop"]:
                self.appender.stop()
            case ["start", name]:
                self.start(name)
            case ["no", "space"]:
                self.appender.no_space()
            case ["end", number]:
                self.outbox.submit_first(self.outbox.end_incarnation(int(number)))
            case [*what, number]:
                future = self.etcd.sent[int(number) - 1].answer
                outcome = _ANSWERS[" ".join(what)]
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)
        for _ in range(20):  # no attempt waits for time to pass
            await asyncio.sleep(0)
        told, self.told = self.told, []
        told += self.new_txns()
        cancelled = {number for number, call in enumerate(self.etcd.sent, 1) if call.answer.cancelled()}
        told += [f"Txn {number} is cancelled" for number in sorted(cancelled - self.cancelled)]
        self.cancelled = cancelled
        told += [f"{each.name} is over" for each in self.incarnations if each.is_over]
        self.incarnations = [each for each in self.incarnations if not each.is_over]
        return told

    def new_txns(self) -> Iterator[str]:
        for count, call in enumerate(self.etcd.sent[self.seen :], self.seen + 1):
            self.seen = count
            put = call.put()
            key = KEYS.parse(put.key)
            assert call.txn.compares == (
                Compare(KEYS.proxy(key.incarnation), PROXY_REVISION),
                Compare(put.key, 0),
            )
            entry = decode_entry(put.value)
            bodies = " ".join(_BARE.get(request.body) or request.body.decode() for request in entry.requests)
            same = [each.txn for each in self.etcd.sent[: count - 1]].count(call.txn)
            marks = ", nested" * (call.txn.success != (put,)) + ", as before" * bool(same)
            yield f"Txn {count}: entry {key.number} of {key.incarnation}: {bodies or '-'}{marks}"


_OPCODES = {"": OpCode.CREATE, "close": OpCode.CLOSE_SESSION, "sync": OpCode.SYNC}


def _found(*revisions: int) -> TxnResult:
    """The compares failed; the proxy key has this revision, or is gone."""
    kvs = [KeyValue(b"p", b"", revision, revision, 1, 0) for revision in revisions]
    return TxnResult(False, 10, [RangeResult(kvs, False, len(kvs), 10)])


_ANSWERS: dict[str, TxnResult | Exception] = {
    "ok": TxnResult(True, 10, [None]),
    "lost": EtcdUnknown("lost"),
    "full": EtcdNoSpace("full"),
    "too large": EtcdRefused(RefusalKind.TOO_LARGE, "too large"),
    "refused": EtcdRefused(RefusalKind.PERMISSION, "permission denied"),
    "key there": _found(PROXY_REVISION),
    "key gone": _found(),
    "another key": _found(PROXY_REVISION + 1),
}


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(appender_module, "_PAUSES", (0.0,))
    monkeypatch.setattr(appender_module, "_REFUSED_PAUSE", 0.0)
    monkeypatch.setattr(appender_module, "_GATHERING", 60.0)  # ends when the script says so
    world = World()
    yield world
    await world.tasks.close()


@golden.parametrized(SCRIPT)
async def test_script(world: World, case: golden.Case) -> None:
    await golden.check_async(SCRIPT, case, world.answer)


async def test_timeouts_grow(world: World) -> None:
    with mock.patch.object(world.etcd, "txn", side_effect=EtcdUnknown("lost")) as txn:
        await world.answer(["submit", "1"])
        await until(lambda: txn.call_count >= 6)
    assert [call.args[1] for call in txn.call_args_list[:6]] == [1.0, 1.0, 2.0, 3.0, 5.0, 5.0]


async def test_the_window_is_that_of_the_round_trip_lately(world: World) -> None:
    assert world.appender.window == 2
    world.stats.round_trip.note(0.02)
    assert world.appender.window == 8
    for _ in range(256):
        world.stats.round_trip.note(0.001)
    assert world.appender.window == 2


async def test_bytes_in_flight_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appender_module, "_WINDOW_BYTES", 100)
    world.stats.round_trip.note(0.02)
    for _ in range(3):
        world.submit(b"x" * 200)
        await asyncio.sleep(0)
    assert len(world.etcd.sent) == 1
    await world.answer(["applied", "1"])
    assert len(world.etcd.sent) == 2


async def test_what_is_not_applied_is_bounded_however_well_it_compresses(world: World) -> None:
    for _ in range(4):
        world.submit(b"x" * 1_000_000)
    await until(lambda: len(world.etcd.sent) == 2)
    await world.answer(["ok", "1"])
    await world.answer(["ok", "2"])
    assert len(world.etcd.sent) == 2 + 1  # 3,000,000 bytes
    await world.answer(["ok", "3"])
    assert not world.outbox.unanswered
    assert len(world.etcd.sent) == 3
    await world.answer(["applied", "1"])
    await until(lambda: len(world.etcd.sent) == 4)


async def test_between_long_entries_the_loop_does_other_work(world: World) -> None:
    noise = random.Random(1).randbytes
    world.stats.round_trip.note(0.02)
    for _ in range(3):
        world.submit(noise(400_000))
    counts = []
    while len(world.etcd.sent) < 3:
        await asyncio.sleep(0)
        counts.append(len(world.etcd.sent))
    assert set(counts) >= {1, 2, 3}


async def test_a_full_etcd_is_reported_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        world.appender.no_space()
    assert [record.levelname for record in caplog.records] == ["ERROR"]


async def test_who_has_raised_etcds_limit_is_told_to_restart(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Until then this process makes small entries: the bound never rises."""
    await world.answer(["submit", "1"])
    await world.answer(["too", "large", "1"])
    assert "--max-request-bytes to 1.5 MiB, then restart this proxy or run `zketcd upgrade`" in caplog.text


async def test_the_refusal_of_very_many_requests_goes_on_in_later_turns(world: World) -> None:
    world.submit(b"first")
    await until(lambda: world.outbox.unanswered == 1)
    bodies = [b"%d" % number for number in range(5000)]
    for body in bodies:
        world.outbox.submit(CallbackRequest(Kind.OPEN, body, world.answered, lambda: False, session_id=1))
    await until(lambda: not world.outbox.queue)
    sent = world.outbox.get(world.outbox.first_sent)
    assert sent is not None
    assert [pending.body for pending, _ in sent.after] == bodies


async def test_a_request_that_the_answer_to_another_causes_is_answered_too(world: World) -> None:
    def answered(*outcome: Any) -> None:
        world.answered(*outcome)
        world.submit(b"2")

    await world.answer(["no", "space"])
    world.outbox.submit(Pending(Kind.CLIENT, 1, OpCode.CREATE, (), b"1", callback=answered))
    assert len(await world.answer(["wait"])) == 2
