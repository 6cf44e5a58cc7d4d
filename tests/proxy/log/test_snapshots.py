"""When snapshots are written and by whom, and the child process that writes them, on a real etcd."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import cast
from unittest import mock

import pytest

from codec.constants import OpCode
from lab.fakes.clock import FakeClock
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from lab.servers import EtcdServer
from proxy.etcd.access import Access
from proxy.etcd.client import EtcdClient
from proxy.etcd.interface import Etcd
from proxy.etcd.model import Delete, Txn
from proxy.log.append.outbox import Outbox
from proxy.log.context import Context
from proxy.log.follow.log_order import EntriesGone
from proxy.log.living import LivingProxies, LivingProxy, Peers
from proxy.log.load.start import load_as_of
from proxy.log.log import Log
from proxy.log.status import LogStatus, Pressure, Stats
from proxy.log.upkeep import snapshots as module
from proxy.log.upkeep.snapshot_job import Answer, Failed, Job
from proxy.log.upkeep.snapshots import Snapshots, run_process
from proxy.state.capture import new_machine
from proxy.state.machine import Machine
from proxy.state.outcome import Disagreement
from proxy.support.environment import Clock, Environment
from proxy.support.tasks import Tasks
from schema.entry import Kind, Request, decode_forget, encode_close
from schema.keys import SNAPSHOT_LEASE, Keyspace
from schema.record import ProxyValue, SnapshotRef, TreeRecord
from tests.proxy.log.trees import Tree
from tests.table import one_by_one

_REF = SnapshotRef("1-a", 100, "a", 1, 1, 1000, 10, 1, 5, 7)


class Subject:
    """A proxy's log."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.living = LivingProxies()
        self.stats = Stats()
        self.incarnation = "b"
        self.record: TreeRecord | None = TreeRecord(True, 1, 1, None, None)
        self.position = 0
        self.replayed = (0, 0)
        self.fell_back = False
        self.outbox = Outbox()
        self.pressure: Pressure | None = None
        self.distrusted = 0
        self.follower = self
        for revision, name in enumerate("abc", 10):
            self.living.add(LivingProxy(name, revision, ProxyValue((1,), "")))

    def status(self) -> LogStatus:
        return LogStatus(
            self.living,
            Peers(),
            self.stats,
            self.incarnation,
            pressure=self.pressure,
            record=self.record,
            position=self.position,
            replayed=self.replayed,
            fell_back=self.fell_back,
        )

    def at(self, etcd: Etcd, keys: Keyspace, clock: Clock) -> Log:
        self.context = Context(
            etcd, keys, Tasks(), self.machine, self.stats, environment=Environment(clock=clock)
        )
        return cast(Log, self)

    def distrust(self) -> None:
        self.distrusted += 1

    def apply(self, position: int, size: int, requests: int) -> None:
        self.position = position
        self.stats.applied_bytes += size
        self.stats.applied_cost += requests


class World:
    def __init__(self, etcd: Etcd | None = None) -> None:
        self.tree = Tree(etcd)
        self.subject = Subject(Machine(1))
        self.clock = FakeClock(1000.0)
        self.endpoints: tuple[str, ...] = ()
        #: At a look at etcd's size, and whether etcd answers it.
        self.found: Callable[[], None] = lambda: None
        self.answers = True
        self.snapshots = self.of(self.tree.etcd)

    def of(self, etcd: Etcd, **options: object) -> Snapshots:
        return Snapshots(
            self.subject.at(etcd, self.tree.keys, self.clock),
            self._run_writer,
            self._look,
            least_bytes=5000,
            least_requests=50,
            **options,  # type: ignore[arg-type]
        )

    async def _run_writer(self, job: Job) -> Answer:
        return await run_process(Access(self.endpoints), job)

    async def _look(self) -> bool:
        self.found()
        return self.answers

    def due_after(self) -> float | None:
        """Seconds until this proxy has to write; None: not within ten minutes."""
        for waited in range(600):
            if self.snapshots.check():
                return waited
            self.clock.now += 1
        return None


@one_by_one(
    ("incarnation", "size", "requests", "seconds"),
    [
        ("a", 4999, 49, None),
        ("a", 5000, 1, 0),
        ("a", 1, 50, 0),
        ("b", 5000, 1, 30),  # the older proxy goes first
        ("c", 1, 50, 60),
        ("ended", 5000, 50, None),
    ],
)
def test_when_a_snapshot_is_due(incarnation: str, size: int, requests: int, seconds: int | None) -> None:
    world = World()
    world.subject.incarnation = incarnation
    world.snapshots.check()
    world.subject.apply(5, size, requests)
    assert world.due_after() == seconds
    if incarnation != "ended":
        assert world.snapshots.overdue == (seconds or 0)


