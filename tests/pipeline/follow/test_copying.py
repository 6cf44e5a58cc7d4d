"""The loop from a zketcd to its copy, on etcds in memory: kills, truncation, wrong sources."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest
from typing_extensions import override

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from lab.servers.waiting import eventually
from pipeline.errors import Failure
from pipeline.etcd.limits import Limits
from pipeline.follow import copying, finishing, output, target
from pipeline.follow import retrying as retrying_module
from pipeline.follow import source as source_module
from pipeline.follow.checking import EQUAL, check_with
from pipeline.follow.copying import follow
from pipeline.follow.finishing import Asked
from pipeline.follow.from_etcd import InEtcd
from pipeline.follow.inward import Directory
from pipeline.follow.inward import follow as follow_zookeeper
from pipeline.follow.options import Options
from pipeline.follow.output import DONE, NOT_LEVEL, Status
from pipeline.follow.retrying import retrying
from pipeline.follow.source import OtherSource, Reading
from pipeline.follow.target import Origin, position_of, state_of
from proxy.etcd.model import Delete, Get, Put, Txn, TxnResult
from proxy.log import slices
from proxy.log.follow import log_follower as follow_module
from proxy.log.load import start
from proxy.log.record import TreeSealed
from proxy.state.level import KNOWN
from proxy.state.machine import Machine
from schema.entry import EntryWriter, Kind, Request, decode_entry, encode_epoch, encode_level, encode_terms
from schema.errors import BadValue
from schema.followed import decode_followed, decode_lag, decode_sign, encode_followed
from schema.json_values import pack_json
from schema.keys import Keyspace
from schema.record import Seal, encode_record
from schema.znode import Znode
from tests.pipeline.follow.histories import node_pages
from tests.pipeline.follow.running import Failing, Stopped, at_each_txn
from tests.proxy.log.proxies import PASSWORD
from tests.proxy.log.trees import Tree

KEYS = Keyspace("/copy")
UNTIL_STOPPED = Options()
LEVEL = Options(until_level=True, timeout=60.0)


class World:
    """A tree in one etcd, and its copy in another."""

    def __init__(self) -> None:
        self.client = FakeEtcdClient(FakeEtcd())
        self.tree = Tree(self.client)
        self.etcd = FakeEtcdClient(FakeEtcd())
        self._made = 0

    @property
    def source(self) -> InEtcd:
        return InEtcd("etcd://one/t", retrying(self.client), self.tree.keys)

    async def write(self, count: int = 5) -> None:
        """Creates, data, deletes, and a session that comes and goes."""
        for _ in range(count):
            self._made += 1
            await self.tree.create("a", f"/n{self._made}", data=b"%d" % self._made)

    async def level(self, etcd: FakeEtcdClient | None = None, **more: object) -> int:
        return await follow(self.source, etcd or self.etcd, KEYS, LEVEL._replace(**more))  # type: ignore[arg-type]

    @contextlib.asynccontextmanager
    async def following(
        self,
        options: Options = UNTIL_STOPPED,
        *,
        source: InEtcd | None = None,
        etcd: FakeEtcdClient | None = None,
        keys: Keyspace = KEYS,
    ) -> AsyncIterator[None]:
        """A follower that is stopped at the end."""
        running = asyncio.create_task(follow(source or self.source, etcd or self.etcd, keys, options))
        try:
            yield
        finally:
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    async def is_level(self) -> bool:
        """The copy has all that was written."""
        position = await position_of(self.etcd, KEYS)
        return position is not None and position.zxid == self.tree.ran().zxid

    async def becomes_level(self) -> None:
        """Wait until it has."""
        await eventually(self.is_level, "it is level", 60)

    async def restored(self, at_least: int) -> None:
        """The source goes on in another epoch."""
        epoch = encode_epoch(self.client.store.cluster_id, at_least)
        await self.tree.send("a", [Request(Kind.EPOCH, 0, 0, (), epoch)])

    async def check(self) -> Machine:
        """The copy in etcd is the source's tree."""
        there = (await start.load_to_serve(self.client, self.tree.keys)).machine
        here, position = await state_of(self.etcd, KEYS)
        assert node_pages(here) == node_pages(there)
        assert (here.zxid, here.level) == (there.zxid, there.level)
        assert position.zxid == here.zxid
        assert {s.id: (s.timeout_ms, s.password_hash) for s in here.sessions.values()} == {
            s.id: (s.timeout_ms, s.password_hash) for s in there.sessions.values()
        }
        assert await check_with(self.source, self.etcd, KEYS) == EQUAL
        return here


