"""Reading the log above what is applied: pages, gaps, incarnations that nobody knew of, truncation."""

from collections.abc import Iterator
from unittest import mock

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.etcd.model import Delete, Get, Put, Txn
from proxy.log import catch_up as module
from proxy.log import truncation
from proxy.log.catch_up import Truncated, catch_up, entries_after
from proxy.log.record import TreeNotServable, look
from schema.record import encode_record
from tests.proxy.log.trees import Ran, Tree


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with (
        mock.patch.object(module, "_FIRST_WINDOW", 2),
        mock.patch.object(module, "_LARGEST_WINDOW", 5),
        mock.patch.object(truncation, "_PAUSE", 0),
    ):
        yield


async def make() -> tuple[FakeEtcd, Tree]:
    store = FakeEtcd()
    tree = await Tree(FakeEtcdClient(store)).make()
    await tree.come("a", "a.b", "b", "c")
    return store, tree


async def numbers(tree: Tree, applied: dict[str, int]) -> list[tuple[str, int]]:
    entries = await entries_after(tree.etcd, tree.keys, applied, await look(tree.etcd, tree.keys))
    assert [kv.mod_revision for kv in entries] == sorted(kv.mod_revision for kv in entries)
    return sorted(
        (parsed.incarnation, parsed.number) for parsed in (tree.keys.parse(kv.key) for kv in entries)
    )


async def test_everything_above_what_is_applied() -> None:
    store, tree = await make()
    for count in range(23):
        await tree.create("a", f"/a{count}")
        await tree.create("c", f"/c{count}")
    await tree.send("a", [], number=30)
    await tree.send("a", [], number=99)
    await tree.go("c")
    every = [("a", number) for number in (*range(1, 25), 30, 99)] + [("a.b", 1), ("b", 1)]
    every += [("c", number) for number in range(1, 25)]
    assert await numbers(tree, {}) == every
    assert await numbers(tree, {"a": 24, "c": 20, "gone": 5}) == [
        ("a", 30),
        ("a", 99),
        ("a.b", 1),
        ("b", 1),
        *[("c", number) for number in range(21, 25)],
    ]
    store.txn(Txn((), (Put(tree.keys.log + b"what is this", b""), Put(tree.keys.log + b"z/1", b""))))
    assert await numbers(tree, {}) == every


async def test_what_comes_later_is_left_out() -> None:
    _, tree = await make()
    found = await look(tree.etcd, tree.keys)
    for count in range(10):
        await tree.create("a", f"/{count}")
    assert len(await entries_after(tree.etcd, tree.keys, {}, found)) == 4
    with mock.patch.object(module, "_LATER_IN_A_ROW", 4):
        assert len(await entries_after(tree.etcd, tree.keys, {}, found)) == 4


async def test_no_revision_is_pinned() -> None:
    """etcd may compact between any two requests."""
    store, tree = await make()
    for count in range(20):
        await tree.create("a", f"/{count}")
    client = FakeEtcdClient(store)
    inner = client.range

    async def compacting(get: Get, timeout: float) -> object:
        store.txn(Txn((), (Put(b"/other", b""),)))
        store.compact(store.revision)
        return await inner(get, timeout)

    with mock.patch.object(client, "range", compacting):
        caught = await catch_up(client, tree.keys, {}, 0)
    assert len(caught.entries) == 24


async def test_truncation_is_noticed_only_where_it_matters() -> None:
    store, tree = await make()
    await tree.fill("a", "x", 5)
    first = Ran(store).follow()
    position = store.revision
    await tree.snapshot("a")
    # The same state as of later: other keys of etcd move its revision.
    store.txn(Txn((), (Put(b"/other", b""),)))
    await tree.create("a", "/1")
    await tree.snapshot("a")
    caught = await catch_up(tree.etcd, tree.keys, first.applied, position)
    assert len(caught.entries) == 1
    caught = await catch_up(tree.etcd, tree.keys, first.applied, 1)
    assert len(caught.entries) == 1, "the previous snapshot is newer than revision 1, but holds no more"
    await tree.create("a", "/2")
    await tree.snapshot("a")
    with pytest.raises(Truncated, match="of a are truncated"):
        await catch_up(tree.etcd, tree.keys, first.applied, position)
    record = await tree.record()
    assert record.previous is not None
    store.txn(Txn((), (Delete(tree.keys.state_page(record.previous.name)),)))
    with pytest.raises(Truncated, match="newer than what is applied"):
        await catch_up(tree.etcd, tree.keys, first.applied, position)


async def test_a_truncation_meanwhile_is_noticed() -> None:
    store, tree = await make()
    await tree.fill("a", "x", 5)
    client = FakeEtcdClient(store)
    inner = client.range
    once = [True]

    async def overtaken(get: Get, timeout: float) -> object:
        if once:
            once.clear()
            for path in ("/1", "/2"):
                await tree.snapshot("a")
                await tree.create("a", path)
        return await inner(get, timeout)

    with mock.patch.object(client, "range", overtaken), pytest.raises(Truncated):
        await catch_up(client, tree.keys, {}, 0)


async def test_a_tree_that_is_gone_is_not_caught_up_with() -> None:
    store, tree = await make()
    record = await tree.record()
    store.txn(Txn((), (Put(tree.keys.tree, encode_record(record._replace(complete=False))),)))
    with pytest.raises(TreeNotServable, match="an import into"):
        await catch_up(tree.etcd, tree.keys, {}, 0)
    store.txn(Txn((), (Delete(tree.keys.tree),)))
    with pytest.raises(TreeNotServable, match="was deleted"):
        await catch_up(tree.etcd, tree.keys, {}, 0)
