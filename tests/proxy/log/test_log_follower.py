"""Following the log through breaks, compactions, truncation and a restore."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from unittest import mock

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.etcd.model import Delete, EtcdRefused, Put, RefusalKind, Txn, WatchMessage
from proxy.log import reads
from proxy.log.follow import log_follower as stream
from proxy.log.follow.catch_up import Loaded
from proxy.log.follow.log_follower import LogFollower
from proxy.log.follow.log_order import Apply, Item, ProxyCame, ProxyGone
from proxy.log.load.start import load_to_serve
from proxy.log.record import TreeNotServable
from proxy.state.capture import new_machine
from proxy.state.machine import Machine
from proxy.support.environment import HOST
from proxy.support.tasks import Tasks
from schema.entry import decode_entry
from schema.record import TreeRecord, encode_record
from tests.proxy.log.proxies import until
from tests.proxy.log.trees import Tree, pages_of


class Proxy:
    """A machine that a stream feeds."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.client = FakeEtcdClient(tree.store)
        self.now = 0.0
        clock = mock.Mock(HOST.clock, monotonic=lambda: self.now)
        self.machine = new_machine(0)
        self.follower = LogFollower(
            self.client, tree.keys, self.machine, consumer=self, successor=self, clock=clock
        )
        self.order = self.follower.order
        self.items: list[Item] = []
        self.replaced: list[bool] = []
        self.loads = 0
        self.distrusted = 0
        self.tasks = Tasks()
        self.task: asyncio.Task[None]

    async def load_anew(self, *, is_wrong: bool = False) -> Loaded:
        self.loads += 1
        return await load_to_serve(self.client, self.tree.keys, make=False)

    async def start(self) -> None:
        loaded = await self.load_anew()
        self.machine.replace(loaded.machine)
        self.deliver(await self.follower.continue_from(loaded))
        self.task = self.tasks.start(self.follower._watch_and_repair(), "follow")
        await self.follower.live.wait()

    def deliver(self, items: list[Item]) -> None:
        self.items += items
        for item in items:
            if isinstance(item, Apply):
                self.machine.apply(item.incarnation, item.number, decode_entry(item.value))

    async def replace(self, machine: Machine, *, restored: bool) -> None:
        self.machine.replace(machine)
        self.follower.staleness.trust()
        self.replaced.append(restored)

    def stopped_serving(self, reason: str) -> None:
        self.distrusted += 1

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

    async def sees(self, incarnation: str, path: str) -> None:
        """What another proxy creates now is seen here."""
        await self.tree.create(incarnation, path)
        await until(lambda: path in self.machine.tree.nodes)

    def check(self) -> None:
        assert pages_of(self.machine) == pages_of(self.tree.ran())

    async def disconnect(self) -> None:
        self.client.disconnect()
        await until(lambda: not self.follower.live.is_set())

    async def hang(self) -> None:
        """Break the watch, and let the next one bring nothing."""
        asked = asyncio.Event()

        async def silent(*_arguments: object) -> None:
            asked.set()
            await asyncio.Event().wait()

        with mock.patch.object(self.client, "watch", silent):
            self.tree.store.break_watches()
            await asked.wait()
        assert not self.follower.live.is_set()


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    proxy = Proxy(await Tree().make("a", "b"))
    await proxy.start()
    yield proxy
    await proxy.tasks.close()


@pytest.mark.parametrize("compacted", [False, True])
async def test_nothing_is_missed_by_a_break(proxy: Proxy, compacted: bool) -> None:
    tree = proxy.tree
    await tree.send("a", [], number=4)  # waits for 3
    for round in range(5):
        await proxy.disconnect()
        await tree.create("b", f"/{round}")
        await tree.come(f"new{round}")
        if round:
            await tree.go(f"new{round - 1}")
        if compacted:
            tree.store.compact(tree.store.revision)
        await asyncio.sleep(0.005)
        proxy.client.reconnect()
        await until(proxy.has(f"/{round}"))
        await until(lambda round=round: proxy.living == {"a", "b", f"new{round}"})  # type: ignore[misc]
    await tree.send("a", [], number=2)
    await tree.send("a", [], number=3)
    await until(lambda: proxy.machine.applied["a"] == 4)
    assert proxy.loads == 1, "nothing was loaded again"
    if not compacted:
        proxy.check()