@pytest.fixture
async def world() -> World:
    world = World()
    await world.tree.make("a")
    return world


async def test_it_goes_on_where_it_was(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    before = world.client.store.snapshot()
    assert await world.level() == DONE
    assert world.client.store.snapshot() == before  # nothing is written there
    assert capsys.readouterr().out == "level at zxid 0x1 (0 behind)\n"
    for _ in range(3):
        await world.write()
        assert await world.level() == DONE
        assert "going on behind zxid" in capsys.readouterr().err
        await world.check()
    assert "/n15" in (await world.check()).tree.nodes


async def test_it_follows_what_is_written_meanwhile(world: World, tmp_path: Path) -> None:
    metrics = tmp_path / "metrics"
    async with world.following(Options(metrics=str(metrics))):
        for _ in range(5):
            await world.write()
            await world.becomes_level()
            await world.check()
        await eventually(lambda: _has_metrics(metrics), "metrics are written", 60)


def test_what_is_said_of_a_copy_that_is_level_again_and_again(capsys: pytest.CaptureFixture[str]) -> None:
    status = Status()
    status._EVERY = -1.0  # each line comes late enough
    status.behind(1, 9)
    status.level(2)
    for zxid in range(3, 6):
        status.behind(zxid, 9, age=2.0)
        status.level(zxid)
    assert capsys.readouterr().out == "at zxid 0x1 (9 behind)\nlevel at zxid 0x2 (0 behind)\n"
    status.behind(6, 9, age=100.0)
    status.level(7)
    told = capsys.readouterr().out
    assert told == "at zxid 0x6 (9 behind, level 100 s ago)\nlevel at zxid 0x7 (0 behind)\n"


@pytest.mark.parametrize("how", ["finished", "taken over"])
async def test_the_metrics_go_with_the_last_follower(world: World, tmp_path: Path, how: str) -> None:
    """Else the alert would say for ever that the copy is old."""
    metrics = tmp_path / "metrics"
    running = asyncio.create_task(follow(world.source, world.etcd, KEYS, Options(metrics=str(metrics))))
    await eventually(lambda: _has_metrics(metrics), "metrics are written", 60)
    other = FakeEtcdClient(world.etcd.store)
    await follow(world.source, other, KEYS, FINISH if how == "finished" else LEVEL)
    await world.write() if how == "taken over" else None
    await asyncio.wait_for(asyncio.gather(running, return_exceptions=True), 60)
    assert not await asyncio.to_thread(metrics.exists)


def test_a_copy_that_is_never_quite_level_is_not_old(tmp_path: Path) -> None:
    """Clients write all the time: something always waits."""
    metrics = tmp_path / "metrics"
    before = time.time()
    Status(str(metrics)).behind(5, 3, age=1000.0)
    lines = dict(line.split() for line in metrics.read_text().splitlines() if not line.startswith("#"))
    assert before - 1000.1 < float(lines["zketcd_copy_level_timestamp_seconds"]) < before - 900
    assert (lines["zketcd_copy_zxid"], lines["zketcd_copy_behind"]) == ("5", "3")


async def _has_metrics(file: Path) -> bool:
    if not await asyncio.to_thread(file.exists):
        return False
    text = await asyncio.to_thread(file.read_text)
    return "zketcd_copy_level_timestamp_seconds 1" in text and "zketcd_copy_behind 0" in text


@pytest.mark.long
@pytest.mark.parametrize("counts", [False, True])
async def test_killed_at_any_txn_nothing_is_lost_or_doubled(counts: bool) -> None:
    for killed_in in at_each_txn(counts=counts, more_than=10):
        world = World()
        await world.tree.make("a")
        await world.write()
        killed = killed_in(world.etcd.store)
        often: dict[str, Any] = {"entry_changes": 3, "log_bytes": 0}
        with contextlib.suppress(Stopped):
            await world.level(killed, **often)
            await world.write()
            await world.level(killed, **often)
        await world.write()
        await world.level(**often)
        await world.check()


async def test_a_source_that_was_truncated_is_loaded_again(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    await world.write()
    await world.level()
    for _ in range(3):
        await world.write(40)
        await world.tree.snapshot("a")
    assert await world.level() == DONE
    assert "loading all" in capsys.readouterr().err
    await world.check()
    await world.write()
    await world.level()
    await world.check()


async def test_only_what_has_no_zxid_was_truncated(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    await world.write()
    await world.level()
    session = world.tree.session("a")
    for timeout_ms in range(7000, 7120):
        request = Request(Kind.ATTACH, session, 0, (), encode_terms(timeout_ms, PASSWORD))
        await world.tree.send("a", [request])
        if timeout_ms % 40 == 39:
            await world.tree.snapshot("a")
    await world.level()
    assert "loading all" not in capsys.readouterr().err
    assert (await world.check()).sessions[session].timeout_ms == 7119


async def test_epochs_and_settings() -> None:
    world = World()
    await world.tree.make("a")
    await world.write()
    await world.restored(3 << 32)
    await world.level()
    await world.write()
    await world.level()
    (undone,) = (await world.check()).undone
    assert undone.stop == 4 << 32, "sessions go on in the copy, unless their clients have seen this"
    await world.restored(5 << 32)
    await world.write()
    await world.level()
    assert (await world.check()).zxid > 5 << 32


async def test_more_than_an_entry_holds(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    await world.level()
    small = Options()._replace(until_level=True, limits=Limits(max_request_bytes=6000))
    await world.tree.create("a", "/large", data=Random(1).randbytes(9000))
    assert await follow(world.source, world.etcd, KEYS, small) == DONE
    assert "writing all" in capsys.readouterr().err
    await world.check()
    await world.write()
    await world.level()
    await world.check()


async def test_all_is_written_again_and_again_only_at_a_distance_until_the_copy_is_completed(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    await world.level()
    small = Options(limits=Limits(max_request_bytes=6000))
    running = asyncio.create_task(follow(world.source, world.etcd, KEYS, small))

    async def is_behind() -> bool:
        found = (await world.etcd.range(Get(KEYS.lag), 1)).kvs
        return bool(found) and decode_lag(found[0].value).behind > 5

    await world.tree.create("a", "/large1", data=Random(1).randbytes(9000))
    await world.becomes_level()
    await world.tree.create("a", "/large2", data=Random(2).randbytes(9000))
    await world.write(5)
    await eventually(is_behind, "all has arrived, and waits", 60)
    assert not await world.is_level()
    assert capsys.readouterr().err.count("writing all") == 1
    assert await follow(world.source, world.etcd, KEYS, FINISH) == DONE
    assert await running == DONE
    found = (await start.load_to_serve(world.etcd, KEYS)).machine.tree.nodes
    assert {"/large1", "/large2", "/n5"} <= found.keys()
    assert capsys.readouterr().err.count("writing all") == 1


async def test_more_arrives_than_is_taken(world: World) -> None:
    with mock.patch.object(source_module, "MOST_WAITING", 300):
        await world.write(30)
        await world.level(entry_changes=1)
        async with world.following(Options(entry_changes=1)):
            await world.write(30)
            await world.becomes_level()
    await world.check()


@pytest.mark.long
async def test_all_entries_of_a_proxy_that_came_during_a_long_outage_are_copied(world: World) -> None:
    """They are read in slices, between which the copy is written."""
    await world.level()
    link = FakeEtcdClient(world.client.store)
    source = InEtcd("etcd://one/t", retrying(link), world.tree.keys)

    async def rest() -> None:
        await asyncio.sleep(0.005)

    with (
        mock.patch.object(slices, "SLICE", 0.0),
        mock.patch.object(follow_module, "in_slices", lambda work: slices.in_slices(work, rest=rest)),
    ):
        async with world.following(Options(idle=0.001), source=source):
            await world.write()
            await world.becomes_level()
            link.disconnect()
            await world.tree.come("b")
            for number in range(1200):
                await world.tree.create("b", f"/b{number}")
            link.reconnect()
            await world.becomes_level()
            await world.write()
            await world.becomes_level()
    assert len((await world.check()).tree.nodes) > 1200


class Held(FakeEtcdClient):
    """Keeps each entry on its way until all may arrive."""

    def __init__(self, store: FakeEtcd) -> None:
        super().__init__(store)
        self.entries = 0
        self.may_arrive = asyncio.Event()

    async def txn(self, txn: Txn, timeout: float) -> TxnResult:
        if any(isinstance(op, Put) and KEYS.log <= op.key < KEYS.log_end for op in txn.success):
            self.entries += 1
            await self.may_arrive.wait()
        return await super().txn(txn, timeout)


class Noting(InEtcd):
    """Shows the source's state, as far as it was applied."""

    machine: Machine | None = None

    @override
    async def open(self, entries: int | None, origin: Origin | None) -> Reading:
        reading = await super().open(entries, origin)
        self.machine = reading.machine
        return reading


async def test_the_next_entry_is_applied_while_one_is_on_its_way(world: World) -> None:
    """The link to the copy's etcd may be long."""
    await world.level()
    there = await position_of(world.etcd, KEYS)
    assert there is not None
    held = Held(world.etcd.store)
    source = Noting("etcd://one/t", retrying(world.client), world.tree.keys)
    await world.write(20)

    def applied() -> int:
        return source.machine.zxid - there.zxid if source.machine else 0

    async def of_two() -> bool:
        return applied() >= 4

    async with world.following(Options(entry_changes=3), source=source, etcd=held):
        await eventually(of_two, "two entries' requests are applied", 60)
        for _ in range(20):
            await asyncio.sleep(0)
        assert held.entries == 1
        assert applied() < 8, "no more than one entry is prepared"
        assert await position_of(world.etcd, KEYS) == there
        held.may_arrive.set()
        await world.becomes_level()
    await world.check()


def test_a_copy_is_as_old_as_what_is_in_it() -> None:
    """Entries arrive all the time, and sooner than the copy has them."""

    class Now(source_module.Reading):
        at: float | None = None

        def level_at(self) -> float | None:
            return self.at

    reading = Now(Machine(1), 1, "/t")
    lag = copying._Lag(reading)
    now = time.time()
    reading.waiting = 5
    assert lag.age() is None
    reading.at = now - 100
    assert lag.age() is None
    lag.applied, reading.waiting, reading.at = 4, 3, now - 50
    assert lag.age() is None
    lag.write()
    assert lag.age() is None  # one of the five is missing
    lag.applied, reading.waiting = 1, 7
    lag.write()
    assert lag.age() == pytest.approx(100, abs=20)
    lag.applied, reading.waiting = 7, 0
    assert lag.age() == pytest.approx(100, abs=20)
    lag.write()
    reading.at = now
    assert lag.age() == pytest.approx(0, abs=20)


async def test_a_proxy_with_another_digest(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    await world.write(70)
    await world.level()
    await world.tree.send("a", [], checkpoint=64, digest=1)
    await world.write()
    assert await world.level() == DONE
    assert "the digest of the source's proxy a differs" in capsys.readouterr().err
    await world.check()


async def _restored(world: World) -> None:
    world.client.store.cluster_id = 77


async def _another(world: World) -> None:
    world.client = FakeEtcdClient(FakeEtcd())
    world.tree = Tree(world.client)
    await world.tree.make("a", "b")
    await world.write(20)


async def _went_back(world: World) -> None:
    world.client = FakeEtcdClient(FakeEtcd())
    world.tree = Tree(world.client)
    await world.tree.make("a")


async def _gone(world: World) -> None:
    world.tree.change(Delete(world.tree.keys.tree))


async def _incomplete(world: World) -> None:
    record = await world.tree.record()
    world.tree.change(Put(world.tree.keys.tree, encode_record(record._replace(complete=False))))


async def _of_the_future(world: World) -> None:
    record = await world.tree.record()
    level = encode_record(record._replace(level=max(KNOWN) + 1))
    world.tree.change(Put(world.tree.keys.tree, level))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_restored, "in the etcd cluster 000000000000004d, and the copy has followed 0000000000000001"),
        (_another, "is not the tree that the copy has at zxid"),
        (_went_back, "ends after 1 entries, at zxid 0x1; the copy has 6"),
        (_gone, "there is no tree under /t"),
        (_incomplete, "the import into /t is not complete"),
        (_of_the_future, "this release of zketcd applies level"),
    ],
)
async def test_a_source_that_is_not_the_one(
    world: World, change: Callable[[World], object], message: str
) -> None:
    await world.write()
    await world.level()
    before = (await state_of(world.etcd, KEYS))[0]
    await change(world)  # type: ignore[misc]
    with pytest.raises(Failure, match=message) as raised:
        await world.level()
    assert isinstance(raised.value, OtherSource) == (change in (_restored, _another, _went_back))
    assert node_pages((await state_of(world.etcd, KEYS))[0]) == node_pages(before)
    if change in (_restored, _another, _went_back):
        assert await world.level(overwrite=True) == DONE
        await world.check()


@pytest.mark.parametrize("change", [_gone, _incomplete, _of_the_future])
async def test_a_source_that_changes_while_it_is_followed(
    world: World, change: Callable[[World], object]
) -> None:
    running = asyncio.create_task(follow(world.source, world.etcd, KEYS, Options()))
    await eventually(lambda: position_of(world.etcd, KEYS), "it follows", 60)
    if change is _of_the_future:
        await world.tree.send("a", [Request(Kind.LEVEL, 0, 0, (), encode_level(max(KNOWN) + 1))])
    else:
        await change(world)  # type: ignore[misc]
    with pytest.raises(Failure, match="etcd://one/t"):
        await asyncio.wait_for(running, 60)
    assert (await state_of(world.etcd, KEYS))[0].zxid == 1


async def test_the_newest_follower_wins(world: World) -> None:
    first = asyncio.create_task(follow(world.source, world.etcd, KEYS, Options()))
    await eventually(lambda: position_of(world.etcd, KEYS), "it follows", 60)
    assert await world.level(FakeEtcdClient(world.etcd.store)) == DONE
    await world.write()
    with pytest.raises(Failure, match="another follower or import has taken /copy over"):
        await asyncio.wait_for(first, 60)
    await world.level()
    await world.check()


async def test_targets_that_are_something_else(world: World, tmp_path: Path) -> None:
    other = Tree(world.etcd, "/copy")
    await other.make("x")
    with pytest.raises(Failure, match="is served by 1 zketcd"):
        await world.level()
    await other.go("x")
    with pytest.raises(Failure, match="--overwrite"):
        await world.level()
    assert await world.level(overwrite=True) == DONE
    await world.check()
    with pytest.raises(Failure, match="/copy follows etcd://one/t, not a ZooKeeper"):
        await follow_zookeeper(Directory(str(tmp_path)), world.etcd, KEYS, Options())


async def test_an_entry_that_was_changed_in_etcd(world: World) -> None:
    """Digests in the copy's own entries show it."""
    await world.level()
    await world.write(80)
    await world.level(entry_changes=1)
    here, _ = await state_of(world.etcd, KEYS)
    assert here.entries > 64
    store = world.etcd.store
    key, value = next((each.key, each.value) for each in store.snapshot() if each.key.startswith(KEYS.log))
    entry = decode_entry(value)
    changes = decode_followed(entry.requests[0].body)
    (path, node), *rest = changes.nodes
    other = changes._replace(nodes=[(path, Znode(b"other", *node.fields()[1:])), *rest])
    writer = EntryWriter()
    writer.add(Kind.FOLLOWED, 0, 0, (), encode_followed(other))
    store.txn(Txn((), (Put(key, writer.finish(entry.clock, 0, 0, 0)),)))
    with pytest.raises(Failure, match="is not the one that its follower wrote"):
        await world.level()


@pytest.mark.long
async def test_both_etcds_are_away_for_a_while(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Whichever request meets the outage first."""
    await world.write()
    await world.level()
    target, source = world.etcd.store, world.client.store
    counting = Failing(target, 0)
    await world.write()
    await world.level(counting)
    with mock.patch.object(retrying_module, "RETRY", 0):
        for at in range(1, counting.requests + 1):
            await world.write(2)
            assert await world.level(Failing(target, at)) == DONE
            assert "etcd is out of reach, trying again: no member answers" in capsys.readouterr().err
        for at in range(1, 6):
            await world.write(2)
            world.client = Failing(source, at)
            world.tree.etcd = FakeEtcdClient(source)
            assert await world.level() == DONE
            assert "etcd is out of reach, trying again: no member answers" in capsys.readouterr().err
    world.client = FakeEtcdClient(source)
    await world.check()


async def test_not_level_in_time(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert await world.level(zxid=99, timeout=0.3) == NOT_LEVEL
    assert "not level within 0.3 s" in capsys.readouterr().err


FINISH = Options(finish=True, timeout=60.0, address="http://two")
ALONE = FINISH._replace(answer_within=0.0)


async def moved(world: World) -> Machine:
    """The copy as it is served, and all of the source is in it."""
    with pytest.raises(TreeSealed, match="was moved to the prefix /copy of the etcd at http://two"):
        await start.load_as_of(world.client, world.tree.keys)
    there = await start.load_as_of(world.client, world.tree.keys, even_sealed=True)
    here = (await start.load_as_of(world.etcd, KEYS)).machine
    assert node_pages(here) == node_pages(there.machine)
    assert here.zxid == there.machine.zxid
    assert here.sessions.keys() == there.machine.sessions.keys()
    position = await position_of(world.etcd, KEYS)
    assert position is not None
    assert position.finished
    return here


async def test_a_move(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.etcd.store.cluster_id = 2
    await world.write()
    assert await follow(world.source, world.etcd, KEYS, FINISH) == DONE
    assert "sessions: 1 kept\nfinished: zxids go on at 0x6\n" in capsys.readouterr().out
    assert (await moved(world)).cluster_id == 2
    assert await follow(world.source, world.etcd, KEYS, FINISH) == DONE  # it is already
    with pytest.raises(Failure, match="has finished following"):
        await world.level()


async def test_a_running_follower_is_asked_while_clients_write(world: World) -> None:
    running = asyncio.create_task(follow(world.source, world.etcd, KEYS, Options(address="http://two")))
    await eventually(lambda: position_of(world.etcd, KEYS), "it follows", 60)
    asking = FakeEtcdClient(world.etcd.store)
    asked = asyncio.create_task(follow(world.source, asking, KEYS, FINISH))
    acknowledged = 0
    while True:
        try:
            await world.write(1)
        except AssertionError:  # the proxy's key is gone
            break
        acknowledged += 1
        await asyncio.sleep(0.001)
    assert await asyncio.wait_for(asked, 60) == await asyncio.wait_for(running, 60) == DONE
    assert {f"/n{number}" for number in range(1, acknowledged + 1)} < (await moved(world)).tree.nodes.keys()


async def test_a_request_to_finish_of_another_form(world: World) -> None:
    world.etcd.store.txn(Txn((), (Put(KEYS.finish, pack_json({"keep_sessions": True, "answered": True})),)))
    with pytest.raises(BadValue, match="the request for the end of following is wrong"):
        await finishing.asked(world.etcd, KEYS)


async def test_a_request_to_finish_outlives_a_follower_that_starts(world: World) -> None:
    """It deletes what was asked of the last one."""
    await world.level()
    asking = asyncio.create_task(
        finishing.ask(world.etcd, KEYS, Asked(0, keep_sessions=True, answered=False), within=60.0)
    )

    async def is_asked() -> bool:
        return await finishing.asked(world.etcd, KEYS) is not None

    for _ in range(2):
        await eventually(is_asked, "it is asked", 60)
        await target.resume(world.etcd, KEYS)
    await eventually(is_asked, "it is asked again", 60)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not await is_asked()


@pytest.mark.long
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("where", ["source", "target"])
async def test_a_move_that_is_killed_at_any_txn(where: str, counts: bool) -> None:
    for killed_in in at_each_txn(counts=counts, more_than=1):
        world = World()
        await world.tree.make("a")
        await world.level()
        await world.write()
        killed = killed_in(world.client.store if where == "source" else world.etcd.store)
        first = InEtcd("one", killed if where == "source" else world.client, world.tree.keys)
        target = killed if where == "target" else world.etcd
        with contextlib.suppress(Stopped):
            await follow(first, target, KEYS, ALONE)
        assert await follow(world.source, world.etcd, KEYS, ALONE) == DONE
        await moved(world)


async def test_a_source_that_was_sealed_is_no_source_but_of_its_own_copy(world: World) -> None:
    await world.write()
    await world.level()
    seal_elsewhere = Seal("http://three", "/x", 3, 0)
    await world.source.seal(seal_elsewhere)
    for options in (LEVEL, ALONE):
        with pytest.raises(Failure, match="was moved to the prefix /x of the etcd at http://three"):
            await follow(world.source, world.etcd, KEYS, options)
    with pytest.raises(Failure, match="was moved"):
        await follow(world.source, world.etcd, Keyspace("/other"), LEVEL)


async def test_whoever_has_sealed_it_the_copy_is_completed(world: World) -> None:
    """Also from a snapshot, if the log was truncated meanwhile."""
    await world.write()
    await world.level()
    for _ in range(3):
        await world.write(40)
        await world.tree.snapshot("a")
    await world.source.seal(Seal("http://two", "/copy", world.etcd.store.cluster_id, 0))
    assert await follow(world.source, world.etcd, KEYS, Options(timeout=60.0)) == DONE
    await moved(world)


class Slow(FakeEtcdClient):
    """Other things happen before a Txn has its answer."""

    async def txn(self, txn: Txn, timeout: float) -> TxnResult:
        await asyncio.sleep(0.002)
        return await super().txn(txn, timeout)


async def test_writes_while_it_starts(world: World) -> None:
    await world.write()
    running = asyncio.create_task(world.level(Slow(world.etcd.store), entry_changes=2))
    for _ in range(20):
        await world.write(1)
        await asyncio.sleep(0.001)
    assert await running == DONE
    await world.level()
    await world.check()


async def test_it_shows_the_sources_proxies_that_it_lives(world: World) -> None:
    """Only while it holds the copy; and for how long they may go on without it only grows."""
    await world.level()
    for within, expected in ((7, 7), (5, 7), (9, 9)):
        signs: set[int] = set()

        async def signed(within: int = within, signs: set[int] = signs) -> bool:
            found = (await world.client.range(Get(world.tree.keys.heard), 1)).kvs
            if found:
                sign = decode_sign(found[0].value)
                assert sign.revision < found[0].mod_revision
                signs |= {sign.revision} if sign.within == within else set()
            return len(signs) > 1

        async with world.following(Options(standby_within=within)):
            await eventually(signed, "it has signed twice", 60)
            assert await target.allowed(world.etcd, KEYS) == expected


async def test_a_follower_that_starts_shows_that_it_lives_while_it_loads(world: World) -> None:
    """Only if the source is the one that the copy follows."""
    await world.level()
    source = world.source
    is_loading = asyncio.Event()

    async def loads(*_: object) -> source_module.Reading:
        is_loading.set()
        return await asyncio.Future()

    async def signs() -> bool:
        return bool((await world.client.range(Get(world.tree.keys.heard), 1)).kvs)

    options = Options(standby_within=7)
    with mock.patch.object(source, "open", loads):
        async with world.following(options, source=source):
            await asyncio.wait_for(is_loading.wait(), 60)
            await eventually(signs, "it has signed", 60)
        await _another(world)
        world.client.store.cluster_id = 77
        other = InEtcd("etcd://one/t", world.client, world.tree.keys)
        with mock.patch.object(other, "open", loads), pytest.raises(OtherSource, match="in the etcd cluster"):
            await follow(other, world.etcd, KEYS, options)
    assert not await signs()


async def test_one_copy_only_is_what_the_source_needs(world: World) -> None:
    async def signed(prefix: str) -> bool:
        found = (await world.client.range(Get(world.tree.keys.heard), 1)).kvs
        return bool(found) and decode_sign(found[0].value).prefix == prefix

    options = Options(standby_within=7)
    for _ in range(2):  # the copy's next follower may sign, too
        async with world.following(options):
            await eventually(lambda: signed("/copy"), "it has signed", 60)
    second = Keyspace("/second")
    with pytest.raises(Failure, match="needs the follower of another copy: of /copy in the etcd cluster"):
        await follow(world.source, world.etcd, second, options)
    assert await signed("/copy")
    await world.client.txn(Txn((), (Delete(world.tree.keys.heard),)), 1)
    async with world.following(options, keys=second):
        await eventually(lambda: signed("/second"), "it has signed", 60)


async def test_a_copy_that_starts_over_keeps_what_was_promised(world: World) -> None:
    """The source's proxies still count on it, until the copy is complete."""
    world.etcd.store.cluster_id = 2
    await world.level()
    begun = await target.resume(world.etcd, KEYS)
    await begun.tree.allow(300)
    await world.level(overwrite=True)
    assert await target.allowed(world.etcd, KEYS) == 300
    await world.check()
    assert await follow(world.source, world.etcd, KEYS, ALONE) == DONE
    assert await target.allowed(world.etcd, KEYS) == 0


async def test_what_is_sealed_is_completed_however_long_it_takes(world: World) -> None:
    """--timeout must not end the command while nobody serves."""
    limits: list[asyncio.Timeout] = []
    sealed: list[float | None] = []
    seal = InEtcd.seal

    async def noted(
        timeout: float | None, following: Callable[[asyncio.Timeout], Coroutine[Any, Any, int]]
    ) -> int:
        def run(limit: asyncio.Timeout) -> Coroutine[Any, Any, int]:
            limits.append(limit)
            return following(limit)

        return await output.within(timeout, run)

    async def sealing(source: InEtcd, where: Seal) -> None:
        sealed.append(limits[0].when())
        await seal(source, where)

    with mock.patch.object(copying, "within", noted), mock.patch.object(InEtcd, "seal", sealing):
        assert await follow(world.source, world.etcd, KEYS, FINISH) == DONE
    assert sealed == [None]
