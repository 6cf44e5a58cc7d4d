"""Whole proxies, without clients: a sync alone is answered by a read, when all before it is applied."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient, Fate
from proxy.etcd.model import Delete, EtcdError, Get, Put, Txn, TxnResult, WatchMessage
from proxy.etcd.transport import InFlight
from proxy.log.context import LogSettings
from proxy.log.follow import question
from schema.keys import Keyspace
from tests.proxy.log.proxies import EPHEMERAL, Proxy, Reply, World, answered, until

NEW, OLD = "3.4.42", "3.4.41"  # etcd without and with issue 20418


class LateClient(FakeEtcdClient):
    """Its watch, and the answers to reads of the log's head, come when the test wants them."""

    def __init__(self, store: FakeEtcd) -> None:
        super().__init__(store)
        self.events: list[Callable[[], None]] | None = None  # that wait; None: nothing waits
        self.heads: list[Callable[[], None]] | None = None
        self.reads = 0
        self.change: Callable[[TxnResult], TxnResult] = lambda answer: answer

    async def watch(
        self, start: bytes, end: bytes, from_revision: int, on_message: Callable[[WatchMessage], None]
    ) -> None:
        def receive(message: WatchMessage) -> None:
            if self.events is None:
                on_message(message)
            else:
                self.events.append(lambda: on_message(message))

        await super().watch(start, end, from_revision, receive)

    def begin_txn(
        self, txn: Txn, timeout: float, on_answer: Callable[[TxnResult | EtcdError], None]
    ) -> InFlight:
        if not all(isinstance(op, Get) for op in txn.success):
            return super().begin_txn(txn, timeout, on_answer)
        self.reads += 1

        def receive(answer: TxnResult | EtcdError) -> None:
            if isinstance(answer, TxnResult):
                answer = self.change(answer)
            if self.heads is None:
                on_answer(answer)
            else:
                self.heads.append(lambda: on_answer(answer))

        return super().begin_txn(txn, timeout, receive)

    def deliver(self) -> None:
        waiting, self.events = self.events or [], None
        for each in waiting:
            each()

    def answer(self) -> None:
        waiting, self.heads = self.heads or [], None
        for each in waiting:
            each()


class LateWorld(World):
    """Its proxies have late clients; only what a test is about finds that a watch hangs."""

    async def proxy(self) -> Proxy:
        proxy = Proxy(LateClient(self.store), settings=LogSettings(max_staleness=600.0))
        self.proxies.append(proxy)
        await proxy.start()
        proxy.log.head.learned_versions([NEW])
        return proxy

    def late(self, proxy: Proxy) -> LateClient:
        assert isinstance(proxy.etcd, LateClient)
        return proxy.etcd


@pytest.fixture
async def world() -> AsyncIterator[LateWorld]:
    world = LateWorld()
    yield world
    for proxy in world.proxies:
        world.late(proxy).reconnect()
        world.late(proxy).deliver()
        await proxy.stop()


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def waits(reply: Reply) -> None:
    """The reply needs another event."""
    await turns()
    assert reply.times == 0


async def test_a_sync_alone_writes_nothing_and_shows_what_others_have_done(world: LateWorld) -> None:
    one, two = await world.pair()
    await answered([two.create(2, "/xa")])
    revision = world.store.revision
    replies = [world.sync(one, 1) for _ in range(3)]
    await answered(replies)
    assert [(reply.error, reply.body) for reply in replies] == [(0, b"\0\0\0\x01/")] * 3
    assert "/xa" in one.paths()
    assert (world.store.revision, world.late(one).reads) == (revision, 1)
    await world.check()


async def test_a_sync_waits_for_what_the_watch_has_not_delivered(world: LateWorld) -> None:
    one, two = await world.pair()
    world.late(one).events = []
    await answered([two.create(2, "/xa")])
    sync = world.sync(one, 1)
    await waits(sync)
    world.late(one).deliver()
    await answered([sync])
    assert "/xa" in one.paths()
    await world.check()


async def test_a_sync_waits_until_the_applier_has_what_the_follower_knows(world: LateWorld) -> None:
    """After a break the order is ahead for a while."""
    one, two = await world.pair()
    world.late(one).events = []
    revision = one.log.follower.order.revision
    await answered([two.create(2, "/xa")])
    events = [event for each in world.store.history_from(revision + 1) for event in each]
    items = one.log.follower.order.items_of(events)
    sync = world.sync(one, 1)
    await waits(sync)
    one.log.deliver(items)
    await answered([sync])
    assert "/xa" in one.paths()


async def test_a_sync_waits_for_what_was_truncated_before_the_watch_delivered_it(world: LateWorld) -> None:
    """The log holds nothing that is new, but there is a newer record."""
    one, two = await world.pair()
    world.late(one).events = []
    await answered([two.create(2, "/xa")])
    tree = next(pair for pair in world.store.snapshot() if pair.key == b"/t/live/tree")
    world.store.txn(Txn((), [Put(tree.key, tree.value)]))
    world.store.txn(Txn((), [Delete(*Keyspace("/t").entries_of(two.log.incarnation))]))
    sync = world.sync(one, 1)
    await waits(sync)
    world.late(one).deliver()
    await answered([sync])
    assert "/xa" in one.paths()


