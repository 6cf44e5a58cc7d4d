"""Rows of a replay between two marks, wherever the nearest snapshot is."""

from typing import Any

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from pipeline.etcd import replayed as replays
from pipeline.etcd.log import DataLost, earliest, latest, whole
from pipeline.etcd.record import NotReadable
from pipeline.etcd.replayed import KeptState, replayed
from proxy.etcd.model import Put, Txn
from proxy.log.follow.catch_up import Loaded
from proxy.log.load.start import load_as_of
from tests.pipeline.etcd.rows import FIXED, load_tree, row
from tests.proxy.log.trees import Ran, Tree


async def test_the_whole_log_and_its_parts(tree: Tree) -> None:
    start, middle = await whole(tree.etcd, tree.keys)
    await tree.fill("a", "x", 5)
    await tree.create("b", "/x")
    _, end = await whole(tree.etcd, tree.keys)
    rows = await replayed(tree.etcd, tree.keys, start, end)
    assert [(row.operation, row.path, row.result) for row in rows] == [
        ("createSession", None, "OK"),
        ("createSession", None, "OK"),
        ("create", "/x", "OK"),
        *(("create", f"/x/{number}", "OK") for number in range(5)),
        ("create", "/x", "NODEEXISTS"),
    ]
    assert [row.zxid for row in rows] == list(range(1, 10))
    assert [row.zxid for row in rows] == sorted(row.zxid or 0 for row in rows)
    first = await replayed(tree.etcd, tree.keys, start, middle)
    assert first + await replayed(tree.etcd, tree.keys, middle, end) == rows


async def test_from_the_snapshot_before(tree: Tree) -> None:
    for name in ("x", "y"):
        await tree.fill("a", name, 3)
        await tree.snapshot("b")
    await tree.fill("a", "z", 3)
    at = (await whole(tree.etcd, tree.keys))[1]
    await tree.snapshot("b")
    assert isinstance(tree.etcd, FakeEtcdClient)
    zxid = Ran(tree.etcd.store).follow().zxid
    await tree.create("b", "/last")
    start, end = await whole(tree.etcd, tree.keys)
    assert start.entries
    rows = await replayed(tree.etcd, tree.keys, start, end)
    assert [row.path for row in rows] == ["/z", "/z/0", "/z/1", "/z/2", "/last"]
    assert rows[-1].zxid == zxid + 1
    (last,) = await replayed(tree.etcd, tree.keys, at, end)
    assert last == rows[-1]


async def test_what_is_truncated(tree: Tree) -> None:
    start, middle = await whole(tree.etcd, tree.keys)
    await tree.create("a", "/one")
    await tree.snapshot("b")
    await tree.create("a", "/two")
    await tree.snapshot("b")
    end = await latest(tree.etcd, tree.keys, await earliest(tree.etcd, tree.keys))
    with pytest.raises(DataLost, match="failOnDataLoss=false"):
        await replayed(tree.etcd, tree.keys, middle, end)
    (row,) = await replayed(tree.etcd, tree.keys, middle, end, lossy=True)
    assert row.path == "/two"
    with pytest.raises(DataLost, match="reaches back to position"):
        await replayed(tree.etcd, tree.keys, start, end)


async def test_behind_an_import() -> None:
    etcd = FakeEtcdClient(FakeEtcd())
    tree = Tree(etcd)
    await load_tree(etcd, tree.keys, [row("/"), *FIXED, row("/imported")])
    await tree.come("a")
    await tree.create("a", "/imported", "/new")
    start, end = await whole(etcd, tree.keys)
    rows = await replayed(etcd, tree.keys, start, end)
    assert [(each.path, each.result) for each in rows[1:]] == [("/imported", "NODEEXISTS"), ("/new", "OK")]


async def test_an_entry_that_nobody_can_read(tree: Tree) -> None:
    await tree.create("a", "/one")
    await tree.etcd.txn(Txn((), (Put(tree.keys.entry("a", 2), b"broken"),)), 5)
    start, end = await whole(tree.etcd, tree.keys)
    with pytest.raises(NotReadable, match="entry 2 of a cannot be read"):
        await replayed(tree.etcd, tree.keys, start, end)


async def test_a_replay_that_goes_on_loads_nothing(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are those of a replay from a snapshot, whichever proxy wrote, whatever was truncated."""
    assert isinstance(tree.etcd, FakeEtcdClient)
    loads = 0

    async def counted(*arguments: Any, **options: Any) -> Loaded:
        nonlocal loads
        loads += 1
        return await load_as_of(*arguments, **options)

    monkeypatch.setattr(replays, "load_as_of", counted)
    kept = KeptState()
    start = await earliest(tree.etcd, tree.keys)
    expected = []
    for number in range(6):
        await tree.fill("ab"[number % 2], f"n{number}", 3)
        if number in (2, 4):
            await tree.snapshot("b")
        if number == 3:
            await tree.come("c")
        end = await latest(tree.etcd, tree.keys, start)
        expected.append(await replayed(tree.etcd, tree.keys, start, end))
        before = loads
        assert await replayed(tree.etcd, tree.keys, start, end, kept=kept) == expected[-1]
        assert loads - before == (number == 0)
        start = end
    assert [len(rows) for rows in expected] == [6, 4, 4, 5, 4, 4]


async def test_a_replay_that_cannot_go_on_loads(tree: Tree) -> None:
    """A batch that is repeated, part of one, another etcd, and a log that was truncated."""
    assert isinstance(tree.etcd, FakeEtcdClient)
    start = await earliest(tree.etcd, tree.keys)
    await tree.create("a", "/one", "/two")
    await tree.create("a", "/three")
    middle = await latest(tree.etcd, tree.keys, start, 3)
    end = await latest(tree.etcd, tree.keys, middle)
    kept = KeptState()
    for since, upto in ((start, end), (start, middle), (middle, end), (middle, end), (start, end)):
        found = await replayed(tree.etcd, tree.keys, since, upto, kept=kept)
        assert found == await replayed(tree.etcd, tree.keys, since, upto)
        assert found[-1].path == ("/three" if upto is end else "/two")
    tree.etcd.store.cluster_id += 1
    assert kept.take(tree.keys, tree.etcd.store.cluster_id, end) is None
    tree.etcd.store.cluster_id -= 1
    await replayed(tree.etcd, tree.keys, start, end, kept=kept)
    for path in ("/x", "/y", "/z"):
        await tree.create("a", path)
        await tree.snapshot("b")
    now = await latest(tree.etcd, tree.keys, await earliest(tree.etcd, tree.keys))
    with pytest.raises(DataLost):
        await replayed(tree.etcd, tree.keys, end, now, kept=kept)
