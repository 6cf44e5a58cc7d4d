"""When entries are sent, how many at once, when again; etcd answers when the test says so."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any, NamedTuple
from unittest import mock

import pytest

from codec.constants import ErrorCode, OpCode
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.etcd.model import (
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
from proxy.log.append.membership import Incarnation
from proxy.log.append.outbox import Outbox
from proxy.log.append.pending import CallbackRequest, Pending
from proxy.log.context import Context
from proxy.log.follow.watch_guard import WatchGuard
from proxy.log.stats import Stats
from proxy.state import capture
from proxy.support.tasks import Tasks
from schema.entry import Kind, decode_entry
from schema.keys import Keyspace
from tests.proxy.log.proxies import until

KEYS = Keyspace("/t")
PROXY_REVISION = 5


class Call(NamedTuple):
    txn: Txn
    timeout: float
    answer: asyncio.Future[TxnResult]

    @property
    def put(self) -> Put:
        (op,) = self.txn.success
        if isinstance(op, Txn):
            (op,) = op.success
        assert isinstance(op, Put)
        return op

    @property
    def nested(self) -> bool:
        return isinstance(self.txn.success[0], Txn)

    @property
    def bodies(self) -> list[bytes]:
        return [request.body for request in decode_entry(self.put.value).requests]

    async def succeed(self) -> None:
        self.answer.set_result(TxnResult(True, 10, [None]))
        await turn()

    async def fail(self, error: Exception) -> None:
        self.answer.set_exception(error)
        await turn()

    async def find(self, *, proxy: int) -> None:
        """The compares failed; `proxy` is the revision of the proxy key, 0 if it is gone."""
        kvs = [KeyValue(b"p", b"", proxy, proxy, 1, 0)] if proxy else []
        self.answer.set_result(TxnResult(False, 10, [RangeResult(kvs, False, len(kvs), 10)]))
        await turn()


class SlowEtcd(FakeEtcdClient):
    """Answers when told."""

    def __init__(self) -> None:
        super().__init__(FakeEtcd())
        self.sent: list[Call] = []

    async def txn(self, txn: Txn, timeout: float) -> TxnResult:
        call = Call(txn, timeout, asyncio.get_running_loop().create_future())
        self.sent.append(call)
        return await call.answer


class World:
    def __init__(self) -> None:
        self.etcd = SlowEtcd()
        self.tasks = Tasks()
        self.outbox = Outbox()
        self.stats = Stats()
        self.patience = 60.0
        self.answers: list[tuple[bytes, int]] = []
        context = Context(self.etcd, KEYS, self.tasks, capture.new_machine(1), self.stats)
        guard = mock.Mock(spec=WatchGuard)
        head = HeadReader(context, self.outbox, guard, mock.Mock())
        self.appender = Appender(
            context, self.outbox, head, guard, lambda seconds, _error: seconds >= self.patience
        )
        self.incarnations: list[Incarnation] = []

    def start(self, name: str, revision: int) -> None:
        incarnation = Incarnation(KEYS, name, 5.0)
        incarnation.begin(revision, 1, 5.0, 0.0)
        self.incarnations.append(incarnation)
        self.appender.start(incarnation)

    @property
    def over(self) -> list[str]:
        return [each.name for each in self.incarnations if each.is_over]

    def submit(self, body: bytes, opcode: int = OpCode.CREATE) -> None:
        self.outbox.submit(CallbackRequest(Kind.CLIENT, 1, opcode, (), body, self.answered))

    async def send(self, body: bytes, opcode: int = OpCode.CREATE) -> None:
        self.submit(body, opcode)
        await turn()

    def answered(self, pending: Pending, _zxid: int, error: int, _body: bytes) -> None:
        self.answers.append((pending.body, error))

    async def applied(self, number: int) -> None:
        self.outbox.settle(number)
        self.appender.make_room()
        await turn()


async def turn(times: int = 4) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    world.start("p", PROXY_REVISION)
    await turn()
    yield world
    await world.tasks.close()


async def test_the_first_goes_at_once_and_what_comes_meanwhile_gathers(world: World) -> None:
    await world.send(b"1")
    await world.send(b"2")
    for body in (b"3", b"4", b"5"):
        await world.send(body)
    sent = world.etcd.sent
    assert [call.bodies for call in sent] == [[b"1"], [b"2"]]
    assert [call.put.key for call in sent] == [KEYS.entry("p", 1), KEYS.entry("p", 2)]
    assert sent[0].txn.compares[0].mod_revision == PROXY_REVISION
    await sent[1].succeed()
    assert [call.bodies for call in sent] == [[b"1"], [b"2"], [b"3", b"4", b"5"]]


async def test_the_stream_may_be_faster_than_the_answer(world: World) -> None:
    for body in (b"1", b"2"):
        await world.send(body)
    await world.send(b"3")
    assert len(world.etcd.sent) == 2
    await world.applied(1)
    assert [call.bodies for call in world.etcd.sent] == [[b"1"], [b"2"], [b"3"]]
    await world.etcd.sent[0].succeed()
    assert world.outbox.unanswered == 2


async def test_far_away_more_are_in_flight(world: World) -> None:
    assert world.appender.window == 2
    world.stats.round_trip.note(0.02)
    assert world.appender.window == 8
    for number in range(10):
        await world.send(b"%d" % number)
    assert len(world.etcd.sent) == 8
    for _ in range(256):
        world.stats.round_trip.note(0.001)
    assert world.appender.window == 2


async def test_bytes_in_flight_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appender_module, "_WINDOW_BYTES", 100)
    world.stats.round_trip.note(0.02)
    for _ in range(3):
        await world.send(bytes(range(200)))
    assert len(world.etcd.sent) == 1
    await world.applied(1)
    assert len(world.etcd.sent) == 2


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


async def test_an_unknown_outcome_is_sent_again_the_same(world: World) -> None:
    await world.send(b"1")
    await world.etcd.sent[0].fail(EtcdUnknown("lost"))
    await until(lambda: len(world.etcd.sent) == 2)
    first, second = world.etcd.sent
    assert second.txn == first.txn
    assert (first.timeout, second.timeout) == (1.0, 1.0)
    assert world.stats.resent == 1
    # The key is there: by the first.
    await second.find(proxy=PROXY_REVISION)
    assert world.outbox.unanswered == 0
    assert world.over == []


async def test_once_the_stream_shows_it_nothing_is_sent_again(world: World) -> None:
    await world.send(b"1")
    await world.etcd.sent[0].fail(EtcdUnknown("lost"))
    await until(lambda: len(world.etcd.sent) == 2)
    await world.applied(1)
    assert world.etcd.sent[1].answer.cancelled()
    await asyncio.sleep(0.2)
    assert len(world.etcd.sent) == 2


@pytest.mark.parametrize("found", [0, PROXY_REVISION + 1])
async def test_without_its_proxy_key_the_incarnation_is_over(world: World, found: int) -> None:
    await world.send(b"1")
    await world.etcd.sent[0].find(proxy=found)
    assert world.over == ["p"]


async def test_stopped_nothing_is_sent_and_what_waits_goes_with_the_next_incarnation(world: World) -> None:
    await world.send(b"1")
    world.appender.stop()
    await turn()
    await world.etcd.sent[0].succeed()
    assert world.outbox.unanswered == 1, "whether it counts is what the stream shows"
    await world.send(b"2")
    assert len(world.etcd.sent) == 1
    again = world.outbox.end_incarnation(0)
    world.outbox.queue.extendleft(reversed(again))
    world.start("q", 9)
    await turn()
    assert world.etcd.sent[1].put.key == KEYS.entry("q", 1)
    assert world.etcd.sent[1].bodies == [b"1", b"2"]


async def test_no_space_is_followed_by_the_void_and_by_refusals(world: World) -> None:
    await world.send(b"1")
    await world.etcd.sent[0].fail(EtcdNoSpace("full"))
    void = world.etcd.sent[1]
    assert (void.put.key, void.nested, void.bodies) == (KEYS.entry("p", 1), True, [])
    await void.succeed()
    await world.applied(1)
    world.submit(b"2")
    await world.send(b"3")
    assert world.answers == [(b"2", ErrorCode.SYSTEM_ERROR), (b"3", ErrorCode.SYSTEM_ERROR)]
    await world.send(b"4", OpCode.CLOSE_SESSION)
    ending = world.etcd.sent[2]
    assert (ending.nested, ending.bodies) == (True, [b"4"])
    await ending.succeed()
    assert world.outbox.full


async def test_a_full_etcd_is_reported_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        world.appender.no_space()
    assert [record.levelname for record in caplog.records] == ["ERROR"]


async def test_a_request_that_the_answer_to_another_causes_is_answered_too(world: World) -> None:
    def answered(*outcome: Any) -> None:
        world.answered(*outcome)
        world.submit(b"2")

    world.appender.no_space()
    await turn()
    world.outbox.submit(CallbackRequest(Kind.CLIENT, 1, OpCode.CREATE, (), b"1", answered))
    await turn()
    assert [body for body, _ in world.answers] == [b"1", b"2"]


async def test_a_probe_finds_space(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appender_module, "_PROBE_INTERVAL", 0.05)
    world.appender.no_space()
    await turn()
    await asyncio.sleep(0.1)
    world.submit(b"1")
    await world.send(b"2")
    (probe,) = world.etcd.sent
    assert (probe.nested, probe.bodies) == (False, [b"1"])
    await probe.succeed()
    assert not world.outbox.full
    await world.send(b"3")
    assert world.etcd.sent[1].bodies == [b"3"]


async def test_while_it_cannot_register_for_want_of_space_writes_are_refused(world: World) -> None:
    world.appender.stop()
    world.submit(b"1")
    await world.send(b"sync", OpCode.SYNC)
    world.appender.no_space()
    await turn()
    await world.send(b"2")
    assert world.answers == [(b"1", ErrorCode.SYSTEM_ERROR)]
    world.start("q", 7)
    await turn()
    # What follows a request of the same session that has to wait is refused behind it.
    assert [call.bodies for call in world.etcd.sent] == [[b"sync"]]
    sent = world.outbox.get(1)
    assert sent is not None
    assert [(pending.body, error) for pending, error in sent.after] == [(b"2", ErrorCode.SYSTEM_ERROR)]


TOO_LARGE = EtcdRefused(RefusalKind.TOO_LARGE, "too large")


async def test_too_large_for_this_etcd(world: World) -> None:
    await world.send(b"1")
    await world.etcd.sent[0].fail(TOO_LARGE)
    assert world.etcd.sent[1].bodies == []
    sent = world.outbox.get(1)
    assert sent is not None
    assert sent.error == ErrorCode.BAD_ARGUMENTS


async def test_an_entry_too_large_for_this_etcd_ends_the_incarnation(world: World) -> None:
    world.submit(b"1")
    await world.send(b"2")
    await world.etcd.sent[0].fail(TOO_LARGE)
    assert world.over == ["p"]
    assert len(world.etcd.sent) == 1
    assert world.answers == []


async def test_a_refusal_that_only_an_operator_can_end_is_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appender_module, "_REFUSED_PAUSE", 0.02)
    await world.send(b"1")
    await world.etcd.sent[0].fail(EtcdRefused(RefusalKind.PERMISSION, "permission denied"))
    await until(lambda: len(world.etcd.sent) == 2)
    assert world.etcd.sent[1].txn == world.etcd.sent[0].txn


async def test_other_proxies_take_over_if_etcd_goes_on_refusing(world: World) -> None:
    world.patience = 0
    await world.send(b"1")
    await world.etcd.sent[0].fail(EtcdRefused(RefusalKind.PERMISSION, "permission denied"))
    assert world.over == ["p"]
    assert len(world.etcd.sent) == 1
    assert world.answers == []
