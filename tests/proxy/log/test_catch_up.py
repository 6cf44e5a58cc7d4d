"""Reading the log above what is applied: pages, gaps, unknown incarnations, truncation."""

import asyncio
from unittest import mock

import pytest

from lab.fakes.etcd import FakeEtcdClient
from proxy.etcd.model import Delete, EtcdUnknown, Get, Put
from proxy.log.follow import catch_up as module
from proxy.log.follow.catch_up import Truncated, entries_after, read_missed
from proxy.log.record import TreeNotServable, look
from schema.keys import LAST_NUMBER
from schema.record import encode_record
from tests.proxy.log.trees import Tree


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_WINDOW", 2)
    monkeypatch.setattr(module, "_LARGEST_WINDOW", 5)


async def make() -> Tree:
    return await Tree().make("a", "a.b", "b", "c")


async def numbers(tree: Tree, applied: dict[str, int]) -> list[tuple[str, int]]:
    entries = await entries_after(tree.etcd, tree.keys, applied, await look(tree.etcd, tree.keys))
    assert [kv.mod_revision for kv in entries] == sorted(kv.mod_revision for kv in entries)
    return sorted(
        (parsed.incarnation, parsed.number) for parsed in (tree.keys.parse(kv.key) for kv in entries)
    )


async def test_everything_above_what_is_applied() -> None:
    tree = await make()
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
    tree.change(Put(tree.keys.log + b"what is this", b""), Put(tree.keys.log + b"z/1", b""))
    assert await numbers(tree, {}) == every


async def test_an_entry_with_the_last_number_is_read_as_any_other() -> None:
    """The range behind it ended before it, and was read for ever: no proxy could start."""
    tree = await make()
    await tree.send("a", [], number=LAST_NUMBER)
    await tree.send("b", [], number=LAST_NUMBER - 1)
    every = [("a", 1), ("a", LAST_NUMBER), ("a.b", 1), ("b", 1), ("b", LAST_NUMBER - 1), ("c", 1)]
    assert await asyncio.wait_for(numbers(tree, {}), 5) == every


async def test_what_comes_later_is_left_out() -> None:
    tree = await make()
    found = await look(tree.etcd, tree.keys)
    for count in range(10):
        await tree.create("a", f"/{count}")
    assert len(await entries_after(tree.etcd, tree.keys, {}, found)) == 4
    with mock.patch.object(module, "_LATER_IN_A_ROW", 4):
        assert len(await entries_after(tree.etcd, tree.keys, {}, found)) == 4


async def test_no_revision_is_pinned() -> None:
    """etcd may compact between any two requests."""
    tree = await make()
    for count in range(20):
        await tree.create("a", f"/{count}")
    client = FakeEtcdClient(tree.store)
    inner = client.range

    async def compacting(get: Get, timeout: float) -> object:
        tree.change(Put(b"/other", b""))
        tree.store.compact(tree.store.revision)
        return await inner(get, timeout)

    with mock.patch.object(client, "range", compacting):
        caught = await read_missed(client, tree.keys, {}, 0)
    assert len(caught.entries) == 24


async def test_truncation_is_noticed_only_where_it_matters() -> None:
    tree = await make()
    await tree.fill("a", "x", 5)
    first = tree.ran()
    position = tree.store.revision
    await tree.snapshot("a")
    # The same state as of later: other keys of etcd move its revision.
    tree.change(Put(b"/other", b""))
    await tree.create("a", "/1")
    await tree.snapshot("a")
    caught = await read_missed(tree.etcd, tree.keys, first.applied, position)
    assert len(caught.entries) == 1
    caught = await read_missed(tree.etcd, tree.keys, first.applied, 1)
    assert len(caught.entries) == 1, "the previous snapshot is newer than revision 1, but holds no more"
    await tree.create("a", "/2")
    await tree.snapshot("a")
    with pytest.raises(Truncated, match="of a are truncated"):
        await read_missed(tree.etcd, tree.keys, first.applied, position)
    record = await tree.record()
    assert record.previous is not None
    tree.change(Delete(tree.keys.state_page(record.previous.name)))
    with pytest.raises(Truncated, match="newer than what is applied"):
        await read_missed(tree.etcd, tree.keys, first.applied, position)


async def test_a_truncation_meanwhile_is_noticed() -> None:
    tree = await make()
    await tree.fill("a", "x", 5)
    client = FakeEtcdClient(tree.store)
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
        await read_missed(client, tree.keys, {}, 0)


async def test_a_tree_that_is_gone_is_not_caught_up_with() -> None:
    tree = await make()
    record = await tree.record()
    tree.change(Put(tree.keys.tree, encode_record(record._replace(complete=False))))
    with pytest.raises(TreeNotServable, match="an import into"):
        await read_missed(tree.etcd, tree.keys, {}, 0)
    tree.change(Delete(tree.keys.tree))
    with pytest.raises(TreeNotServable, match="was deleted"):
        await read_missed(tree.etcd, tree.keys, {}, 0)


async def test_a_read_that_fails_does_not_mark_the_reader_as_cancelled() -> None:
    """Such a mark makes a later timeout of the same task end it, with Python 3.11.2."""
    tree = await make()
    client = FakeEtcdClient(tree.store)
    inner = client.range
    reads = 0

    async def failing(get: Get, timeout: float) -> object:
        nonlocal reads
        reads += 1
        if reads == 3:
            raise EtcdUnknown("ordered by the test")
        return await inner(get, timeout)

    with mock.patch.object(client, "range", failing), pytest.raises(EtcdUnknown, match="ordered by the test"):
        await read_missed(client, tree.keys, {}, 0)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
