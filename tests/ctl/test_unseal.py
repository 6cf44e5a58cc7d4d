"""Calling a move off: refused where two trees might take writes, safe against a follower that finishes."""

import asyncio
import time
from argparse import Namespace
from dataclasses import replace

import pytest

from cli.output import CommandFailed
from ctl import history, program
from ctl.unseal import unseal
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.etcd.access import Access
from proxy.etcd.model import Compare, EtcdNoSpace, Put, Txn, TxnResult
from proxy.log.load.start import load_as_of
from proxy.log.record import TreeSealed
from proxy.log.seal import seal
from proxy.options.etcd import DEFAULTS
from schema.record import Seal, encode_record
from schema.zxids import epoch_at
from tests.proxy.log.trees import Tree


class Move:
    """A tree that was sealed, and one that follows it."""

    def __init__(self) -> None:
        self.source = Tree()
        store = FakeEtcd()
        store.cluster_id = 0xBEEF
        self.target = Tree(FakeEtcdClient(store), "/moved")
        self.where = Seal("http://new:2379", "/moved", 0xBEEF, 1)

    async def made(self) -> "Move":
        await self.source.make("a")
        await self.source.create("a", "/before")
        await self.target.make()
        record = await self.target.record()
        self.follows = encode_record(record._replace(complete=False))
        self.target.change(Put(self.target.keys.tree, self.follows))
        await seal(self.source.etcd, self.source.keys, self.where)
        return self

    async def unseal(self, there: FakeEtcdClient | None = None) -> None:
        await unseal(self.source.etcd, self.source.keys, there or self.target.etcd)

    async def finish(self, fence: int) -> bool:
        """A follower completes the tree, if nothing has moved its fence since."""
        record = await self.target.record()
        put = Put(self.target.keys.tree, encode_record(record._replace(complete=True)))
        txn = Txn((Compare(self.target.keys.tree, fence),), (put,))
        return (await self.target.etcd.txn(txn, 1)).succeeded


async def test_a_tree_that_is_unsealed_is_served_again_and_its_follower_cannot_finish() -> None:
    move = await Move().made()
    fence = (await move.target.pair()).mod_revision
    await move.unseal()
    record = await move.source.record()
    assert (record.complete, record.seal) == (True, None)
    assert "/before" in (await load_as_of(move.source.etcd, move.source.keys)).machine.tree.nodes
    assert not await move.finish(fence)
    assert (await move.target.pair()).value == move.follows, "another follower continues there"
    with pytest.raises(CommandFailed, match="the tree under /t is not sealed"):
        await move.unseal()


async def test_a_tree_that_is_complete_elsewhere_stays_sealed() -> None:
    move = await Move().made()
    assert await move.finish((await move.target.pair()).mod_revision)
    with pytest.raises(CommandFailed, match="is complete, so it may have been served"):
        await move.unseal()
    assert (await move.source.record()).seal == move.where


async def test_a_tree_that_has_moved_on_from_there_stays_sealed() -> None:
    move = await Move().made()
    assert await move.finish((await move.target.pair()).mod_revision)
    await seal(move.target.etcd, move.target.keys, move.where._replace(prefix="/third"))
    with pytest.raises(CommandFailed, match="is complete, so it may have been served"):
        await move.unseal()


async def test_another_etcd_at_these_addresses_says_nothing() -> None:
    move = await Move().made()
    with pytest.raises(CommandFailed, match="is not the one that the tree was moved to"):
        await move.unseal(FakeEtcdClient(FakeEtcd()))


async def test_an_etcd_that_does_not_answer_is_asked_unless_forced() -> None:
    move = await Move().made()
    assert isinstance(move.target.etcd, FakeEtcdClient)
    move.target.etcd.disconnect()
    with pytest.raises(CommandFailed, match="it is unknown whether the tree is served under /moved"):
        await move.unseal()
    await unseal(move.source.etcd, move.source.keys, None)
    assert (await move.source.record()).complete


async def test_by_force_zxids_go_on_above_those_that_clients_may_have_seen_elsewhere() -> None:
    move = await Move().made()
    last = move.source.ran().zxid
    now = epoch_at(time.time())
    await unseal(move.source.etcd, move.source.keys, None)
    machine = (await load_as_of(move.source.etcd, move.source.keys)).machine
    assert machine.zxid > now
    assert machine.undone == (range(last + 1, machine.zxid),), "sessions of clients that have seen it end"


