"""A seal: where a tree ends, for those who append, register, start, follow, and seal again."""

import asyncio

import pytest

from lab.fakes.etcd import FakeEtcdClient, Fate
from proxy.etcd.model import EtcdNoSpace, Put, Txn, TxnResult
from proxy.log.load.start import load_as_of
from proxy.log.record import TreeNotServable, TreeSealed
from proxy.log.seal import seal
from proxy.log.status import Offers
from schema.record import Seal, encode_record
from tests.proxy.log.proxies import Proxy, until
from tests.proxy.log.trees import Tree

THERE = Seal("http://10.0.0.5:2379", "/moved", 0xBEEF, 1_763_898_000_000)
ELSEWHERE = THERE._replace(prefix="/other")


async def made() -> Tree:
    tree = await Tree().make("a", "b")
    await tree.create("a", "/before")
    return tree


async def test_the_record_says_where_to_and_no_proxy_can_append_any_more() -> None:
    tree = await made()
    position = await seal(tree.etcd, tree.keys, THERE)
    record, pair = await tree.record(), await tree.pair()
    assert (record.seal, record.complete, pair.mod_revision) == (THERE, False, position)
    for incarnation in "ab":
        with pytest.raises(AssertionError):
            await tree.create(incarnation, "/behind")
    assert await tree.names(tree.keys.proxies, tree.keys.proxies_end) == []


async def test_sealing_again_answers_the_same_unless_it_is_for_another_place() -> None:
    tree = await made()
    position = await seal(tree.etcd, tree.keys, THERE)
    later = THERE._replace(etcd="http://10.0.0.6:2379", time=THERE.time + 5)
    assert await seal(tree.etcd, tree.keys, later) == position
    assert (await tree.record()).seal == THERE
    with pytest.raises(TreeSealed, match=r"moved to the prefix /moved of the etcd at http://10.0.0.5:2379"):
        await seal(tree.etcd, tree.keys, ELSEWHERE)


async def test_a_tree_is_sealed_while_no_proxy_lives() -> None:
    tree = await made()
    await tree.go("a")
    await tree.go("b")
    assert await seal(tree.etcd, tree.keys, THERE) == tree.store.revision


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.ANSWER_LOST])
async def test_an_unknown_outcome_is_settled_by_trying_again(fate: Fate) -> None:
    tree = await made()
    assert isinstance(tree.etcd, FakeEtcdClient)

    class Failing(FakeEtcdClient):
        async def txn(self, txn: Txn, timeout: float) -> TxnResult:
            if txn.compares and not self.fates and not self.tried:
                self.tried = True
                self.fates.append(fate)
            return await super().txn(txn, timeout)

        tried = False

    etcd = Failing(tree.store)
    position = await seal(etcd, tree.keys, THERE)
    assert etcd.tried
    assert (await tree.pair()).mod_revision == position


async def test_a_record_that_is_put_at_the_same_moment_is_kept() -> None:
    tree = await made()

    class Racing(FakeEtcdClient):
        raced = False

        async def txn(self, txn: Txn, timeout: float) -> TxnResult:
            if txn.compares and not self.raced:
                self.raced = True
                await tree.snapshot("a")
            return await super().txn(txn, timeout)

    await seal(Racing(tree.store), tree.keys, THERE)
    record = await tree.record()
    assert record.current is not None
    assert record.seal == THERE


async def test_only_a_complete_tree_is_sealed() -> None:
    tree = Tree()
    with pytest.raises(TreeNotServable, match="there is no tree under /t"):
        await seal(tree.etcd, tree.keys, THERE)
    await tree.make()
    tree.change(Put(tree.keys.tree, encode_record((await tree.record())._replace(complete=False))))
    with pytest.raises(TreeNotServable, match="the import into /t is not complete"):
        await seal(tree.etcd, tree.keys, THERE)


async def test_a_full_etcd_is_sealed() -> None:
    tree = await made()
    tree.store.quota = 1
    with pytest.raises(EtcdNoSpace):
        await tree.create("a", "/more")
    await seal(tree.etcd, tree.keys, THERE)
    assert (await tree.record()).seal == THERE


async def test_no_start_serves_a_sealed_tree_but_it_can_be_read_up_to_the_seal() -> None:
    tree = await made()
    position = await seal(tree.etcd, tree.keys, THERE)
    with pytest.raises(TreeSealed) as caught:
        await load_as_of(tree.etcd, tree.keys)
    assert (caught.value.position, caught.value.seal) == (position, THERE)
    # A proxy of a release that knows no seals registers, and appends, before it sees the record.
    await tree.come("old")
    await tree.create("old", "/behind")
    loaded = await load_as_of(tree.etcd, tree.keys, even_sealed=True)
    assert "/before" in loaded.machine.tree.nodes
    assert "/behind" not in loaded.machine.tree.nodes
    assert (loaded.caught.revision, loaded.caught.proxies) == (position, [])


async def test_a_proxy_applies_what_lies_before_the_seal_and_nothing_else() -> None:
    tree = await Tree().make()
    proxy = await Proxy(tree.etcd).start()
    await tree.come("a")
    await until(lambda: len(proxy.log.living) == 2)
    tree.store.break_watches()
    await tree.create("a", "/before")
    position = await seal(tree.etcd, tree.keys, THERE)
    await tree.come("old")
    await tree.create("old", "/behind")
    failure = await proxy.log.failed()
    assert isinstance(failure, TreeSealed)
    assert failure.position == position
    assert "/before" in proxy.log.machine.tree.nodes
    assert "/behind" not in proxy.log.machine.tree.nodes
    assert proxy.log.contact().offers is Offers.NOTHING
    assert proxy.stops
    # It has seen the sealed record: so it does not register again, although it has seen the newest one.
    await asyncio.sleep(0.5)
    living = await tree.names(tree.keys.proxies, tree.keys.proxies_end)
    assert living == [tree.keys.proxy("old")]
    await proxy.stop()
