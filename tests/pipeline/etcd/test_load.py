"""The load: unserved until it is finished, fenced against writers of another one, to be repeated at will."""

import asyncio
from collections.abc import Sequence

import pytest

from pipeline.etcd.limits import Limits
from pipeline.etcd.load import Fence, LoadRefused, begin, check_count, finish, first_zxid, look, write
from pipeline.etcd.records import puts_of
from pipeline.table import ZnodeRow
from proxy.etcd.model import Get, Put, Txn
from proxy.feed import Feed, TreeNotServable
from proxy.mirror import Mirror
from proxy.watches import WatchTable
from schema.keys import Keyspace
from schema.values import decode_tree, zxid_of
from tests.fakes.etcd import FakeEtcd, FakeEtcdClient, Fate

KEYS = Keyspace("/t")
LIMITS = Limits(max_txn_ops=6)
ROWS = [ZnodeRow(path, b"x", None, 5, 6, 7, 1, 2, 0, 1, 0, 0) for path in ("/", "/a", "/a/b", "/a/c", "/d")]
PUTS = [put for row in ROWS for put in puts_of(KEYS, row)]


class _Nobody:
    def session_changed(self, session_id: int, record: object) -> None:
        """Not asked."""

    def lost(self, number: str, incarnation: str, paths: Sequence[str]) -> None:
        """Not asked."""

    def marked(self, marker: bytes, value: bytes) -> None:
        """Not asked."""

    def applied(self, revision: int) -> None:
        """Not asked."""


async def served(etcd: FakeEtcdClient) -> Mirror:
    """What a server that starts now would serve. Raises TreeNotServable."""
    mirror = Mirror(KEYS, WatchTable(), _Nobody())
    await Feed(etcd, KEYS, mirror).load(lambda count: None)
    return mirror


@pytest.fixture
def etcd() -> FakeEtcdClient:
    return FakeEtcdClient(FakeEtcd())


async def test_a_tree_is_served_once_it_is_finished(etcd: FakeEtcdClient) -> None:
    fence = await begin(etcd, KEYS)
    with pytest.raises(TreeNotServable):
        await served(etcd)
    await write(etcd, KEYS, fence, PUTS, LIMITS)
    with pytest.raises(TreeNotServable):
        await served(etcd)
    await check_count(etcd, KEYS, len(ROWS))
    await finish(etcd, KEYS, fence, 0x700000009)
    mirror = await served(etcd)
    # The fixed nodes that the table lacked are there as well.
    assert set(mirror.tree.nodes) == {row.path for row in ROWS} | {
        "/zookeeper",
        "/zookeeper/quota",
        "/zookeeper/config",
    }
    node = mirror.tree.nodes["/a"]
    assert (node.czxid, node.mzxid, node.pzxid, node.created) == (5, 6, 7, 1)
    assert mirror.zxid > 0x800000000


async def test_a_tree_that_is_there_stays(etcd: FakeEtcdClient) -> None:
    await served(etcd)
    before = etcd.store.snapshot()
    with pytest.raises(LoadRefused, match="overwrite"):
        await begin(etcd, KEYS)
    assert etcd.store.snapshot() == before
    await begin(etcd, KEYS, overwrite=True)
    assert [pair.key for pair in etcd.store.snapshot()] == [KEYS.tree]


async def test_a_tree_that_is_served_stays(etcd: FakeEtcdClient) -> None:
    await etcd.txn(Txn((), (Put(KEYS.proxy("someone"), b""),)), 1)
    for overwrite in (False, True):
        with pytest.raises(LoadRefused, match=r"served by 1|holds 1 keys"):
            await begin(etcd, KEYS, overwrite=overwrite)


async def test_a_server_that_comes_in_between_prevents_publication(etcd: FakeEtcdClient) -> None:
    fence = await begin(etcd, KEYS)
    await etcd.txn(Txn((), (Put(KEYS.proxy("someone"), b""),)), 1)
    with pytest.raises(LoadRefused, match="started on it"):
        await finish(etcd, KEYS, fence, 1)


async def test_an_unfinished_load_is_taken_over_and_its_writers_are_fenced_off(etcd: FakeEtcdClient) -> None:
    first = await begin(etcd, KEYS)
    await write(etcd, KEYS, first, [Put(KEYS.node("/stale"), b"")], LIMITS)
    second = await begin(etcd, KEYS)
    with pytest.raises(LoadRefused, match="another load"):
        await write(etcd, KEYS, first, PUTS, LIMITS)
    with pytest.raises(LoadRefused, match="another load"):
        await finish(etcd, KEYS, first, 1)
    await write(etcd, KEYS, second, PUTS, LIMITS)
    await finish(etcd, KEYS, second, 1)
    with pytest.raises(LoadRefused, match="another load"):
        await write(etcd, KEYS, second, PUTS, LIMITS)  # a task that was thought dead
    assert "/stale" not in (await served(etcd)).tree.nodes


