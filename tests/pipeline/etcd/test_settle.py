"""A snapshot that holds all: the newest one where no log lies behind it, else one that is written now."""

import asyncio

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from pipeline.etcd import read
from pipeline.etcd.read import NotReadable, Survey
from pipeline.etcd.settle import settled
from pipeline.table import SessionRow
from proxy.etcd.model import Put, Txn
from proxy.log import start
from schema.entry import EntryWriter, Kind, encode_open
from schema.fixed import fixed_nodes
from schema.keys import Keyspace
from tests.pipeline.etcd.rows import load_tree, row, rows

KEYS = Keyspace("/t")


@pytest.fixture
def etcd() -> FakeEtcdClient:
    return FakeEtcdClient(FakeEtcd())


async def append(etcd: FakeEtcdClient, number: int, session: int) -> None:
    """An entry in which a session begins."""
    writer = EntryWriter()
    writer.add(Kind.OPEN, session, 0, (), encode_open(4000, bytes(16)))
    await etcd.txn(Txn((), (Put(KEYS.entry("p", number), writer.finish(1, 0, 0, 0)),)), 1)


async def paths(etcd: FakeEtcdClient, seen: Survey) -> set[str]:
    numbers = range(seen.snapshot.node_pages)
    return {row.path for row in rows([batch async for batch in read.pages(etcd, KEYS, seen, numbers)])}


async def test_an_import_is_read_as_it_is(etcd: FakeEtcdClient) -> None:
    record = await load_tree(etcd, KEYS, [row("/"), row("/a")])
    before = etcd.store.snapshot()
    seen = await settled(etcd, KEYS)
    assert etcd.store.snapshot() == before
    assert seen.snapshot == record.current
    assert await paths(etcd, seen) == {"/a", *fixed_nodes()}


async def test_what_the_log_says_is_there(etcd: FakeEtcdClient) -> None:
    await load_tree(etcd, KEYS, [row("/"), row("/a")], [SessionRow(5, 1000)])
    await append(etcd, 1, 7)
    await append(etcd, 2, 8)
    seen = await settled(etcd, KEYS)
    assert await paths(etcd, seen) == {"/a", *fixed_nodes()}
    assert [session.row for session in await read.sessions(etcd, KEYS, seen)] == [
        SessionRow(5, 1000),
        SessionRow(7, 4000),
        SessionRow(8, 4000),
    ]
    assert seen.last_zxid == 101
    assert seen.proxies == 0
    assert not [pair for pair in etcd.store.snapshot() if pair.key.startswith(KEYS.proxies)]
    assert await settled(etcd, KEYS) == seen._replace(revision=etcd.store.revision)


async def test_a_tree_without_any_snapshot(etcd: FakeEtcdClient) -> None:
    await start.load(etcd, KEYS)
    await append(etcd, 1, 7)
    seen = await settled(etcd, KEYS)
    assert await paths(etcd, seen) == set(fixed_nodes())
    assert seen.snapshot.sessions == 1


async def test_a_tree_that_is_served_goes_on_meanwhile(etcd: FakeEtcdClient) -> None:
    await load_tree(etcd, KEYS, [row("/")])
    await etcd.txn(Txn((), (Put(KEYS.proxy("p"), b""),)), 1)
    await append(etcd, 1, 1)
    txn = etcd.txn
    number = 1

    async def busy(request: Txn, timeout: float) -> object:
        nonlocal number
        if number < 40:
            number += 1
            writer = EntryWriter()
            writer.add(Kind.OPEN, number, 0, (), encode_open(4000, bytes(16)))
            put = Put(KEYS.entry("p", number), writer.finish(1, 0, 0, 0))
            await txn(Txn((), (put,)), 1)
        return await txn(request, timeout)

    etcd.txn = busy  # type: ignore[method-assign, assignment]
    seen = await settled(etcd, KEYS)
    assert seen.proxies == 1
    # Those that were there when it was asked are; whichever came later, none is missing before the last.
    found = sorted(session.row.id for session in await read.sessions(etcd, KEYS, seen))
    assert found == list(range(1, len(found) + 1))
    assert len(found) >= 1


async def test_what_cannot_be_replayed_is_told(etcd: FakeEtcdClient) -> None:
    await load_tree(etcd, KEYS, [row("/")])
    await etcd.txn(Txn((), (Put(KEYS.entry("p", 1), b"no entry"),)), 1)
    with pytest.raises(NotReadable, match="entry 1 of p cannot be read"):
        await settled(etcd, KEYS)
    await asyncio.sleep(0)
    with pytest.raises(NotReadable, match="there is no tree"):
        await settled(etcd, Keyspace("/other"))
