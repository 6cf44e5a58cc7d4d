"""The load: unserved until it is finished, fenced against writers of another one, to be repeated at will."""

import itertools

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient, Fate
from pipeline.etcd.limits import Limits
from pipeline.etcd.load import (
    Load,
    Target,
    begin,
    clear,
    close_gaps,
    close_writes,
    finish,
    guarded,
    intend,
    put,
    refusal,
    take_numbers,
    target_of,
)
from pipeline.etcd.publish import publish
from pipeline.etcd.requests import LoadRefused
from proxy.etcd.model import Get, Put, Txn
from proxy.log.load import start
from proxy.log.record import TreeNotServable
from proxy.log.seal import seal
from proxy.state.level import OF_NEW_TREES
from proxy.state.machine import Machine
from schema.entry import EntryWriter, Kind, encode_epoch
from schema.fixed import fixed_nodes
from schema.keys import Keyspace
from schema.record import Seal, SnapshotRef, TreeRecord
from schema.zxids import next_epoch
from tests.pipeline.etcd.rows import load_part, load_tree, row

KEYS = Keyspace("/t")
THERE = Seal("http://new:2379", "/moved", 1, 2)
ROWS = [row(path) for path in ("/", "/a", "/a/b", "/a/c", "/d")]


async def served(etcd: FakeEtcdClient) -> Machine:
    """What a proxy that starts now would serve. Raises TreeNotServable."""
    return (await start.load_to_serve(etcd, KEYS)).machine


def page(load: Load, number: int) -> bytes:
    return KEYS.node_page(load.name, number)


def keys_in(etcd: FakeEtcdClient) -> list[bytes]:
    return [pair.key for pair in etcd.store.snapshot()]


async def test_a_tree_is_served_once_it_is_finished(etcd: FakeEtcdClient) -> None:
    begun = await begin(etcd, KEYS)
    with pytest.raises(TreeNotServable, match="not complete"):
        await served(etcd)
    part = await load_part(etcd, KEYS, begun, ROWS)
    with pytest.raises(TreeNotServable, match="not complete"):
        await served(etcd)
    record = await publish(etcd, KEYS, begun, [part], 0x800000000, [], Limits())
    machine = await served(etcd)
    # The fixed nodes that the table lacked are there as well.
    assert set(machine.tree.nodes) == {row.path for row in ROWS} | set(fixed_nodes())
    node = machine.tree.nodes["/a"]
    assert (node.czxid, node.mzxid, node.pzxid, node.created) == (5, 6, 7, 1)
    assert (machine.zxid, machine.entries, machine.applied) == (0x800000000, 0, {})
    assert record.current is not None
    assert (record.current.nodes, record.current.digest) == (8, machine.compute_digest())
    assert record.current.bytes == sum(
        len(pair.value) for pair in etcd.store.snapshot() if pair.key != KEYS.tree
    )


async def test_a_tree_that_is_there_stays(etcd: FakeEtcdClient) -> None:
    await served(etcd)
    before = etcd.store.snapshot()
    with pytest.raises(LoadRefused, match="overwrite"):
        await begin(etcd, KEYS)
    assert etcd.store.snapshot() == before
    await seal(etcd, KEYS, THERE)
    with pytest.raises(
        LoadRefused, match="a tree that was moved to the prefix /moved of the etcd at http://new"
    ):
        await begin(etcd, KEYS)
    await begin(etcd, KEYS, overwrite=True)
    assert keys_in(etcd) == [KEYS.tree]


@pytest.mark.parametrize("sealed", [False, True])
async def test_zxids_go_on_above_those_of_the_tree_that_goes(etcd: FakeEtcdClient, *, sealed: bool) -> None:
    """A client refuses a server whose zxid lies below the last one that it saw, for good."""
    old = await begin(etcd, KEYS)
    part = await load_part(etcd, KEYS, old, ROWS)
    await publish(etcd, KEYS, old, [part], next_epoch(0x3_0000_0007), [], Limits())
    requests = EntryWriter()
    requests.add(Kind.EPOCH, 0, 0, (), encode_epoch(77, 0x6_0000_0000))
    requests.add(Kind.CLOSE, 1, 0, (), b"")
    await etcd.txn(Txn((), (Put(KEYS.entry("a" * 16, 1), requests.finish(1, 0, 0, 0)),)), 1)
    if sealed:
        await seal(etcd, KEYS, THERE)
    new = await begin(etcd, KEYS, overwrite=True)
    assert new.zxid >= 0x7_0000_0001
    assert next_epoch(new.zxid) == 0x8_0000_0000
    # The log is gone now: who takes the load over learns it from the record, also after that.
    assert (await begin(etcd, KEYS)).zxid == new.zxid
    fenced = await close_writes(etcd, KEYS, await begin(etcd, KEYS))
    assert fenced.zxid == (await begin(etcd, KEYS)).zxid == new.zxid