def test_a_large_snapshot_needs_a_long_log() -> None:
    world = World()
    world.subject.incarnation = "a"
    world.subject.record = TreeRecord(True, 1, 1, _REF._replace(bytes=9000, nodes=90), None)
    world.snapshots.check()
    world.subject.apply(5, 8999, 89)
    assert world.due_after() is None
    world.subject.apply(6, 1, 0)
    assert world.due_after() == 0


def test_only_the_log_since_the_current_snapshot_counts() -> None:
    world = World()
    subject, snapshots = world.subject, world.snapshots
    subject.replayed = (700, 7)
    snapshots.check()
    assert (snapshots.log_bytes, snapshots.log_requests) == (700, 7)
    for position in (90, 100, 110, 120):
        subject.apply(position, 1000, 10)
        snapshots.check()
    assert (snapshots.log_bytes, snapshots.log_requests) == (4700, 47)
    subject.record = TreeRecord(True, 1, 1, _REF, None)
    snapshots.check()
    assert (snapshots.log_bytes, snapshots.log_requests) == (2000, 20)
    subject.stats.reloads += 1
    subject.replayed = (300, 3)
    snapshots.check()
    assert (snapshots.log_bytes, snapshots.log_requests) == (300, 3)


def test_on_request_and_after_a_fall_back_at_once() -> None:
    world = World()
    world.snapshots.check()
    world.snapshots.want()
    assert world.due_after() == 0
    world = World()
    world.subject.fell_back = True
    assert world.due_after() == 0


class NearlyFull(World):
    """The eldest proxy has just started, on a log of 100 bytes behind two snapshots of 1000.

    Bytes in etcd count a quarter more.
    """

    def __init__(self, nodes: int = 4, etcd: Etcd | None = None) -> None:
        """`nodes`: of the snapshots; the tree has four."""
        super().__init__(etcd)
        self.subject.incarnation = "a"
        self.subject.machine = new_machine(1)
        assert len(self.subject.machine.tree.nodes) == 4
        ref = _REF._replace(nodes=nodes)
        self.subject.record = TreeRecord(True, 1, 1, ref._replace(name="2-a"), ref)
        self.subject.machine.tree.data_size = 100_000
        self.snapshots.check()
        self.apply(100)

    def apply(self, size: int) -> None:
        self.subject.apply(self.subject.position + 1, size, 1)

    def due(self, worth: int, room: int = 5000) -> bool:
        """Whether a snapshot is due, if one of 1100 bytes fits, and this gain is worth two."""
        self.press(worth, room)
        return self.due_after() == 0

    def press(self, worth: int, room: int = 5000) -> None:
        self.subject.pressure = Pressure(4000, room, 1100, worth)

    def written(self, size: int) -> None:
        """A snapshot of the tree as it is now has come."""
        self.snapshots.check()
        record, position = self.subject.record, self.subject.position
        assert record is not None
        current = _REF._replace(name=f"{position}-a", position=position, bytes=size)
        self.subject.record = TreeRecord(True, 1, 1, current, record.current)


def test_a_nearly_full_etcd_gets_snapshots_while_they_free_what_is_missing() -> None:
    world = NearlyFull()
    assert not world.due(120, room=1100)  # there is no room for it before etcd has compacted
    assert not world.due(130)  # both are of this tree
    assert world.due(120)  # the log behind them
    world = NearlyFull(nodes=5)  # since then a node was deleted
    assert not world.due(630)
    assert world.due(620)
    world.written(800)
    world.press(370)
    assert not world.snapshots.check()
    # The second one needs an entry, and no client may be there to send it.
    assert [request.opcode for request in world.subject.outbox.queue] == [OpCode.SYNC]
    world.apply(1)
    assert world.due(370)
    world.written(800)
    world.apply(1)
    assert not world.due(100)
    world.apply(100)
    assert world.due(100)