async def test_syncs_are_answered_in_slices_between_which_the_state_is_whole(world: LateWorld) -> None:
    one, _ = await world.pair()
    worker = one.log.applier.worker
    worker._seconds = 0.0
    replies = [world.sync(one, 1) for _ in range(2 * worker.every)]
    await until(lambda: replies[0].times == 1)
    assert replies[-1].times == 0
    while replies[-1].times == 0:
        assert worker.is_whole
        await asyncio.sleep(0)
    await world.check()


async def test_a_session_gets_its_answers_in_order(world: LateWorld) -> None:
    one = await world.proxy()
    await answered([one.open(1)])
    client = world.late(one)
    client.heads = []
    replies = [world.sync(one, 1)]
    await until(lambda: bool(client.heads))
    replies += [one.create(1, "/xa"), world.sync(one, 1), one.create(1, "/xb")]
    await answered(replies)
    assert [reply.error for reply in replies] == [0, 0, 0, 0]
    client.answer()
    replies.append(world.sync(one, 1))
    await answered(replies)
    assert [reply.zxid for reply in replies] == [1, 2, 2, 3, 3]
    await world.check()


@pytest.mark.parametrize("reason", ["no answer", "old", "too many keys", "too many proxies"])
async def test_a_read_that_proves_nothing_is_replaced_by_an_entry(
    world: LateWorld, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    one, two = await world.pair()
    client = world.late(one)
    with monkeypatch.context() as patched:
        match reason:
            case "no answer":
                client.fates.append(Fate.LOST)
            case "old":  # etcd's issue 20418
                client.change = lambda answer: answer._replace(revision=answer.revision - 1)
            case "too many proxies":
                patched.setattr(question, "MOST_OPS", 3)
            case _:
                patched.setattr(question, "_MOST_KEYS", 1)
                client.events = []
                await answered([two.create(2, "/xa"), two.create(2, "/xb")])
                await answered([two.create(2, "/xc")])
        revision = world.store.revision
        replies = [world.sync(one, 1), world.sync(one, 1)]
        await until(lambda: world.store.revision > revision)
        client.deliver()
        await answered(replies)
        assert [reply.error for reply in replies] == [0, 0]
        assert (world.store.revision, client.reads) == (revision + 1, int(reason != "too many proxies"))
    client.change = lambda answer: answer
    await answered([world.sync(one, 1)])
    assert world.store.revision == revision + 1, "the next one is answered by a read again"
    await world.check()


@pytest.mark.parametrize("versions", [(OLD,), (NEW, OLD), (NEW, "")])
async def test_a_sync_is_an_entry_unless_all_members_have_a_version_that_never_reads_old_data(
    world: LateWorld, versions: tuple[str, ...]
) -> None:
    """etcd's issue 20418: the answer of one member can be old because another one has the bug."""
    one, two = await world.pair()
    client = world.late(one)
    answers = list[TxnResult]()

    def first(answer: TxnResult) -> TxnResult:
        answers.append(answer)
        return answers[0]

    client.change = first
    await answered([world.sync(one, 1)])
    client.events = []
    await answered([two.create(2, "/xa")])
    one.log.head.learned_versions(versions)
    sync = world.sync(one, 1)
    await waits(sync)
    client.deliver()
    await answered([sync])
    assert "/xa" in one.paths()
    one.log.head.learned_versions([NEW, NEW])
    client.change = lambda answer: answer
    revision = world.store.revision
    await answered([world.sync(one, 1)])
    assert (world.store.revision, client.reads) == (revision, 2)
    await world.check()


async def test_a_sync_is_an_entry_while_no_version_is_known(world: LateWorld) -> None:
    one = Proxy(LateClient(world.store))
    world.proxies.append(await one.start())
    await answered([one.open(1)])
    await answered([one.sync(1)])
    assert world.late(one).reads == 0


async def test_a_sync_outlives_its_incarnation(world: LateWorld) -> None:
    one, two = await world.pair()
    await answered([one.create(1, "/xe", flags=EPHEMERAL)])
    client = world.late(one)
    client.heads = []
    old = one.log.incarnation
    sync = world.sync(one, 1)
    await until(lambda: bool(client.heads))
    behind = one.create(1, "/xb")
    world.end_lease(one)
    await answered([sync, behind])
    await until(lambda: old in two.gone)
    client.answer()
    assert (sync.error, behind.error) == (0, 0)
    await world.check()


async def test_a_watch_that_hangs_is_replaced_soon_though_the_proxy_only_syncs(world: LateWorld) -> None:
    one, two = await world.pair()
    world.late(one).events = []
    await answered([two.create(2, "/xa")])
    sync = world.sync(one, 1)
    await answered([sync])
    assert "/xa" in one.paths()