async def test_a_damaged_entry_counts_as_an_epoch(etcd: FakeEtcdClient) -> None:
    await served(etcd)
    await etcd.txn(Txn((), (Put(KEYS.entry("a" * 16, 1), b"damaged"),)), 1)
    assert (await begin(etcd, KEYS, overwrite=True)).zxid == 1 << 32


@pytest.mark.parametrize("key", [KEYS.heard, b"/t/snapshot/of/others"])
async def test_keys_without_a_trees_record_go_on_request(etcd: FakeEtcdClient, key: bytes) -> None:
    await etcd.txn(Txn((), (Put(key, b'{"version":1}'),)), 1)
    with pytest.raises(LoadRefused, match="holds 1 keys already: no tree's record"):
        await begin(etcd, KEYS)
    await begin(etcd, KEYS, overwrite=True)
    assert keys_in(etcd) == [KEYS.tree]


async def test_a_tree_that_is_served_stays(etcd: FakeEtcdClient) -> None:
    await etcd.txn(Txn((), (Put(KEYS.proxy("someone"), b""),)), 1)
    for overwrite in (False, True):
        with pytest.raises(LoadRefused, match=r"served by 1|holds 1 keys"):
            await begin(etcd, KEYS, overwrite=overwrite)


async def test_a_server_that_comes_in_between_prevents_publication(etcd: FakeEtcdClient) -> None:
    begun = await begin(etcd, KEYS)
    part = await load_part(etcd, KEYS, begun, ROWS)
    await etcd.txn(Txn((), (Put(KEYS.proxy("someone"), b""),)), 1)
    with pytest.raises(LoadRefused, match="started on it"):
        await publish(etcd, KEYS, begun, [part], 1, [], Limits())


async def test_an_unfinished_load_is_taken_over_and_its_writers_are_fenced_off(etcd: FakeEtcdClient) -> None:
    first = await begin(etcd, KEYS)
    stale = await load_part(etcd, KEYS, first, [row("/"), row("/stale")])
    second = await begin(etcd, KEYS)
    assert keys_in(etcd) == [KEYS.tree]
    with pytest.raises(LoadRefused, match="another load"):
        await load_part(etcd, KEYS, first, ROWS)
    with pytest.raises(LoadRefused, match="another load"):
        await publish(etcd, KEYS, first, [stale], 1, [], Limits())
    part = await load_part(etcd, KEYS, second, ROWS)
    await publish(etcd, KEYS, second, [part], 1, [], Limits())
    with pytest.raises(LoadRefused, match="another load"):
        await load_part(etcd, KEYS, second, ROWS)  # a task that was thought dead
    assert "/stale" not in (await served(etcd)).tree.nodes


async def test_pages_of_tasks_that_do_not_count_go(etcd: FakeEtcdClient) -> None:
    """Spark runs a task again, or twice at the same time, and counts one of them."""
    begun = await begin(etcd, KEYS)
    lost = await load_part(etcd, KEYS, begun, ROWS[:2])
    kept = [await load_part(etcd, KEYS, begun, [row]) for row in ROWS[:3]]
    await load_part(etcd, KEYS, begun, ROWS[2:])
    kept.append(await load_part(etcd, KEYS, begun, ROWS[3:]))
    assert lost.numbers == (0,)
    assert [part.numbers for part in kept] == [(1,), (2,), (3,), (5,)]
    record = await publish(etcd, KEYS, begun, kept, 99, [], Limits())
    assert record.current is not None
    assert record.current.node_pages == 5  # the fixed nodes are one more
    names = [page(begun, number) for number in range(5)]
    assert keys_in(etcd) == sorted([KEYS.tree, KEYS.state_page(begun.name), *names])
    assert set((await served(etcd)).tree.nodes) == {row.path for row in ROWS} | set(fixed_nodes())


async def test_what_a_task_sends_after_the_writes_are_closed_fails(etcd: FakeEtcdClient) -> None:
    begun = await begin(etcd, KEYS)
    closed = await close_writes(etcd, KEYS, begun)
    assert closed.revision > begun.revision
    assert closed.name == begun.name
    with pytest.raises(LoadRefused, match="another load"):
        await take_numbers(etcd, KEYS, begun, 1)
    with pytest.raises(LoadRefused, match="another load"):
        await put(etcd, KEYS, begun, lambda _pause: [Put(page(begun, 0), b"")], Limits())
    assert await take_numbers(etcd, KEYS, closed, 1) == 0


async def test_a_page_that_is_missing_is_found(etcd: FakeEtcdClient) -> None:
    begun = await begin(etcd, KEYS)
    with pytest.raises(LoadRefused, match="1 pages that were written are not in etcd"):
        await close_gaps(etcd, KEYS, begun, [0])
    ref = SnapshotRef(begun.name, 1, begun.writer, 3, 0, 0, 0, 0, 0, 0)
    with pytest.raises(LoadRefused, match="4 pages were written, but 0 are in etcd"):
        await finish(etcd, KEYS, begun, ref)