async def test_a_deletion_at_the_compacted_revision_is_not_missed(proxy: Proxy) -> None:
    """etcd before 3.4.34 leaves deletions out of a watch that starts at the compacted revision."""
    tree, store, original = proxy.tree, proxy.tree.store, proxy.client.watch
    lease = 77

    async def watch(
        start: bytes, end: bytes, from_revision: int, on_message: Callable[[WatchMessage], None]
    ) -> None:
        if "b" in proxy.living:
            store.lease_revoke(lease)
            store.compact(store.revision)
        await original(start, end, from_revision, on_message)

    (pair,) = [kv for kv in store.snapshot() if kv.key == tree.keys.proxy("b")]
    store.lease_grant(lease, 60)
    tree.change(Put(pair.key, pair.value, lease))
    await until(lambda: proxy.order.revision == store.revision)
    with mock.patch.object(proxy.client, "watch", watch):
        store.break_watches()
        await until(lambda: proxy.living == {"a"})
    assert proxy.loads == 1


async def test_what_was_read_is_not_told_again_by_the_watch(proxy: Proxy) -> None:
    await proxy.sees("a", "/1")
    before = len(proxy.items)
    with mock.patch.object(proxy.client, "watch", wraps=proxy.client.watch) as watch:
        proxy.tree.store.break_watches()
        await until(lambda: watch.called and proxy.follower.live.is_set())
    await proxy.sees("a", "/2")
    assert len([item for item in proxy.items[before:] if isinstance(item, Apply)]) == 1


async def test_an_entry_that_the_watch_leaves_out_is_found_and_the_tree_loaded_anew(proxy: Proxy) -> None:
    """etcd's issue 17529. Applied late, it would have another place than at other proxies."""
    await proxy.sees("a", "/first")
    proxy.client.leaves_out = 1
    await proxy.tree.create("a", "/left-out")
    await until(lambda: bool(proxy.client.left_out))
    await proxy.sees("b", "/in-time")
    await proxy.tree.create("a", "/waits")
    await until(lambda: proxy.order.held("a") == 1)
    proxy.follower.renew()
    await until(proxy.has("/waits"))
    assert (proxy.distrusted, proxy.loads) == (1, 2)
    proxy.check()


async def test_a_proxy_that_fell_behind_truncation_loads_anew(proxy: Proxy) -> None:
    await proxy.disconnect()
    for path in ("/1", "/2", "/3"):
        await proxy.tree.create("a", path)
        await proxy.tree.snapshot("b")
    await proxy.tree.go("a")
    proxy.client.reconnect()
    await until(proxy.has("/3"))
    await until(lambda: proxy.living == {"b"})
    assert proxy.replaced == [False]
    await proxy.sees("b", "/end")
    proxy.check()


async def test_an_idle_proxy_is_not_behind(proxy: Proxy) -> None:
    """Snapshots of a tree in which nothing happens, far beyond the revision of the last event."""
    tree = proxy.tree
    await tree.snapshot("b")
    seen = proxy.follower.record
    await until(lambda: seen.value is not None and seen.value.current is not None)
    proxy.client.disconnect()
    for _ in range(2):
        record = await tree.record()
        assert record.current is not None
        ref = record.current._replace(position=tree.store.revision)
        tree.change(Put(tree.keys.tree, encode_record(record._replace(current=ref, previous=ref))))
    proxy.client.reconnect()
    await proxy.sees("b", "/end")
    assert proxy.loads == 1


