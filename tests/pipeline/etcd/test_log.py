"""Marks in the log: exact, whatever overtakes, leaves, or is truncated."""

from unittest import mock

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from pipeline.etcd import log
from pipeline.etcd.log import DataLost, Mark, Share, between, earliest, entries, latest, whole
from pipeline.etcd.record import NotReadable
from proxy.etcd.model import Put, Txn
from schema.keys import Keyspace
from tests.proxy.log.trees import Tree


async def read(tree: Tree, start: Mark, end: Mark, *, lossy: bool = False) -> list[tuple[str, int]]:
    found = []
    for shares in between(start, end, 3):
        assert sum(share.last - share.first + 1 for share in shares) <= 3
        for share in shares:
            async for number, pair in entries(tree.etcd, tree.keys, share, lossy=lossy):
                assert pair.key == tree.keys.entry(share.incarnation, number)
                found.append((share.incarnation, number))
    return found


async def test_all_entries_once(tree: Tree) -> None:
    start = await earliest(tree.etcd, tree.keys)
    assert start == Mark(0, 0, {})
    await tree.create("a", "/1", "/2")
    first = await latest(tree.etcd, tree.keys, start)
    assert await read(tree, start, first) == [("a", 1), ("a", 2), ("b", 1)]
    await tree.fill("b", "x", 9)
    await tree.come("c")
    second = await latest(tree.etcd, tree.keys, first)
    assert await read(tree, first, second) == [*(("b", number) for number in range(2, 12)), ("c", 1)]
    assert second.entries == 14
    assert await latest(tree.etcd, tree.keys, second) == second
    assert Mark.from_offset(second.to_offset()) == second


async def test_what_waits_for_its_predecessor_comes_with_it(tree: Tree) -> None:
    start = (await whole(tree.etcd, tree.keys))[1]
    await tree.send("a", [], number=4)
    await tree.send("a", [], number=3)
    waiting = await latest(tree.etcd, tree.keys, start)
    assert await read(tree, start, waiting) == []
    await tree.send("a", [], number=2)
    # Three entries take effect at one moment, however few are wanted.
    one = await latest(tree.etcd, tree.keys, waiting, 1)
    assert await read(tree, waiting, one) == [("a", 2), ("a", 3), ("a", 4)]


async def test_a_limit_is_a_prefix_of_what_takes_effect(tree: Tree) -> None:
    start = (await whole(tree.etcd, tree.keys))[1]
    for proxy in "abba":
        await tree.create(proxy, f"/{tree.numbers[proxy]}{proxy}")
    found = []
    at = start
    for _ in range(2):
        end = await latest(tree.etcd, tree.keys, at, 2)
        found.append(await read(tree, at, end))
        at = end
    assert found == [[("a", 2), ("b", 2)], [("a", 3), ("b", 3)]]
    assert at.entries == start.entries + 4


async def test_what_is_truncated_unread_is_an_error(tree: Tree) -> None:
    _, start = await whole(tree.etcd, tree.keys)
    await tree.fill("a", "x", 10)
    seen = await latest(tree.etcd, tree.keys, start)
    await tree.snapshot("b")
    await tree.fill("a", "y", 10)
    assert (await latest(tree.etcd, tree.keys, start)).entries == seen.entries + 11
    await tree.snapshot("b")
    assert (await earliest(tree.etcd, tree.keys)).entries == seen.entries
    with pytest.raises(
        DataLost, match=r"11 entries behind position \d+ were truncated .* failOnDataLoss=false"
    ):
        await latest(tree.etcd, tree.keys, start)
    with pytest.raises(DataLost, match="the entries 2 to 4 of a were truncated"):
        await read(tree, start, seen)
    assert await read(tree, start, seen, lossy=True) == []
    # Who had read them misses nothing.
    assert await read(tree, seen, await latest(tree.etcd, tree.keys, seen)) == [
        ("a", number) for number in range(13, 24)
    ]


async def test_who_stood_idle_misses_nothing(tree: Tree) -> None:
    start = (await whole(tree.etcd, tree.keys))[1]
    # Others use the same etcd.
    await tree.etcd.txn(Txn((), (Put(b"/others", b""),)), 5)
    await tree.snapshot("a")
    await tree.create("b", "/new")
    await tree.snapshot("a")
    assert (await earliest(tree.etcd, tree.keys)).revision > start.revision
    assert await read(tree, start, await latest(tree.etcd, tree.keys, start)) == [("b", 2)]


async def test_entries_of_a_proxy_that_is_forgotten_count_as_lost(tree: Tree) -> None:
    start = (await whole(tree.etcd, tree.keys))[1]
    gone = start._replace(entries=start.entries - 1, applied={"a": 1})
    await tree.snapshot("a")
    await tree.create("a", "/new")
    await tree.snapshot("a")
    with pytest.raises(DataLost, match="1 entries behind"):
        await latest(tree.etcd, tree.keys, gone)


async def test_another_etcd_is_no_continuation(tree: Tree) -> None:
    start = (await whole(tree.etcd, tree.keys))[1]
    with pytest.raises(DataLost, match="restored from a backup, or is another cluster"):
        await latest(tree.etcd, tree.keys, start._replace(revision=1 << 40))


async def test_no_tree() -> None:
    etcd = FakeEtcdClient(FakeEtcd())
    with pytest.raises(NotReadable, match="there is no tree under /none"):
        await whole(etcd, Keyspace("/none"))


async def test_a_truncation_without_end(tree: Tree) -> None:
    with (
        mock.patch.object(log, "latest", side_effect=DataLost("again")),
        pytest.raises(NotReadable, match="truncated faster"),
    ):
        await whole(tree.etcd, tree.keys)


def test_shares() -> None:
    start, end = Mark(1, 5, {"a": 2, "gone": 3}), Mark(9, 13, {"a": 7, "b": 3})
    assert between(start, end, 4) == [[Share("a", 3, 6)], [Share("a", 7, 7), Share("b", 1, 3)]]
    assert between(end, end, 4) == []