async def test_writing_again_changes_nothing(etcd: FakeEtcdClient) -> None:
    fence = await begin(etcd, KEYS)
    await write(etcd, KEYS, fence, PUTS[:3], LIMITS)
    await write(etcd, KEYS, fence, PUTS, LIMITS)
    once = {pair.key: pair.value for pair in etcd.store.snapshot()}
    await write(etcd, KEYS, fence, PUTS, LIMITS)
    assert {pair.key: pair.value for pair in etcd.store.snapshot()} == once


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.ANSWER_LOST, Fate.LATE])
async def test_lost_answers_anywhere_do_no_harm(etcd: FakeEtcdClient, fate: Fate) -> None:
    etcd.fates.append(fate)
    fence = await begin(etcd, KEYS)
    etcd.fates.append(fate)
    await write(etcd, KEYS, fence, PUTS, LIMITS)
    etcd.fates.extend([fate, *[None] * 4, fate])  # type: ignore[list-item]
    record = await finish(etcd, KEYS, fence, 0x100000000)
    etcd.store.apply_late()
    assert (await look(etcd, KEYS)).record == record
    assert {row.path for row in ROWS} < set((await served(etcd)).tree.nodes)


async def test_a_full_etcd_is_told_and_nothing_served(etcd: FakeEtcdClient) -> None:
    fence = await begin(etcd, KEYS)
    etcd.fates.append(Fate.NO_SPACE)
    with pytest.raises(LoadRefused, match="no space"):
        await write(etcd, KEYS, fence, PUTS, LIMITS)
    with pytest.raises(TreeNotServable):
        await served(etcd)


async def test_a_limit_of_etcd_is_told(etcd: FakeEtcdClient) -> None:
    fence = await begin(etcd, KEYS)
    many = [Put(b"/t/node//%d" % number, b"") for number in range(300)]
    with pytest.raises(LoadRefused, match="max-txn-ops"):
        await write(etcd, KEYS, fence, many, Limits(max_txn_ops=10_000))


async def test_a_path_that_came_twice_is_found(etcd: FakeEtcdClient) -> None:
    fence = await begin(etcd, KEYS)
    await write(etcd, KEYS, fence, PUTS, LIMITS)
    with pytest.raises(LoadRefused, match="more than once"):
        await check_count(etcd, KEYS, len(ROWS) + 1)


def test_zxids_go_on_in_a_new_epoch() -> None:
    assert first_zxid(0) == 0x100000000
    assert first_zxid(0x5000000FF) == 0x600000000
    with pytest.raises(LoadRefused):
        first_zxid((1 << 63) - 1)


async def test_the_record_lifts_every_revision_from_the_fence_on(etcd: FakeEtcdClient) -> None:
    fence = await begin(etcd, KEYS)
    await finish(etcd, KEYS, fence, 0x300000007)
    pair = (await etcd.range(Get(KEYS.tree), 1)).kvs[0]
    offsets = decode_tree(pair.value).offsets
    assert zxid_of(offsets, fence.revision) == 0x400000000
    assert zxid_of(offsets, pair.mod_revision) > 0x400000000


async def test_leftovers_of_any_kind_are_cleared(etcd: FakeEtcdClient) -> None:
    fence = await begin(etcd, KEYS)
    for key in (b"/t/a", b"/t/node", b"/t/node//x", b"/t/session/1", b"/t/trees", b"/t/zzz", b"/t0", b"/s"):
        await etcd.txn(Txn((), (Put(key, b""),)), 1)
    assert await begin(etcd, KEYS) != fence
    assert [pair.key for pair in etcd.store.snapshot()] == [b"/s", b"/t/tree", b"/t0"]


async def test_in_flight_at_once(etcd: FakeEtcdClient) -> None:
    fence = await begin(etcd, KEYS)
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
    await write(etcd, KEYS, fence, [Put(b"/t/node//%d" % number, b"") for number in range(200)], LIMITS, 3)
    assert most == 3
    assert len(etcd.store.snapshot()) == 201


def test_a_fence_compares_the_tree() -> None:
    assert Fence(9, 1).guard(KEYS).mod_revision == 9