def test_in_the_last_room_a_snapshot_has_to_free_more_than_it_takes() -> None:
    """Two within six seconds had filled etcd's file."""
    world = NearlyFull()
    last = Pressure(4000, 5000, 1100, 100, is_last=True)
    world.subject.pressure = last
    assert not world.snapshots.check()  # two would free the log of 100
    world.subject.pressure = last._replace(snapshot=899)  # and the older snapshot has 1000
    assert world.snapshots.check()
    world.subject.pressure = last._replace(worth=99)
    assert world.snapshots.check()
    world = NearlyFull(nodes=6)
    world.subject.pressure = last
    assert world.snapshots.check()  # the tree has a third less


def test_a_nearly_full_etcd_whose_tree_has_become_a_little_smaller_gets_two() -> None:
    """Inserts stayed refused behind DROP PARTITION, which had made the tree smaller by a sixth."""
    world = NearlyFull()
    for _ in range(2):
        world.written(1000)
        world.apply(1)
    world.subject.machine.tree.data_size = 80_000
    assert not world.due(510)
    assert world.due(490)
    # A snapshot has what was in the tree at its position, however long it takes to write.
    position = world.subject.position
    world.subject.machine.tree.data_size = 60_000
    world.apply(1)
    world.snapshots.check()
    record = world.subject.record
    assert record is not None
    current = _REF._replace(name="3-a", position=position, bytes=800)
    world.subject.record = TreeRecord(True, 1, 1, current, record.current)
    assert not world.due(760)
    assert world.due(740)
    world.written(600)
    world.apply(1)
    assert world.due(240)
    world.written(600)
    world.apply(1)
    assert not world.due(100)


def test_a_nearly_full_etcd_gets_a_snapshot_for_the_log_that_is_kept() -> None:
    """All requests that make the tree grow were refused for ever: nothing more came into the log."""
    world = NearlyFull()
    world.written(1000)
    world.apply(2000)
    world.written(1000)
    world.apply(1)
    assert not world.due(2510)
    assert world.due(2500)
    world.written(1000)
    world.apply(1)
    assert not world.due(100)


