"""Following the log through breaks, compactions, truncation and a restore."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from unittest import mock

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.etcd.model import Delete, Put, Txn, WatchMessage
from proxy.log import start as start_module
from proxy.log import stream as module
from proxy.log import truncation
from proxy.log.follower import Apply, Follower, Item, ProxyCame, ProxyGone
from proxy.log.record import TreeNotServable
from proxy.log.start import Loaded, load
from proxy.log.stream import Stream
from proxy.state.machine import Machine
from proxy.support.environment import HOST
from proxy.support.tasks import Tasks
from schema.entry import decode_entry
from schema.record import encode_record
from tests.proxy.log.proxies import until
from tests.proxy.log.trees import Ran, Tree, pages_of


@pytest.fixture(autouse=True)
def _soon() -> Iterator[None]:
    with (
        mock.patch.object(module, "_RETRY", 0.001),
        mock.patch.object(start_module, "_RETRY", 0.001),
        mock.patch.object(truncation, "_PAUSE", 0),
    ):
        yield


class Proxy:
    """A machine that a stream feeds."""

    def __init__(self, tree: Tree, store: FakeEtcd) -> None:
        self.tree = tree
        self.client = FakeEtcdClient(store)
        self.follower = Follower(tree.keys)
        self.stream = Stream(self.client, tree.keys, self.follower, self, self.load, HOST.clock)
        self.machine: Machine
        self.items: list[Item] = []
        self.replaced: list[bool] = []
        self.loads = 0
        self.tasks = Tasks()
        self.task: asyncio.Task[None]

    async def load(self) -> Loaded:
        self.loads += 1
        return await load(self.client, self.tree.keys)

    async def start(self) -> None:
        loaded = await self.load()
        self.machine = loaded.machine
        self.deliver(await self.stream.begin(loaded))
        self.task = self.tasks.start(self.stream.run(), "follow")
        await self.stream.live.wait()

    def deliver(self, items: list[Item]) -> None:
        self.items += items
        for item in items:
            if isinstance(item, Apply):
                self.machine.apply(item.incarnation, item.number, decode_entry(item.value))

    async def replace(self, machine: Machine, *, restored: bool) -> None:
        self.machine.become(machine)
        self.replaced.append(restored)

    def has(self, path: str) -> Callable[[], bool]:
        return lambda: path in self.machine.tree.nodes

    @property
    def living(self) -> set[str]:
        names = set()
        for item in self.items:
            if isinstance(item, ProxyCame):
                names.add(item.incarnation)
            elif isinstance(item, ProxyGone):
                names.discard(item.incarnation)
        return names


@asynccontextmanager
async def following() -> AsyncIterator[tuple[FakeEtcd, Tree, Proxy]]:
    store = FakeEtcd()
    tree = await Tree(FakeEtcdClient(store)).make()
    await tree.come("a", "b")
    proxy = Proxy(tree, store)
    await proxy.start()
    try:
        yield store, tree, proxy
    finally:
        await proxy.tasks.close()


def same(store: FakeEtcd, proxy: Proxy) -> None:
    assert pages_of(proxy.machine) == pages_of(Ran(store).follow())


async def loaded_anew(store: FakeEtcd, tree: Tree, proxy: Proxy) -> None:
    """Wait until the state is loaded a second time; it goes on from there."""
    await until(lambda: bool(proxy.replaced))
    await tree.create("a", "/1")
    await until(proxy.has("/1"))
    same(store, proxy)
    assert proxy.loads == 2


async def hang(store: FakeEtcd, proxy: Proxy) -> None:
    """Break the watch, and let the next one bring nothing."""
    asked = asyncio.Event()

    async def silent(*_arguments: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    with mock.patch.object(proxy.client, "watch", silent):
        store.break_watches()
        await asked.wait()
    assert not proxy.stream.live.is_set()


@pytest.mark.parametrize("compacted", [False, True])
async def test_nothing_is_missed_by_a_break(compacted: bool) -> None:
    async with following() as (store, tree, proxy):
        session = tree.session("a")
        await tree.send("a", [], number=4)  # waits for 3
        for round in range(5):
            proxy.client.disconnect()
            await until(lambda: not proxy.stream.live.is_set())
            await tree.create("b", f"/{round}")
            await tree.come(f"new{round}")
            if round:
                await tree.go(f"new{round - 1}")
            if compacted:
                store.compact(store.revision)
            await asyncio.sleep(0.005)
            proxy.client.reconnect()
            await until(proxy.has(f"/{round}"))
            await until(lambda round=round: proxy.living == {"a", "b", f"new{round}"})  # type: ignore[misc]
        assert session
        await tree.send("a", [], number=2)
        await tree.send("a", [], number=3)
        await until(lambda: proxy.machine.applied["a"] == 4)
        assert proxy.loads == 1, "nothing was loaded again"
        assert proxy.stream.breaks >= 5
        if not compacted:
            same(store, proxy)


async def test_a_deletion_at_the_compacted_revision_is_not_missed() -> None:
    """etcd before 3.4.36 leaves deletions out of a watch that starts at the compacted revision."""
    async with following() as (store, tree, proxy):
        original = proxy.client.watch

        async def watch(
            start: bytes, end: bytes, from_revision: int, on_message: Callable[[WatchMessage], None]
        ) -> None:
            if "b" in proxy.living and proxy.stream.breaks:
                store.lease_revoke(lease)
                store.compact(store.revision)
            await original(start, end, from_revision, on_message)

        (pair,) = [kv for kv in store.snapshot() if kv.key == tree.keys.proxy("b")]
        lease = 77
        store.lease_grant(lease, 60)
        store.txn(Txn((), (Put(pair.key, pair.value, lease),)))
        await until(lambda: proxy.follower.revision == store.revision)
        with mock.patch.object(proxy.client, "watch", watch):
            store.break_watches()
            await until(lambda: proxy.living == {"a"})
        assert proxy.loads == 1


async def test_what_was_read_is_not_told_again_by_the_watch() -> None:
    async with following() as (store, tree, proxy):
        await tree.create("a", "/1")
        await until(proxy.has("/1"))
        before = len(proxy.items)
        store.break_watches()
        await until(lambda: proxy.stream.breaks > 0 and proxy.stream.live.is_set())
        await tree.create("a", "/2")
        await until(proxy.has("/2"))
        told = [item for item in proxy.items[before:] if isinstance(item, Apply)]
        assert len(told) == 1


async def test_a_proxy_that_fell_behind_truncation_loads_anew() -> None:
    async with following() as (store, tree, proxy):
        proxy.client.disconnect()
        await until(lambda: not proxy.stream.live.is_set())
        for path in ("/1", "/2", "/3"):
            await tree.create("a", path)
            await tree.snapshot("b")
        await tree.go("a")
        proxy.client.reconnect()
        await until(proxy.has("/3"))
        await until(lambda: proxy.living == {"b"})
        assert proxy.replaced == [False]
        await tree.create("b", "/end")
        await until(proxy.has("/end"))
        same(store, proxy)


async def test_an_idle_proxy_is_not_behind() -> None:
    """Snapshots of a tree in which nothing happens, far beyond the revision of the last event."""
    async with following() as (store, tree, proxy):
        await tree.snapshot("b")
        await until(lambda: proxy.stream.record is not None and proxy.stream.record.current is not None)
        proxy.client.disconnect()
        for _ in range(2):
            record = await tree.record()
            assert record.current is not None
            ref = record.current._replace(position=store.revision)
            changed = record._replace(current=ref, previous=ref)
            store.txn(Txn((), (Put(tree.keys.tree, encode_record(changed)),)))
        proxy.client.reconnect()
        await tree.create("b", "/end")
        await until(proxy.has("/end"))
        assert proxy.loads == 1


@pytest.mark.parametrize("other_cluster", [False, True])
async def test_a_restore_is_loaded_and_said(other_cluster: bool) -> None:
    async with following() as (store, tree, proxy):
        await tree.create("a", "/kept")
        await until(proxy.has("/kept"))
        backup = store.snapshot()
        revision = store.revision
        await tree.create("a", "/undone")
        await tree.come("later")
        await until(lambda: "later" in proxy.living)
        restored = FakeEtcd()
        restored.cluster_id = 2 if other_cluster else 1
        # As etcdctl's restore: the keys of the backup, at its revision.
        restored.revision = revision - len(backup) - 1
        for kv in sorted(backup, key=lambda kv: kv.mod_revision):
            restored.txn(Txn((), (Put(kv.key, kv.value),)))
        proxy.client.disconnect()
        await until(lambda: not proxy.stream.live.is_set())
        proxy.client.store = restored
        proxy.client.reconnect()
        await until(lambda: bool(proxy.replaced))
        assert proxy.replaced == [True]
        await until(lambda: proxy.living == {"a", "b"})
        assert not proxy.has("/undone")()
        assert proxy.has("/kept")()
        other = Tree(FakeEtcdClient(restored))
        other.numbers = {"b": 1}
        (kv,) = [kv for kv in restored.snapshot() if kv.key == tree.keys.proxy("b")]
        other.revisions = {"b": kv.mod_revision}
        await other.create("b", "/new")
        await until(proxy.has("/new"))


async def test_a_state_that_is_wrong_is_loaded_anew() -> None:
    async with following() as (store, tree, proxy):
        proxy.machine.zxid += 7
        proxy.stream.distrust()
        await loaded_anew(store, tree, proxy)
        assert proxy.replaced == [False]


async def test_a_state_that_is_distrusted_while_the_watch_is_broken_is_loaded_anew() -> None:
    async with following() as (store, tree, proxy):
        proxy.client.disconnect()
        await until(lambda: not proxy.stream.live.is_set())
        proxy.stream.distrust()
        proxy.client.reconnect()
        await loaded_anew(store, tree, proxy)


async def test_a_state_that_is_distrusted_before_the_watch_is_up_is_loaded_anew() -> None:
    async with following() as (store, tree, proxy):
        await hang(store, proxy)
        proxy.stream.distrust()
        proxy.stream.distrust()
        await loaded_anew(store, tree, proxy)


async def test_a_state_that_is_distrusted_while_it_is_loaded_anew_is_loaded_once_more() -> None:
    async with following() as (store, tree, proxy):
        load_once = proxy.stream._load

        async def load_twice() -> Loaded:
            loaded = await load_once()
            if proxy.loads == 2:
                proxy.stream.distrust()
            return loaded

        with mock.patch.object(proxy.stream, "_load", load_twice):
            proxy.stream.distrust()
            await until(lambda: proxy.loads == 3)
        await tree.create("a", "/1")
        await until(proxy.has("/1"))
        same(store, proxy)


async def test_a_watch_that_hangs_is_replaced_by_another() -> None:
    async with following() as (store, tree, proxy):
        await hang(store, proxy)
        await tree.create("a", "/1")
        proxy.stream.renew()
        proxy.stream.renew()
        await until(proxy.has("/1"))
        await until(proxy.stream.live.is_set)
        await tree.create("a", "/2")
        await until(proxy.has("/2"))
        same(store, proxy)
        assert proxy.loads == 1


async def test_the_end_of_a_tree_ends_the_stream() -> None:
    for changed, words in (
        (lambda record: None, "was deleted from etcd"),
        (lambda record: encode_record(record._replace(complete=False)), "an import into /t has begun"),
        (lambda record: b"{}", "can no longer be served"),
    ):
        async with following() as (store, tree, proxy):
            value = changed(await tree.record())
            key = tree.keys.tree
            store.txn(Txn((), (Delete(key) if value is None else Put(key, value),)))
            with pytest.raises(TreeNotServable, match=words):
                await proxy.task