@pytest.mark.parametrize("other_cluster", [False, True])
async def test_a_restore_is_loaded_and_said(proxy: Proxy, other_cluster: bool) -> None:
    tree, store = proxy.tree, proxy.tree.store
    await proxy.sees("a", "/kept")
    backup, revision = store.snapshot(), store.revision
    await tree.create("a", "/undone")
    await tree.come("later")
    await until(lambda: "later" in proxy.living)
    restored = FakeEtcd()
    restored.cluster_id = 2 if other_cluster else 1
    # As etcdctl's restore: the keys of the backup, at its revision.
    restored.revision = revision - len(backup) - 1
    for kv in sorted(backup, key=lambda kv: kv.mod_revision):
        restored.txn(Txn((), (Put(kv.key, kv.value),)))
    await proxy.disconnect()
    proxy.client.store = restored
    proxy.client.reconnect()
    await until(lambda: bool(proxy.replaced))
    assert proxy.replaced == [True]
    await until(lambda: proxy.living == {"a", "b"})
    assert not proxy.has("/undone")()
    assert proxy.has("/kept")()
    proxy.tree = other = Tree(FakeEtcdClient(restored))
    other.numbers = {"b": 1}
    (kv,) = [kv for kv in restored.snapshot() if kv.key == tree.keys.proxy("b")]
    other.revisions = {"b": kv.mod_revision}
    await proxy.sees("b", "/new")


async def test_another_etcd_without_the_tree_is_waited_out(proxy: Proxy) -> None:
    """The address of a load balancer led to it for a while. Only its own etcd can say that a tree is gone."""
    store, other = proxy.tree.store, FakeEtcd()
    await proxy.sees("a", "/kept")
    other.cluster_id = 7
    await proxy.disconnect()
    proxy.client.store = other
    proxy.client.reconnect()
    loads = proxy.loads
    await until(lambda: proxy.loads > loads + 1)
    await proxy.disconnect()
    proxy.client.store = store
    proxy.client.reconnect()
    await proxy.sees("a", "/new")
    assert proxy.has("/kept")()
    assert not proxy.replaced


async def test_a_restore_that_looks_like_the_former_etcd_is_found(proxy: Proxy) -> None:
    """With the former cluster's token it has its id, and etcdutl's --bump-revision hides how old it is."""
    store = proxy.tree.store
    await proxy.sees("a", "/kept")
    backup = store.snapshot()
    await proxy.sees("a", "/undone")
    restored = FakeEtcd()
    restored.revision = store.revision + 1000
    for kv in sorted(backup, key=lambda kv: kv.mod_revision):
        restored.txn(Txn((), (Put(kv.key, kv.value),)))
    await proxy.disconnect()
    proxy.client.store = restored
    proxy.client.reconnect()
    await until(lambda: bool(proxy.replaced))
    assert proxy.replaced == [True]
    assert not proxy.has("/undone")()
    assert proxy.has("/kept")()


@pytest.mark.parametrize("why", ["a snapshot holds it", "the watch has shown that it was deleted"])
async def test_a_newest_entry_that_is_gone_is_no_restore(proxy: Proxy, why: str) -> None:
    tree, store = proxy.tree, proxy.tree.store
    await proxy.sees("a", "/gone")
    if why == "a snapshot holds it":
        await tree.snapshot("b")
        await proxy.disconnect()
    tree.change(Delete(tree.keys.entry("a", tree.numbers["a"])))
    if why == "the watch has shown that it was deleted":
        await until(lambda: proxy.order.revision == store.revision)
        store.break_watches()
    proxy.client.reconnect()
    await proxy.sees("b", "/later")
    assert proxy.has("/gone")()
    assert not proxy.replaced


@pytest.mark.parametrize("is_up", [True, False])
async def test_what_a_broken_watch_has_not_shown_is_no_reason_to_distrust_the_state(
    proxy: Proxy, is_up: bool
) -> None:
    """It may be the content of a restored etcd, and that is found by its cluster id."""
    if not is_up:
        await proxy.disconnect()
    proxy.follower._left_out()
    assert proxy.distrusted == int(is_up)


@pytest.mark.parametrize("meanwhile", ["all is well", "the watch is broken", "the watch is not up yet"])
async def test_a_state_that_is_distrusted_is_loaded_anew(proxy: Proxy, meanwhile: str) -> None:
    if meanwhile == "the watch is broken":
        await proxy.disconnect()
    elif meanwhile == "the watch is not up yet":
        await proxy.hang()
        proxy.follower.distrust()
    proxy.machine.zxid += 7
    proxy.follower.distrust()
    proxy.client.reconnect()
    await until(lambda: bool(proxy.replaced))
    await proxy.sees("a", "/1")
    proxy.check()
    assert (proxy.loads, proxy.replaced) == (2, [False])


