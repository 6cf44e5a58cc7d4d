"""The tree in etcd that follows: killed at any Txn, its answers lost, taken over; never another tree."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable

import pytest

from codec.jute import OPEN_ACL
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from pipeline.errors import Failure
from pipeline.etcd.limits import Limits
from pipeline.etcd.load import begin as begin_load
from pipeline.etcd.load import refusal, target_of
from pipeline.etcd.requests import LoadRefused
from pipeline.follow import target
from pipeline.follow.applying import Changes
from pipeline.follow.target import (
    Position,
    Start,
    begin,
    decode_position,
    encode_position,
    position_of,
    resume,
)
from proxy.etcd.metrics import QUOTA, Metrics
from proxy.etcd.model import Delete, Get, Put, RangeResult, Txn, TxnResult
from proxy.log.load import start
from proxy.log.record import TreeNotServable
from proxy.state.capture import new_machine
from proxy.state.machine import Machine
from proxy.state.node import make_node
from schema.errors import BadValue
from schema.followed import Lag, encode_followed
from schema.keys import Keyspace
from tests.pipeline.follow.histories import creates, node_pages
from tests.pipeline.follow.running import Stopped, at_each_txn

KEYS = Keyspace("/t")


async def fresh(cluster_id: int) -> tuple[Machine, Position]:
    return new_machine(cluster_id), Position("", 0, None, "/data", False)


async def opened(etcd: FakeEtcdClient) -> Start:
    """As the command opens a target."""
    if await position_of(etcd, KEYS) is not None:
        return await resume(etcd, KEYS)
    return await begin(etcd, KEYS, fresh, Limits(), overwrite=False, progress=lambda _text: None)


async def go_on(etcd: FakeEtcdClient, until: int, *, rebase_at: int = 5, finish: bool = True) -> Machine:
    """Follow transactions 1, 2, ... from wherever the target is, up to `until`."""
    follow, machine, position = await opened(etcd)
    assert machine.zxid == position.zxid
    changes = Changes(machine)
    for rows in creates(machine.zxid + 1, until - machine.zxid):
        changes.apply(rows)
        position = position._replace(zxid=machine.zxid, mark=machine.zxid)
        await follow.append(machine, changes.take(), 1, position)
        if machine.zxid == rebase_at:
            position = await follow.rebase(machine, position)
    if finish:
        changes.move_to(1 << 32)
        await follow.finish(machine, changes.take(), 1, position._replace(zxid=1 << 32))
    return machine


async def test_an_etcd_without_room_for_the_first_base_keeps_what_is_there() -> None:
    """Others are served from that etcd; what is deleted is not free at once."""
    store = FakeEtcd()
    await go_on(FakeEtcdClient(store), 3)
    before = store.snapshot()

    async def large(cluster_id: int) -> tuple[Machine, Position]:
        machine = new_machine(cluster_id)
        for number in range(90):
            node = make_node(random.randbytes(1 << 20), OPEN_ACL, 0, 1, 1, 1, 1, 1, 0, 0, 0)
            machine.tree.attach(f"/{number}", node)
        return machine, Position("", 0, None, "/data", False)

    async def open_in(quota: int) -> Start:
        async def show(_endpoint: str) -> Metrics:
            return Metrics({QUOTA: float(quota)}, 0.0)

        return await begin(
            FakeEtcdClient(store), KEYS, large, Limits(), overwrite=True, progress=print, read_metrics=show
        )

    with pytest.raises(LoadRefused, match="etcd has no room: the tree takes about 102 MiB, 1 of 110 MiB"):
        await open_in(110 << 20)
    assert store.snapshot() == before
    assert (await open_in(200 << 20)).tree.snapshot_bytes > 90 << 20


async def test_a_new_base_is_due_by_what_a_replay_takes() -> None:
    """Long entries that compress well are short in the log."""
    store = FakeEtcd()
    follow, machine, position = await opened(FakeEtcdClient(store))
    changes = Changes(machine)
    for rows in creates(1, 1000):
        changes.apply(rows)
    taken = changes.take()
    assert len(encode_followed(taken)) < 16_000
    await follow.append(machine, taken, 1, position)
    assert follow.log_bytes >= 64_000


@pytest.fixture
def store() -> FakeEtcd:
    return FakeEtcd()


async def test_it_is_served_once_it_is_finished(store: FakeEtcd) -> None:
    etcd = FakeEtcdClient(store)
    await go_on(etcd, 3, finish=False)
    with pytest.raises(TreeNotServable, match="follows another one, and is not served before the cut-over"):
        await start.load_to_serve(etcd, KEYS)
    assert "that follows another one, of 4 znodes" in (
        refusal(await target_of(etcd, KEYS), KEYS, overwrite=False) or ""
    )
    made = await go_on(etcd, 8)
    loaded = await start.load_to_serve(etcd, KEYS)
    assert node_pages(loaded.machine) == node_pages(made)
    assert loaded.machine.zxid == 1 << 32
    assert not loaded.disagreements
    there = await position_of(etcd, KEYS)
    assert there is not None
    assert (there.finished, there.zxid, there.source) == (True, 1 << 32, "/data")


@pytest.mark.long
@pytest.mark.parametrize("counts", [False, True])
async def test_killed_at_any_txn_nothing_is_lost_or_doubled(counts: bool) -> None:
    expected = node_pages(await go_on(FakeEtcdClient(FakeEtcd()), 8))
    for killed_in in at_each_txn(counts=counts, more_than=15):
        store = FakeEtcd()
        with contextlib.suppress(Stopped):
            await go_on(killed_in(store), 8)
        second = FakeEtcdClient(store)
        there = await position_of(second, KEYS)
        if there is None or not there.finished:
            await go_on(second, 8)
        loaded = await start.load_to_serve(second, KEYS)
        assert node_pages(loaded.machine) == expected
        assert not loaded.disagreements


async def test_no_page_is_left_of_a_follower_that_was_killed() -> None:
    left = 0
    for killed_in in at_each_txn(counts=True, more_than=8):
        store = FakeEtcd()
        with contextlib.suppress(Stopped):
            await go_on(killed_in(store), 6, finish=False)
        second = FakeEtcdClient(store)
        left += len(_snapshots(store)) > 1
        await opened(second)
        record = (await target_of(second, KEYS)).record
        assert record is not None
        assert record.current is not None
        assert _snapshots(store) == {record.current.name.encode()}
    assert left  # such pages were there


def _snapshots(store: FakeEtcd) -> set[bytes]:
    """The names of those of which there are pages."""
    pages = [pair.key for pair in store.range(Get(KEYS.snapshots, KEYS.snapshots_end)).kvs]
    return {key.removeprefix(KEYS.snapshots).partition(b"/")[0] for key in pages}


@pytest.mark.long
async def test_lost_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.etcd.requests.RETRY", 0.0)
    expected = node_pages(await go_on(FakeEtcdClient(FakeEtcd()), 8))
    for counts in (False, True):
        for answers_lost_in in at_each_txn(counts=counts, lost=True, more_than=15):
            etcd = answers_lost_in(FakeEtcd())
            await go_on(etcd, 8)
            assert node_pages((await start.load_to_serve(etcd, KEYS)).machine) == expected


@pytest.mark.parametrize("what", ["append", "finish", "rebase"])
async def test_one_that_is_taken_over_writes_nothing_more(store: FakeEtcd, what: str) -> None:
    etcd = FakeEtcdClient(store)
    await go_on(etcd, 2, finish=False)
    follow, machine, position = await opened(etcd)
    made = await go_on(FakeEtcdClient(store), 4, finish=False)
    changes = Changes(machine)
    for rows in creates(3, 1):
        changes.apply(rows)
    if what == "rebase":
        write = follow.rebase(machine, position)
    else:
        write = getattr(follow, what)(machine, changes.take(), 1, position)
    with pytest.raises(LoadRefused, match="has taken /t over"):
        await write
    found = await resume(etcd, KEYS)
    assert node_pages(found.machine) == node_pages(made)


@pytest.mark.parametrize("what", ["append", "finish", "rebase", "report", "allow"])
@pytest.mark.parametrize("lost", ["an entry", "a snapshot"])
async def test_nothing_is_written_after_entries_that_a_restored_etcd_lacks(
    store: FakeEtcd, what: str, lost: str
) -> None:
    etcd = FakeEtcdClient(store)
    follow, machine, position = await opened(etcd)
    changes = Changes(machine)
    backup = None
    for rows in creates(1, 3):
        if machine.zxid == 2:
            backup = store.backup()
        changes.apply(rows)
        position = position._replace(zxid=machine.zxid)
        await follow.append(machine, changes.take(), 1, position)
    if lost == "a snapshot":
        position = await follow.rebase(machine, position)
    assert backup is not None
    store.restore(backup)
    for rows in creates(4, 1):
        changes.apply(rows)
    position = position._replace(zxid=machine.zxid)
    write: Callable[[], Awaitable[object]] = {
        "append": lambda: follow.append(machine, changes.take(), 1, position),
        "finish": lambda: follow.finish(machine, changes.take(), 1, position),
        "rebase": lambda: follow.rebase(machine, position),
        "report": lambda: follow.report(Lag(1, 0)),
        "allow": lambda: follow.allow(5),
    }[what]
    with pytest.raises(Failure, match="restored from a backup" if lost == "an entry" else "taken /t over"):
        await write()
    made = await go_on(etcd, 8)
    loaded = await start.load_to_serve(etcd, KEYS)
    assert node_pages(loaded.machine) == node_pages(made)
    assert loaded.machine.zxid == 1 << 32


async def test_a_request_that_is_withdrawn_as_it_finishes(store: FakeEtcd) -> None:
    etcd = FakeEtcdClient(store)
    follow, machine, position = await opened(etcd)
    request = store.txn(Txn((), (Put(KEYS.finish, b""),))).revision
    changes = Changes(machine)
    changes.move_to(1 << 32)
    store.txn(Txn((), (Delete(KEYS.finish),)))
    position = position._replace(zxid=1 << 32)
    with pytest.raises(target.Withdrawn, match="the command that asked for the end has ended"):
        await follow.finish(machine, changes.take(), 1, position, request)
    await go_on(etcd, 8)
    assert (await start.load_to_serve(etcd, KEYS)).machine.zxid == 1 << 32


async def test_a_following_tree_is_not_taken_over_by_an_import_unless_told(store: FakeEtcd) -> None:
    etcd = FakeEtcdClient(store)
    await go_on(etcd, 2, finish=False)
    with pytest.raises(LoadRefused, match="--overwrite"):
        await begin_load(etcd, KEYS)
    await begin_load(etcd, KEYS, overwrite=True)
    assert await position_of(etcd, KEYS) is None


async def test_changes_too_large_for_etcd_are_refused(store: FakeEtcd) -> None:
    etcd = FakeEtcdClient(store)
    limits = Limits(max_request_bytes=target._ROOM + 10)
    machine, position = await fresh(1)
    follow = target.TargetTree(etcd, KEYS, await begin_load(etcd, KEYS), None, 0, limits)  # type: ignore[arg-type]
    changes = Changes(machine)
    for rows in creates(1, 1):
        changes.apply(rows)
    with pytest.raises(Exception, match="raise its --max-request-bytes"):
        await follow.append(machine, changes.take(), 1, position)


@pytest.mark.parametrize(
    "change", [lambda raw: raw[:-3], lambda raw: raw.replace(b'"zxid"', b'"zxit"'), lambda _raw: b"{}"]
)
def test_a_damaged_position(change: Callable[[bytes], bytes]) -> None:
    position = Position("name", 5, 7, "/data", False)
    assert decode_position(encode_position(position)) == position
    with pytest.raises(BadValue):
        decode_position(change(encode_position(position)))


class _Late(FakeEtcdClient):
    """Others have a turn before its answers come."""

    async def txn(self, txn: Txn, timeout: float) -> TxnResult:
        answer = await super().txn(txn, timeout)
        await asyncio.sleep(0)
        return answer


async def test_the_fence_moves_while_the_source_gets_signs_of_life(store: FakeEtcd) -> None:
    etcd = _Late(store)
    await go_on(etcd, 2, finish=False)
    follow, machine, position = await opened(etcd)
    named: list[object] = []

    async def sign() -> None:
        while not named:
            await follow.allow(7)

    async def write() -> None:
        for _ in range(5):
            await follow.rebase(machine, position)
        named.append(follow)

    await asyncio.gather(*[sign() for _ in range(3)], write())
    assert await target.allowed(etcd, KEYS) == 7


async def test_a_new_base_between_two_reads_of_the_position() -> None:
    etcd = FakeEtcdClient(FakeEtcd())
    begun = await opened(etcd)

    class Between(FakeEtcdClient):
        """The follower names another snapshot after each read."""

        async def range(self, get: Get, timeout: float) -> RangeResult:
            answer = await super().range(get, timeout)
            await begun.tree.rebase(begun.machine, begun.position)
            return answer

    assert await target.position_of(Between(etcd.store), KEYS) is not None