def test_a_snapshot_that_would_make_etcd_full_is_not_written(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    subject = world.subject
    subject.record = TreeRecord(True, 1, 1, _REF, None)
    world.snapshots.check()
    subject.apply(5, 99999, 1)
    subject.pressure = Pressure(4000, 1100, 1100, 1000, is_last=True)
    assert world.due_after() is None
    assert caplog.text.count("etcd has room for") == 1
    subject.outbox.set_full(True)  # then it may be what gives space back
    assert world.due_after() is not None
    subject.outbox.set_full(False)
    world.snapshots.want()
    assert world.due_after() == 0
    subject.pressure = Pressure(4000, 1300, 1100, 1000)
    assert world.due_after() is not None


def test_a_full_etcd_gets_another_snapshot_only_when_it_has_compacted_what_the_last_one_deleted() -> None:
    world = NearlyFull()
    world.subject.outbox.set_full(True)
    assert world.due(100, room=50)
    world.written(1000)
    world.apply(200)
    world.press(100, room=-900)
    assert not world.snapshots.check()
    assert not world.due(100, room=-800)
    assert world.due(100, room=-799)
    world.written(1000)
    world.apply(200)
    assert not world.due(100, room=300)
    world.subject.outbox.set_full(False)
    assert world.due(100)  # there is room


class Writing(NearlyFull):
    """Its snapshots are written at once."""

    def __init__(self, etcd: Etcd) -> None:
        super().__init__(etcd=etcd)
        self.jobs = 0
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        self.press(100)

    async def _run_writer(self, job: Job) -> Answer:
        self.jobs += 1
        if self.meanwhile is not None:
            await self.meanwhile()
        return Failed("it is a test")


async def test_trees_in_a_nearly_full_etcd_write_one_after_the_other() -> None:
    """Six trees saw the same room for one snapshot, in the same second, and filled etcd."""
    store = FakeEtcd()
    first, second = Writing(FakeEtcdClient(store)), Writing(FakeEtcdClient(store))
    assert second.snapshots.check()
    first.meanwhile = second.snapshots.write_in_turn
    await first.snapshots.write_in_turn()
    assert (first.jobs, second.jobs) == (1, 0)
    assert second.due_after() == 5
    second.found = lambda: second.press(100, room=1100)  # which the first one has left
    await second.snapshots.write_in_turn()
    assert second.jobs == 0
    second.found = lambda: second.press(100, room=1101)
    second.found()
    second.answers = False  # the room may be what there was before the first one wrote
    await second.snapshots.write_in_turn()
    assert second.jobs == 0
    assert second.due_after() == 5
    second.answers = True
    await second.snapshots.write_in_turn()
    assert second.jobs == 1
    assert not store.lease_ids
    # None has to wait while there is space, or for an operator's.
    store.lease_grant(SNAPSHOT_LEASE, 60)
    second.snapshots.want()
    await second.snapshots.write_in_turn()
    second.subject.pressure = None
    await second.snapshots.write_in_turn()
    assert second.jobs == 3


async def test_a_writer_ends_as_its_turn_does(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The next tree in this etcd writes then, and there may be room for one."""
    monkeypatch.setattr("proxy.etcd.leases._KEEP_ALIVES", math.inf)
    etcd = FakeEtcdClient(FakeEtcd())
    world = Writing(etcd)

    async def cut_off() -> None:
        etcd.unreachable = True
        world.clock.now += 16
        await asyncio.Event().wait()

    world.meanwhile = cut_off
    await world.snapshots.write_in_turn()
    assert not world.snapshots.stats.running
    assert world.snapshots.stats.failed == 1
    assert caplog.messages == [
        "no snapshot was written: the lease 7a6b657463640001 has run out, by which it was this tree's turn to"
        " write one"
    ]
    assert world.due_after() == 15


def test_an_overdue_snapshot_is_an_alarm(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.subject.incarnation = "nobody"
    world.snapshots.check()
    world.subject.apply(5, 99999, 1)
    for _ in range(4):
        world.due_after()
    assert world.snapshots.overdue > 2000
    assert 1 <= caplog.text.count("a snapshot has been due for") <= 3


# -- with a real etcd ----------------------------------------------------------------------------------------


@pytest.fixture
async def real(etcd_server: EtcdServer, etcd_prefix: str) -> AsyncIterator[World]:
    client = EtcdClient([etcd_server.endpoint])
    world = World()
    world.tree = await Tree(client, etcd_prefix).make()
    await world.tree.come("a", "b")
    await world.tree.fill("a", "x", 60)
    world.endpoints = (etcd_server.endpoint,)
    world.snapshots = world.of(client)
    await adopt(world)
    yield world
    await client.close()


async def adopt(world: World) -> None:
    """The subject is a proxy that has just started."""
    subject = world.subject
    loaded = await load_as_of(world.tree.etcd, world.tree.keys)
    subject.machine = loaded.machine
    subject.record = loaded.caught.record
    subject.position = loaded.caught.revision
    subject.living = LivingProxies()
    for name, revision in world.tree.revisions.items():
        subject.living.add(LivingProxy(name, revision, ProxyValue((1,), "")))


@contextlib.contextmanager
def quick() -> Iterator[None]:
    with mock.patch.object(module, "_TICK", 0.05), mock.patch.object(module, "_FIRST_PAUSE", 0.1):
        yield


async def run_until(snapshots: Snapshots, condition: Callable[[], object]) -> None:
    tasks = Tasks()
    with quick():
        task = tasks.start(snapshots.run(), "write snapshots")
        async with asyncio.timeout(60):
            while not condition() and not task.done():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    if task.done():
        task.result()
    await tasks.close()


async def test_a_child_writes_and_truncates_and_what_is_over_is_forgotten(real: World) -> None:
    tree, snapshots = real.tree, real.snapshots
    stats = snapshots.stats
    snapshots.want()
    await run_until(snapshots, lambda: stats.written == 1)
    assert stats.failed == 0
    first = (await tree.record()).current
    assert first is not None
    assert first.writer == "b"
    await tree.send("b", [Request(Kind.CLOSE, tree.session("a"), 0, (), encode_close("test", ""))])
    await tree.go("a")
    for number in (2, 3):
        await tree.create("b", f"/{number}")
        await adopt(real)
        snapshots.want()
        await run_until(snapshots, lambda number=number: stats.written == number)  # type: ignore[misc]
    record = await tree.record()
    await adopt(real)
    snapshots.want()  # nothing new: only truncation, and what is over
    await run_until(snapshots, lambda: real.subject.outbox.queue)
    assert await tree.record() == record
    assert not await tree.names(*tree.keys.entries_of("a"))
    (forget,) = real.subject.outbox.queue
    assert decode_forget(forget.body).incarnation == "a"
    loaded = await load_as_of(tree.etcd, tree.keys)
    assert loaded.base == record.current
    assert "/x/59" in loaded.machine.tree.nodes


async def test_a_proxy_that_loses_its_lease_while_its_snapshot_is_written(
    real: World, caplog: pytest.LogCaptureFixture
) -> None:
    living, stats = real.subject.living, real.snapshots.stats
    (own,) = [proxy for proxy in living if proxy.incarnation == "b"]
    living.add(own._replace(revision=1))  # not its key's revision
    real.snapshots.want()
    await run_until(real.snapshots, lambda: "no snapshot was written" in caplog.text)
    (told,) = [each for each in caplog.records if each.message.startswith("no snapshot was written")]
    assert told.levelname == "WARNING", "it is routine"
    assert "the incarnation b that the snapshot is written for is over" in told.message
    assert "The eldest living proxy writes one" in told.message
    assert (await real.tree.record()).current is None
    assert (stats.running, stats.failed) == (False, 0)
    living.add(own)
    real.clock.now += 60
    await run_until(real.snapshots, lambda: stats.written)


async def test_a_child_cannot_outlive_its_proxy(real: World) -> None:
    slow = real.of(real.tree.etcd, pace=1.0)
    slow.want()
    tasks = Tasks()
    with quick():
        tasks.start(slow.run(), "write snapshots")
        async with asyncio.timeout(60):
            while not await real.tree.snapshots():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    await tasks.close()
    # What the killed child has left over goes with the next run.
    real.snapshots.want()
    await run_until(real.snapshots, lambda: real.snapshots.stats.written)
    current = (await real.tree.record()).current
    assert current is not None
    assert await real.tree.snapshots() == {current.name}


async def test_a_child_saves_what_deleted_entries_have_done(real: World) -> None:
    tree, snapshots = real.tree, real.of(real.tree.etcd)
    real.subject.incarnation = "a"  # the eldest
    revision = (await tree.etcd.txn(Txn((), (Delete(tree.keys.entry("a", 50)),)), 5)).revision
    assert "/x/59" not in (await load_as_of(tree.etcd, tree.keys)).machine.tree.nodes
    snapshots.entries_gone(EntriesGone("a", 50, 50, revision))
    await run_until(snapshots, lambda: snapshots.stats.written)
    current = (await tree.record()).current
    assert current is not None
    assert current.position == revision - 1
    assert "/x/59" in (await load_as_of(tree.etcd, tree.keys)).machine.tree.nodes


async def test_a_child_without_python_is_told(real: World, caplog: pytest.LogCaptureFixture) -> None:
    real.snapshots.want()
    with mock.patch("sys.executable", "/no/such/python"):
        await run_until(real.snapshots, lambda: real.snapshots.stats.failed)
    assert "/no/such/python cannot be started" in caplog.text


async def test_nothing_is_forgotten_by_a_snapshot_that_cannot_be_read() -> None:
    world = World()
    world.subject.record = TreeRecord(True, 1, 1, None, _REF)
    world.subject.machine.applied["gone"] = 7
    await world.snapshots._forget()
    assert not world.subject.outbox.queue


async def test_a_child_that_says_nothing_has_failed() -> None:
    with mock.patch.object(module, "_WRITER", "proxy.version"):
        answer = await run_process(Access(()), Job("/t"))
    assert answer == Failed("the snapshot writer ended with status 0, without an answer")


async def test_a_replay_settles_whose_digest_is_wrong(real: World, caplog: pytest.LogCaptureFixture) -> None:
    snapshots = real.of(real.tree.etcd)
    entries, digest = real.subject.machine.last_checkpoint
    assert await snapshots.judge(Disagreement("a", entries, digest ^ 1, digest)) is True
    assert "the state of the proxy a is wrong" in caplog.text
    assert real.subject.distrusted == 0
    assert await snapshots.judge(Disagreement("a", entries, digest, digest ^ 1)) is False
    assert real.subject.distrusted == 1
    assert await snapshots.judge(Disagreement("a", 1 << 40, 1, 2)) is None


async def test_a_replay_says_nothing_of_a_state_that_was_loaded_since(real: World) -> None:
    """Else the proxy would load its tree again and again, once for each proxy that disagreed before."""
    snapshots = real.of(real.tree.etcd)
    entries, digest = real.subject.machine.last_checkpoint
    judging = asyncio.ensure_future(snapshots.judge(Disagreement("a", entries, digest, digest ^ 1)))
    await asyncio.sleep(0)
    real.subject.stats.reloads += 1
    assert await judging is None
    assert real.subject.distrusted == 0
