"""Loading the mirror and keeping it level, on a fake etcd that breaks off, compacts and is restored."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from unittest import mock

import pytest

from codec.packets import STAT
from proxy import feed as feed_module
from proxy.draft import SessionRecord
from proxy.etcd.model import Delete, EtcdRefused, EtcdUnknown, Get, Put, RangeResult, RefusalKind, Txn
from proxy.feed import Feed, TreeNotServable
from proxy.mirror import Mirror
from proxy.tasks import Tasks
from schema.values import OPEN_ACL, BadValue, TreeRecord, decode_tree, encode_node, encode_tree
from tests.fakes.etcd import FakeEtcd, FakeEtcdClient
from tests.proxy.world import KEYS, RecordingWatches


@pytest.fixture(autouse=True)
def _soon() -> object:
    """Retries come at once."""
    with mock.patch.object(feed_module, "_RETRY", 0.001):
        yield


class Fed:
    """A mirror with its feed."""

    def __init__(self, store: FakeEtcd) -> None:
        self.store = store
        self.client = FakeEtcdClient(store)
        self.watches = RecordingWatches()
        self.mirror = Mirror(KEYS, self.watches, self)
        self.feed = Feed(self.client, KEYS, self.mirror)
        self.tasks = Tasks()

    def session_changed(self, session_id: int, record: SessionRecord | None) -> None:
        pass

    def lost(self, number: str, incarnation: str, paths: Sequence[str]) -> None:
        pass

    def marked(self, marker: bytes, value: bytes) -> None:
        pass

    def applied(self, revision: int) -> None:
        pass

    async def load(self) -> None:
        await self.feed.load(lambda _count: None)

    async def follow(self) -> "asyncio.Task[None]":
        task = self.tasks.start(self.feed.run(), "follow")
        await self.feed.live.wait()
        return task

    def has(self, path: str) -> bool:
        return path in self.mirror.tree.nodes


@asynccontextmanager
async def following(store: FakeEtcd) -> AsyncIterator[Fed]:
    """A mirror that is loaded and followed."""
    fed = Fed(store)
    await fed.load()
    await fed.follow()
    try:
        yield fed
    finally:
        await fed.tasks.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - whatever the condition is about has no event
            await asyncio.sleep(0.001)


def put(store: FakeEtcd, *paths: str) -> None:
    """Put nodes, as another proxy would."""
    value = encode_node(b"data", OPEN_ACL, 0, 1, 1, 0, 0)
    store.txn(Txn((), [Put(KEYS.node(path), value) for path in paths]))


async def test_an_empty_prefix_gets_the_nodes_that_every_zookeeper_has() -> None:
    fed = Fed(FakeEtcd())
    await fed.load()
    nodes = fed.mirror.tree.nodes
    assert set(nodes) == {"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"}
    assert {path: STAT.unpack(node.stat())[9] for path, node in nodes.items()} == {
        "/": 1,
        "/zookeeper": 2,
        "/zookeeper/quota": 0,
        "/zookeeper/config": 0,
    }
    assert all((node.czxid, node.mzxid, node.pzxid) == (0, 0, 0) for node in nodes.values())
    again = Fed(fed.store)
    await again.load()
    assert again.mirror.revision == fed.mirror.revision


async def test_what_etcd_has_and_what_comes_later_is_shown() -> None:
    store = FakeEtcd()
    async with following(store) as fed:
        put(store, "/a")
        await until(lambda: fed.has("/a"))
        async with following(store) as other:
            assert other.has("/a")
            assert other.watches.fired == []
            put(store, "/b")
            await until(lambda: fed.has("/b") and other.has("/b"))


async def test_a_load_that_breaks_off_leaves_nothing_behind() -> None:
    store = FakeEtcd()
    await Fed(store).load()
    put(store, *(f"/n{number}" for number in range(10)))
    fed = Fed(store)
    ranges = 0

    async def break_off(get: Get, timeout: float) -> RangeResult:
        nonlocal ranges
        if get.range_end:
            ranges += 1
            if ranges == 4:
                store.txn(Txn((), (Delete(KEYS.node("/n0")),)))
                raise EtcdUnknown("broke off")
        return await FakeEtcdClient.range(fed.client, get, timeout)

    with mock.patch.object(fed.client, "range", break_off):
        await fed.load()
    assert ranges > 4
    assert not fed.has("/n0")
    assert fed.has("/n9")


async def test_a_load_whose_revision_is_compacted_begins_anew() -> None:
    store = FakeEtcd()
    await Fed(store).load()
    put(store, *(f"/n{number}" for number in range(10)))
    fed = Fed(store)
    compacted = False

    async def compact(get: Get, timeout: float) -> RangeResult:
        nonlocal compacted
        if get.range_end and not compacted:
            compacted = True
            put(store, "/late")
            store.compact(store.revision)
        return await FakeEtcdClient.range(fed.client, get, timeout)

    with mock.patch.object(fed.client, "range", compact):
        await fed.load()
    assert fed.has("/late")


async def test_a_load_that_is_denied_fails() -> None:
    fed = Fed(FakeEtcd())
    denied = EtcdRefused(RefusalKind.PERMISSION, "permission denied")
    with mock.patch.object(fed.client, "range", side_effect=denied), pytest.raises(EtcdRefused):
        await fed.load()


@pytest.mark.parametrize("version", ["3.4.23", "3.5.18"])
async def test_a_broken_stream_misses_nothing(version: str) -> None:
    store = FakeEtcd()
    async with following(store) as fed:
        status = await fed.client.status()
        with mock.patch.object(fed.client, "status", return_value=status._replace(version=version)):
            put(store, "/a")
            await until(lambda: fed.has("/a"))
            fed.client.disconnect()
            put(store, "/b")
            store.txn(Txn((), (Delete(KEYS.node("/a")),)))
            await until(lambda: not fed.feed.live.is_set())
            fed.watches.fired.clear()
            fed.client.reconnect()
            await until(lambda: fed.has("/b") and not fed.has("/a"))
            assert sorted(fed.watches.fired) == [(1, "/b"), (2, "/a")]
            assert fed.feed.reloads == (version == "3.4.23")
            put(store, "/c")
            await until(lambda: fed.has("/c"))


async def test_a_compacted_stream_loads_again() -> None:
    store = FakeEtcd()
    async with following(store) as fed:
        status = await fed.client.status()
        with mock.patch.object(fed.client, "status", return_value=status._replace(version="3.5.21")):
            fed.client.disconnect()
            put(store, "/a")
            put(store, "/b")
            store.compact(store.revision)
            fed.client.reconnect()
            await until(lambda: fed.has("/b"))
            assert fed.feed.reloads == 1


async def _restored(store: FakeEtcd, *, cluster_id: int) -> FakeEtcd:
    """The store as of a backup of now."""
    backup = FakeEtcd()
    backup.cluster_id = cluster_id
    backup.txn(Txn((), [Put(kv.key, kv.value) for kv in store.snapshot()]))
    return backup


@pytest.mark.parametrize("cluster_id", [1, 2])
@pytest.mark.parametrize("version", ["3.4.23", "3.5.21"])
async def test_an_etcd_restored_from_a_backup_is_noticed_and_zxids_go_on(
    cluster_id: int, version: str
) -> None:
    store = FakeEtcd()
    async with following(store) as fed:
        put(store, "/kept")
        for _ in range(20):
            put(store, "/lost")
        await until(lambda: fed.mirror.revision == store.revision)
        seen = fed.mirror.zxid
        backup = await _restored(store, cluster_id=cluster_id)
        backup.txn(Txn((), (Delete(KEYS.node("/lost")),)))
        assert backup.revision < store.revision
        fed.client.disconnect()
        fed.client.store = backup
        status = (await FakeEtcdClient(backup).status())._replace(version=version)
        with mock.patch.object(fed.client, "status", return_value=status):
            fed.client.reconnect()
            await until(lambda: not fed.has("/lost"))
            assert fed.has("/kept")
            assert fed.mirror.zxid > seen
            put(backup, "/new")
            await until(lambda: fed.has("/new"))
            assert fed.mirror.tree.nodes["/new"].czxid == fed.mirror.zxid > seen
            record = next(kv for kv in backup.snapshot() if kv.key == KEYS.tree)
            assert decode_tree(record.value).cluster_id == cluster_id


async def test_a_tree_whose_load_is_not_complete_is_not_served() -> None:
    store = FakeEtcd()
    store.txn(Txn((), (Put(KEYS.tree, encode_tree(TreeRecord(False, ((0, 0),), 1))),)))
    with pytest.raises(TreeNotServable, match="not complete"):
        await Fed(store).load()


async def test_a_tree_of_another_version_is_not_served() -> None:
    store = FakeEtcd()
    store.txn(Txn((), (Put(KEYS.tree, b'{"version": 2}'),)))
    with pytest.raises(BadValue, match="another version"):
        await Fed(store).load()


async def test_a_tree_that_vanishes_ends_the_feed() -> None:
    store = FakeEtcd()
    fed = Fed(store)
    await fed.load()
    task = await fed.follow()
    fed.client.disconnect()
    store.txn(Txn((), (Delete(KEYS.start, KEYS.end),)))
    fed.client.reconnect()
    with pytest.raises(TreeNotServable, match="is gone"):
        await task
    await fed.tasks.close()


async def test_a_load_tells_how_far_it_is() -> None:
    store = FakeEtcd()
    await Fed(store).load()
    put(store, *(f"/n{number}" for number in range(10)))
    told: list[int] = []
    with mock.patch("proxy.feed.time.monotonic", side_effect=range(1000, 100_000, 2)):
        await Fed(store).feed.load(told.append)
    assert told == sorted(told)
    assert len(told) > 2


@pytest.mark.parametrize(
    ("version", "safe"),
    [
        ("3.4.35", False),
        ("3.4.36", True),
        ("3.5.17", False),
        ("3.5.18", True),
        ("3.6.0", True),
        ("3.5.18-rc.1", True),
        ("4.0.0", True),
        ("3.3.99", False),
        ("strange", False),
        ("", False),
    ],
)
def test_which_etcds_may_resume_a_watch(version: str, safe: bool) -> None:
    assert feed_module._resumes_safely(version) is safe
