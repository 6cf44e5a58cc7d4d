"""Raising a tree's level, and the proxies that stand in its way."""

import pytest

from cli.output import CommandFailed
from ctl.levels import raise_level
from lab.fakes.etcd import FakeEtcdClient
from proxy.etcd.model import Put, Txn, TxnResult
from proxy.log.load.start import load_to_serve
from proxy.log.record import TreeNotServable
from schema.entry import Kind, decode_entry
from tests.proxy.log.trees import Tree


async def make(*, levels: tuple[int, ...] = (1, 2), snapshot: bool = True) -> Tree:
    tree = await Tree().make(level=1)
    await tree.come("a", "b", levels=levels)
    if snapshot:
        await tree.snapshot("a")
    return tree


async def test_a_level_is_raised_when_all_speak_it() -> None:
    tree = await make()
    assert await raise_level(tree.etcd, tree.keys, 2, levels=(1, 2))
    assert (await tree.record()).level == 2
    (kv,) = [kv for kv in tree.store.snapshot() if kv.key.startswith(tree.keys.log + b"ctl.")]
    (request,) = decode_entry(kv.value).requests
    assert request.kind == Kind.LEVEL
    assert kv.mod_revision == (await tree.pair()).mod_revision, "entry and record change at once"
    assert await tree.names(tree.keys.proxies, tree.keys.proxies_end) == [
        tree.keys.proxy("a"),
        tree.keys.proxy("b"),
    ], "the command's own key is gone"
    assert not await raise_level(tree.etcd, tree.keys, 2, levels=(1, 2))
    with pytest.raises(TreeNotServable, match="Start a newer release, one that applies level 2"):
        await load_to_serve(tree.etcd, tree.keys, levels=(1,))
    with pytest.raises(CommandFailed, match="never lowered"):
        await raise_level(tree.etcd, tree.keys, 1, levels=(1, 2))


async def test_what_stands_in_the_way_is_named() -> None:
    tree = await make()
    with pytest.raises(CommandFailed, match="applies level 1, not 2"):
        await raise_level(tree.etcd, tree.keys, 2, levels=(1,))
    await tree.come("old", levels=(1,))
    with pytest.raises(
        CommandFailed, match=r"the proxy old \(release test\) does not apply level 2. Upgrade"
    ):
        await raise_level(tree.etcd, tree.keys, 2, levels=(1, 2))
    await tree.go("old")
    tree.change(Put(tree.keys.proxy("odd"), b"?"))
    with pytest.raises(CommandFailed, match="the levels that the proxy odd applies are unknown"):
        await raise_level(tree.etcd, tree.keys, 2, levels=(1, 2))
    bare = await make(snapshot=False)
    with pytest.raises(CommandFailed, match="has no snapshot yet"):
        await raise_level(bare.etcd, bare.keys, 2, levels=(1, 2))
    assert (await tree.record()).level == (await bare.record()).level == 1


async def test_a_proxy_that_comes_at_the_last_moment_is_noticed() -> None:
    tree = await make()

    class Late(FakeEtcdClient):
        async def txn(self, txn: Txn, timeout: float) -> TxnResult:
            if any(isinstance(op, Put) and op.key == tree.keys.tree for op in txn.success):
                await tree.come("late", levels=(1,))
            return await super().txn(txn, timeout)

    with pytest.raises(CommandFailed, match="Run the command again"):
        await raise_level(Late(tree.store), tree.keys, 2, levels=(1, 2))
    assert (await tree.record()).level == 1
