"""Reading a snapshot gives each znode once, and says when there is none, or more than it."""

import pytest

from lab.fakes.etcd import FakeEtcdClient
from pipeline.etcd import read
from pipeline.etcd.load import begin
from pipeline.etcd.read import TreeAt, has_log_behind
from pipeline.etcd.record import NotReadable, record_of
from pipeline.table import SessionRow
from proxy.etcd.model import Delete, Put, Txn
from proxy.log.load import start
from schema.entry import encode_void
from schema.keys import Keyspace
from schema.record import SnapshotRef
from tests.pipeline.etcd.rows import FIXED, load_tree, row, rows

KEYS = Keyspace("/t")
ROWS = [row("/"), *FIXED, *(row(f"/n{number:03}", data=b"%d" % number) for number in range(300))]


async def loaded(etcd: FakeEtcdClient) -> TreeAt:
    record = await load_tree(etcd, KEYS, ROWS, [SessionRow(7, 4000)])
    assert record.current is not None
    return TreeAt(etcd.store.revision, record.current, 0, None)


async def append(etcd: FakeEtcdClient, number: int) -> None:
    await etcd.txn(Txn((), (Put(KEYS.entry("p", number), encode_void(1)),)), 1)


async def test_a_snapshot_is_read_as_of_its_revision_and_after_compaction_as_it_is(
    etcd: FakeEtcdClient,
) -> None:
    seen = await loaded(etcd)
    assert seen.snapshot is not None
    key = KEYS.node_page(seen.snapshot.name, 0)
    await etcd.txn(Txn((), (Delete(key),)), 1)
    assert rows([batch async for batch in read.pages(etcd, KEYS, seen, [0])]) == sorted(ROWS)
    etcd.store.compact(etcd.store.revision)
    with pytest.raises(NotReadable, match="etcd was compacted"):
        rows([batch async for batch in read.pages(etcd, KEYS, seen, [0])])
    again = await loaded_over(etcd)
    etcd.store.compact(etcd.store.revision)
    await append(etcd, 1)
    etcd.store.compact(etcd.store.revision)
    assert rows([batch async for batch in read.pages(etcd, KEYS, again, [0])]) == sorted(ROWS)


async def loaded_over(etcd: FakeEtcdClient) -> TreeAt:
    await begin(etcd, KEYS, overwrite=True)
    return await loaded(etcd)


async def test_half_a_tree_is_not_read(etcd: FakeEtcdClient) -> None:
    with pytest.raises(NotReadable, match="there is no tree"):
        await record_of(etcd, KEYS)
    await begin(etcd, KEYS)
    with pytest.raises(NotReadable, match="not complete"):
        await record_of(etcd, KEYS)


async def test_a_log_behind_the_snapshot_is_seen(etcd: FakeEtcdClient) -> None:
    seen = await loaded(etcd)
    assert not await has_log_behind(etcd, KEYS, seen.snapshot)
    await append(etcd, 1)
    assert await has_log_behind(etcd, KEYS, seen.snapshot)
    assert seen.snapshot is not None
    gone: SnapshotRef = seen.snapshot._replace(name="gone")
    assert await has_log_behind(etcd, KEYS, gone)


async def test_entries_that_the_snapshot_holds_are_none_behind_it(etcd: FakeEtcdClient) -> None:
    await start.load_to_serve(etcd, KEYS)  # makes a tree
    await append(etcd, 1)
    assert await has_log_behind(etcd, KEYS, None)


async def test_sessions_tell_whether_zookeeper_would_know_their_password(etcd: FakeEtcdClient) -> None:
    seen = await loaded(etcd)
    assert await read.sessions(etcd, KEYS, seen) == [read.Session(SessionRow(7, 4000), derived=True)]