async def test_by_force_in_a_full_etcd_zxids_go_on_where_they_were() -> None:
    move = await Move().made()

    class Full(FakeEtcdClient):
        async def lease_grant(self, lease_id: int, ttl: int, timeout: float = 5.0) -> int:
            raise EtcdNoSpace("etcdserver: mvcc: database space exceeded")

    with pytest.raises(CommandFailed, match=r"space exceeded\. Restart the clients that have used the tree"):
        await unseal(Full(move.source.store), move.source.keys, None)
    assert (await move.source.record()).complete


@pytest.mark.parametrize(("address", "user"), [("http://new:2379", ""), ("http://old-2:2379", "root")])
def test_no_password_goes_to_an_address_that_only_the_tree_names(
    address: str, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A seal with the address of a host of one's own needs only the right to write the tree's keys."""
    move = Move()
    move.where = move.where._replace(etcd=address)
    asyncio.run(move.made())
    used: list[Access] = []

    def client(access: Access, _tls: object = None) -> object:
        used.append(access)
        return (move.source if len(used) == 1 else move.target).etcd

    monkeypatch.setattr(Access, "client", client)
    access = Access(("http://old-1:2379", "http://old-2:2379"), replace(DEFAULTS, user="root", password="pw"))
    given = Namespace(prefix="/t", timeout=1, force=False, moved_to=None)
    program.program_of("unseal").run(program.Tree(given, None, access), given)
    assert [(each.etcd, each.options.user) for each in used] == [(access.etcd, "root"), ((address,), user)]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_follower_that_takes_over_meanwhile_has_the_tree_sealed_again(when: str) -> None:
    move = await Move().made()

    class Racing(FakeEtcdClient):
        async def txn(self, txn: Txn, timeout: float) -> TxnResult:
            if txn.compares and when == "before":
                move.target.change(Put(move.target.keys.tree, move.follows))
            answer = await super().txn(txn, timeout)
            if txn.compares and when == "after":
                move.target.change(Put(move.target.keys.tree, move.follows))
            return answer

    there = Racing(move.target.store)
    words = "changes at the same moment" if when == "before" else "a follower has begun to work on /moved"
    with pytest.raises(CommandFailed, match=words):
        await move.unseal(there)
    assert (await move.source.record()).seal == move.where


async def test_a_link_that_breaks_after_the_seal_is_gone_has_the_tree_sealed_again() -> None:
    """A follower may have begun to complete the tree meanwhile."""
    move = await Move().made()

    class Breaking(FakeEtcdClient):
        async def txn(self, txn: Txn, timeout: float) -> TxnResult:
            answer = await super().txn(txn, timeout)
            if txn.compares:
                fence = move.target.change(Put(move.target.keys.tree, move.follows)).revision
                assert await move.finish(fence)
                self.disconnect()
            return answer

    with pytest.raises(CommandFailed, match=r"it is unknown whether .* The tree is sealed again"):
        await move.unseal(Breaking(move.target.store))
    assert (await move.source.record()).seal == move.where


async def test_a_move_to_an_etcd_that_is_full_is_called_off() -> None:
    move = await Move().made()

    class Full(FakeEtcdClient):
        async def txn(self, txn: Txn, timeout: float) -> TxnResult:
            if any(isinstance(op, Put) for op in txn.success):
                raise EtcdNoSpace("etcdserver: mvcc: database space exceeded")
            return await super().txn(txn, timeout)

    await move.unseal(Full(move.target.store))
    assert (await move.source.record()).complete


async def test_the_list_of_proxies_and_what_is_read_say_where_the_tree_has_gone() -> None:
    move = await Move().made()
    shown = (await history.proxies(move.source.etcd, move.source.keys)).lines
    assert "the tree under /t was moved to the prefix /moved of the etcd at http://new:2379" in shown[-1]
    assert "position" in shown[-1]
    assert (await history.tail(move.source.etcd, move.source.keys, 5)).lines
    with pytest.raises(TreeSealed):
        await load_as_of(move.source.etcd, move.source.keys)
