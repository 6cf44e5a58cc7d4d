"""A command's own incarnation lives as long as the command, whatever its length."""

import pytest

from ctl import visitor as module
from ctl.visitor import visit
from lab.fakes.etcd import FakeEtcdClient, Fate
from proxy.etcd.model import EtcdUnknown, Txn, TxnResult
from proxy.log.record import TreeSealed
from proxy.log.seal import seal
from schema.record import Seal, decode_proxy
from tests.proxy.log.proxies import until
from tests.proxy.log.trees import Tree


async def test_it_comes_and_goes() -> None:
    tree = await Tree().make()
    async with visit(tree.etcd, tree.keys, (1, 2), "me") as visitor:
        kv, _record = tree.store.snapshot()
        assert kv.key == tree.keys.proxy(visitor.incarnation)
        assert kv.create_revision == visitor.revision
        assert decode_proxy(kv.value).levels == (1, 2)
        assert tree.keys.parse(kv.key).incarnation == visitor.incarnation
    assert [kv.key for kv in tree.store.snapshot()] == [tree.keys.tree]


async def test_an_answer_that_got_lost() -> None:
    tree = await Tree().make()

    class Losing(FakeEtcdClient):
        async def txn(self, txn: Txn, timeout: float) -> TxnResult:
            if txn.compares and not self.lost:
                self.lost = True
                self.fates.append(Fate.ANSWER_LOST)
            return await super().txn(txn, timeout)

        lost = False

    client = Losing(tree.store)
    async with visit(client, tree.keys, (1,), "") as visitor:
        assert client.lost
        assert tree.store.snapshot()[0].create_revision == visitor.revision


async def test_it_goes_when_the_command_fails() -> None:
    tree = await Tree().make()
    with pytest.raises(EtcdUnknown, match="so"):
        async with visit(tree.etcd, tree.keys, (1,), ""):
            raise EtcdUnknown("so")
    assert [kv.key for kv in tree.store.snapshot()] == [tree.keys.tree]


async def test_its_lease_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LEASE", 2)
    tree = await Tree().make()
    store = tree.store
    async with visit(tree.etcd, tree.keys, (1,), "") as visitor:
        (lease,) = store.lease_ids
        for _ in range(3):
            store.advance(1.5)
            await until(lambda: store.seconds_left(lease) == 2)
        kv, _record = store.snapshot()
        assert kv.key == tree.keys.proxy(visitor.incarnation)


async def test_it_does_not_come_to_a_tree_that_is_sealed_at_the_same_moment() -> None:
    tree = await Tree().make()
    there = Seal("http://10.0.0.5:2379", "/moved", 1, 2)

    class Sealed(FakeEtcdClient):
        async def txn(self, txn: Txn, timeout: float) -> TxnResult:
            if txn.compares:
                await seal(tree.etcd, tree.keys, there)
            return await super().txn(txn, timeout)

    with pytest.raises(TreeSealed):
        async with visit(Sealed(tree.store), tree.keys, (1,), ""):
            pass
    assert [kv.key for kv in tree.store.snapshot()] == [tree.keys.tree]