async def test_a_state_that_is_distrusted_while_it_is_loaded_anew_is_loaded_once_more(proxy: Proxy) -> None:
    """The first one that was loaded is not shown."""
    load_once = proxy.load_anew

    async def load_twice(*, is_wrong: bool) -> Loaded:
        assert not proxy.follower.staleness.right
        loaded = await load_once()
        if proxy.loads == 2:
            proxy.follower.distrust()
        return loaded

    with mock.patch.object(proxy, "load_anew", load_twice):
        proxy.follower.distrust()
        await until(lambda: proxy.loads == 3)
    await proxy.sees("a", "/1")
    proxy.check()


async def _break_by_distrust(proxy: Proxy) -> None:
    proxy.follower.distrust()


async def _break_by_truncation(proxy: Proxy) -> None:
    tree = proxy.tree
    await proxy.disconnect()
    for number in range(3):
        await tree.create("a", f"/{number}")
        await tree.snapshot("a")
    proxy.client.reconnect()


async def _break_by_a_restore(proxy: Proxy) -> None:
    store = proxy.tree.store
    await proxy.disconnect()
    store.cluster_id += 1
    proxy.client.reconnect()


async def _break_by_old_answers(proxy: Proxy) -> None:
    proxy.order.revision += 100
    proxy.tree.store.break_watches()


@pytest.mark.parametrize(
    "make_a_load_necessary",
    [_break_by_distrust, _break_by_truncation, _break_by_a_restore, _break_by_old_answers],
)
async def test_a_load_that_etcd_refuses_is_tried_again(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, make_a_load_necessary: Callable[[Proxy], Awaitable[None]]
) -> None:
    """As by a role that was revoked: the proxy lets its lease end, and serves again with the role."""
    monkeypatch.setattr(reads, "_OLD_PAUSE", 0)
    refused = 0

    async def refuse(*, is_wrong: bool) -> Loaded:
        nonlocal refused
        refused += 1
        raise EtcdRefused(RefusalKind.PERMISSION, "etcdserver: permission denied")

    with mock.patch.object(proxy, "load_anew", refuse):
        await make_a_load_necessary(proxy)
        await until(lambda: refused >= 3)
    assert not proxy.task.done()
    await until(lambda: bool(proxy.replaced))
    await proxy.sees("b", "/new")


async def test_a_watch_that_hangs_is_replaced_by_another(proxy: Proxy) -> None:
    await proxy.hang()
    await proxy.tree.create("a", "/1")
    proxy.follower.renew()
    proxy.follower.renew()
    await until(proxy.has("/1"))
    await until(proxy.follower.live.is_set)
    await proxy.sees("a", "/2")
    proxy.check()
    assert proxy.loads == 1


async def test_a_watch_that_lived_is_replaced_at_once_but_not_again_and_again(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_RETRY", 300)
    proxy.now += 300
    proxy.tree.store.break_watches()
    await proxy.sees("a", "/1")
    await until(proxy.follower.live.is_set)
    proxy.now += 299
    proxy.tree.store.break_watches()
    await until(lambda: not proxy.follower.live.is_set())
    await proxy.tree.create("a", "/2")
    for _ in range(100):
        await asyncio.sleep(0)
    assert "/2" not in proxy.machine.tree.nodes


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (None, "was deleted from etcd"),
        (lambda record: encode_record(record._replace(complete=False)), "an import into /t has begun"),
        (lambda record: b"{}", "can no longer be served"),
    ],
)
async def test_the_end_of_a_tree_ends_the_stream(
    proxy: Proxy, changed: Callable[[TreeRecord], bytes] | None, words: str
) -> None:
    tree, key = proxy.tree, proxy.tree.keys.tree
    tree.change(Delete(key) if changed is None else Put(key, changed(await tree.record())))
    with pytest.raises(TreeNotServable, match=words):
        await proxy.task