@pytest.mark.long
@pytest.mark.parametrize("fate", [Fate.LOST, Fate.ANSWER_LOST, Fate.LATE])
async def test_lost_answers_anywhere_do_no_harm(fate: Fate) -> None:
    for lost in itertools.count():
        etcd = FakeEtcdClient(FakeEtcd())
        etcd.fates.extend([*[None] * lost, fate])  # type: ignore[list-item]
        record = await load_tree(etcd, KEYS, ROWS)
        if etcd.fates:
            break  # a load has fewer Txns
        etcd.store.apply_late()
        assert (await target_of(etcd, KEYS)).record == record
        assert {row.path for row in ROWS} < set((await served(etcd)).tree.nodes)
    assert lost > 3


async def test_a_full_etcd_is_told_and_nothing_served(etcd: FakeEtcdClient) -> None:
    begun = await begin(etcd, KEYS)
    etcd.fates.append(Fate.NO_SPACE)
    with pytest.raises(LoadRefused, match="no space left"):
        await load_part(etcd, KEYS, begun, ROWS)
    with pytest.raises(TreeNotServable):
        await served(etcd)


async def test_leftovers_of_any_kind_are_cleared(etcd: FakeEtcdClient) -> None:
    first = await begin(etcd, KEYS)
    leftovers = (KEYS.entry("p", 1), KEYS.log + b"a", first.counter(KEYS), page(first, 1), KEYS.follower)
    others = (b"/s", b"/t/a", b"/t/live", b"/t/live/trees", b"/t/zzz", b"/t0")
    for key in (*leftovers, *others):
        await etcd.txn(Txn((), (Put(key, b""),)), 1)
    second = await begin(etcd, KEYS)
    assert second.name != first.name
    assert keys_in(etcd) == sorted((*others, KEYS.tree))


async def test_a_tree_whose_prefix_lies_below_stays(etcd: FakeEtcdClient) -> None:
    below = Keyspace("/t/below")
    await load_tree(etcd, below, ROWS)
    await etcd.txn(Txn((), (Put(below.proxy("someone"), b""), Put(below.entry("someone", 1), b""))), 1)
    there = keys_in(etcd)
    target = await target_of(etcd, KEYS)
    assert (target.is_empty, target.keys) == (True, 0)
    await load_tree(etcd, KEYS, ROWS)
    await begin(etcd, KEYS, overwrite=True)
    assert keys_in(etcd) == sorted((*there, KEYS.tree))


async def test_the_target_tells_what_it_holds(etcd: FakeEtcdClient) -> None:
    found = await target_of(etcd, KEYS)
    assert (found.is_empty, found.keys, found.nodes) == (True, 0, 0)
    await load_tree(etcd, KEYS, ROWS)
    found = await target_of(etcd, KEYS)
    assert (found.is_empty, found.nodes, found.proxies) == (False, 8, 0)
    assert (await etcd.range(Get(KEYS.tree), 1)).kvs[0].mod_revision == found.record_mod


async def test_a_prefix_whose_fresh_tree_is_served_says_what_to_do() -> None:
    """A zketcd that was started too early has made a tree, of which there is no snapshot yet."""
    fresh = Target(TreeRecord(True, 1, OF_NEW_TREES, None, None), 5, 9, 3, 2)
    reason = refusal(fresh, KEYS, overwrite=False)
    assert reason is not None
    assert "/t is served by 2 zketcd: is it the right prefix, on the right host?" in reason
    assert "--overwrite" in reason
    # When they are stopped, their keys remain.
    assert "(--overwrite)" in str(refusal(fresh._replace(proxies=0), KEYS, overwrite=False))
    assert refusal(fresh._replace(proxies=0), KEYS, overwrite=True) is None


async def test_tasks_begin_a_load_together() -> None:
    """The first takes the prefix; the rest join, until writes are closed; none does after another load."""
    etcd = FakeEtcdClient(FakeEtcd())
    intent = await intend(etcd, KEYS)
    assert not etcd.store.snapshot()
    late = await intend(etcd, KEYS)
    first = await begin(etcd, KEYS, intent=intent)
    assert await begin(etcd, KEYS, intent=intent) == first
    await guarded(etcd, KEYS, first, [Put(page(first, 0), b"x"), Put(KEYS.log + b"left", b"x")])
    await clear(etcd, KEYS, first)
    assert set(keys_in(etcd)) == {KEYS.tree, page(first, 0)}
    await close_writes(etcd, KEYS, first)
    for closed in (intent, late):
        with pytest.raises(LoadRefused, match="another load has taken"):
            await begin(etcd, KEYS, intent=closed)
    with pytest.raises(LoadRefused):
        await guarded(etcd, KEYS, first, [Put(page(first, 0), b"y")])
