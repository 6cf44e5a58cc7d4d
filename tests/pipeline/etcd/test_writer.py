"""One task's part of a load: what it puts, and what it tells."""

import asyncio

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from pipeline.batches import batch_of
from pipeline.etcd.columns import hashes
from pipeline.etcd.limits import Limits
from pipeline.etcd.load import begin
from pipeline.etcd.requests import LoadRefused
from pipeline.etcd.writer import write
from proxy.etcd.model import Txn
from schema.keys import Keyspace
from schema.pages import decode_nodes
from tests.pipeline.etcd.rows import FIXED, batches, load_part, row

KEYS = Keyspace("/t")


async def test_a_part_tells_what_was_written() -> None:
    etcd = FakeEtcdClient(FakeEtcd())
    begun = await begin(etcd, KEYS)
    rows = [row("/b", pzxid=77), row("/a"), FIXED[1], row("/e", owner=5), row("/ttl", owner=-(1 << 56) + 9)]
    part = await load_part(etcd, KEYS, begun, rows)
    assert (part.nodes, part.max_zxid) == (5, 77)
    assert set(part.fixed) == {FIXED[1].path}
    assert set(part.owners) == {5}
    assert part.digest == sum(hashes(batch_of(rows)))
    (number,) = part.numbers
    pages = {pair.key: pair.value for pair in etcd.store.snapshot()}
    page = pages[KEYS.node_page(begun.name, number)]
    assert part.bytes == len(page)
    assert [path for path, _ in decode_nodes(page)] == sorted(row.path for row in rows)


async def test_nothing_to_write() -> None:
    etcd = FakeEtcdClient(FakeEtcd())
    part = await load_part(etcd, KEYS, await begin(etcd, KEYS), [])
    assert (part.numbers, part.nodes) == ((), 0)


async def test_few_txns_are_in_flight_at_once() -> None:
    etcd = FakeEtcdClient(FakeEtcd())
    begun = await begin(etcd, KEYS)
    flying = most = 0
    txn = etcd.txn

    async def slow(request: Txn, timeout: float) -> object:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        for _ in range(20):
            await asyncio.sleep(0)
        flying -= 1
        return await txn(request, timeout)

    etcd.txn = slow  # type: ignore[method-assign, assignment]
    rows = [row(f"/n{number:03}", data=bytes(100_000)) for number in range(200)]
    part = await write(etcd, KEYS, begun, batches(rows, 10), Limits(max_txn_ops=1))
    assert most == 4
    assert sorted(part.numbers) == list(range(len(part.numbers)))
    assert len(part.numbers) >= 10


async def test_the_first_error_comes_by_itself() -> None:
    etcd = FakeEtcdClient(FakeEtcd())
    begun = await begin(etcd, KEYS)
    await begin(etcd, KEYS)
    rows = [row(f"/n{number:03}", data=bytes(1000)) for number in range(200)]
    with pytest.raises(LoadRefused):
        await write(etcd, KEYS, begun, batches(rows, 10), Limits(max_txn_ops=1))
