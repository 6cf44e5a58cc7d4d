"""One task's part of a load: what it puts, in Txns that a stock etcd takes; lost and refused requests."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient, Fate
from pipeline.batches import batch_of
from pipeline.etcd import requests
from pipeline.etcd.columns import hashes
from pipeline.etcd.limits import Limits
from pipeline.etcd.load import begin
from pipeline.etcd.requests import LoadRefused, commit, count
from pipeline.etcd.writer import write
from proxy.etcd.model import Compare, EtcdRefused, EtcdUnknown, Put, RefusalKind, Txn, TxnResult, txn_size
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


GUARD = Compare(b"/t/tree", 7)


@given(
    st.lists(st.integers(0, 2000), max_size=300),
    st.integers(2, 40),
    st.integers(4000, 20_000),
)
def test_every_put_once_in_order_and_within_the_limits(sizes: list[int], most: int, room: int) -> None:
    puts = [Put(b"k%d" % number, bytes(size)) for number, size in enumerate(sizes)]
    groups = list(Limits(most, room).groups(puts, GUARD))
    assert [put for group in groups for put in group] == puts
    for group in groups:
        assert 0 < len(group) <= most
        assert txn_size(Txn((GUARD,), group)) <= room


def test_a_put_that_fits_nowhere_goes_alone() -> None:
    puts = [Put(b"a", b""), Put(b"b", bytes(5000)), Put(b"c", b"")]
    assert list(Limits(10, 1000).groups(puts, GUARD)) == [[put] for put in puts]


PUT = Txn((), (Put(b"/t/a", b""),))


async def test_a_lost_answer_is_asked_for_again() -> None:
    etcd = FakeEtcdClient(FakeEtcd())
    etcd.fates.extend([Fate.LOST, Fate.ANSWER_LOST])
    assert (await commit(etcd, PUT)).succeeded
    assert await count(etcd, b"/t/", b"/t0") == 1


async def test_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_PATIENCE", 0.0)
    etcd = FakeEtcdClient(FakeEtcd())
    etcd.fates.extend([Fate.LOST] * 5)
    with pytest.raises(EtcdUnknown):
        await commit(etcd, PUT)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(RefusalKind.TOO_LARGE, "--max-request-bytes"), (RefusalKind.TOO_MANY_OPS, "--max-txn-ops")],
)
async def test_a_refusal_names_the_option(kind: RefusalKind, reason: str) -> None:
    class Refusing(FakeEtcdClient):
        async def txn(self, txn: Txn, timeout: float) -> TxnResult:
            raise EtcdRefused(kind, "refused")

    with pytest.raises(LoadRefused, match=reason):
        await commit(Refusing(FakeEtcd()), PUT)
