"""A command's own incarnation lives as long as the command, whatever its length."""

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient, Fate
from proxy.ctl import visitor as module
from proxy.ctl.visitor import visit
from proxy.etcd.model import EtcdUnknown
from schema.record import decode_proxy
from tests.proxy.log.proxies import until
from tests.proxy.log.trees import Tree


async def test_it_comes_and_goes() -> None:
    tree = Tree()
    async with visit(tree.etcd, tree.keys, (1, 2), "me") as visitor:
        (kv,) = tree.store.snapshot()
        assert kv.key == tree.keys.proxy(visitor.incarnation)
        assert kv.create_revision == visitor.revision
        assert decode_proxy(kv.value).levels == (1, 2)
        assert tree.keys.parse(kv.key).incarnation == visitor.incarnation
    assert tree.store.snapshot() == []


async def test_an_answer_that_got_lost() -> None:
    client = FakeEtcdClient(FakeEtcd())
    client.fates.append(Fate.ANSWER_LOST)
    async with visit(client, Tree(client).keys, (1,), "") as visitor:
        assert client.store.snapshot()[0].create_revision == visitor.revision


async def test_it_goes_when_the_command_fails() -> None:
    tree = Tree()
    with pytest.raises(EtcdUnknown, match="so"):
        async with visit(tree.etcd, tree.keys, (1,), ""):
            raise EtcdUnknown("so")
    assert tree.store.snapshot() == []


async def test_its_lease_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LEASE", 2)
    tree = Tree()
    store = tree.store
    async with visit(tree.etcd, tree.keys, (1,), "") as visitor:
        (lease,) = store.lease_ids
        for _ in range(3):
            store.advance(1.5)
            await until(lambda: store.seconds_left(lease) == 2)
        (kv,) = store.snapshot()
        assert kv.key == tree.keys.proxy(visitor.incarnation)
