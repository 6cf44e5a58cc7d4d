"""Applying: in slices, in order, and what the outside sees of it."""

import asyncio
import math
import re
from typing import cast
from unittest import mock

import pytest

from codec import client as zk
from codec.constants import ErrorCode, EventType, KeeperOpCode, OpCode
from codec.jute import INT, pack_string
from proxy.log.append.outbox import Outbox
from proxy.log.append.pending import Pending
from proxy.log.append.sent import EntryHeader, Sent
from proxy.log.applier import Applier, Broken, BudgetSpent, Notice, RoomFreed
from proxy.log.context import Context, SessionKeeper
from proxy.log.follow.log_order import Apply, ProxyCame, ProxyGone
from proxy.log.record import TreeNotServable
from proxy.log.slices import StateWorker
from proxy.log.status import Stats
from proxy.state import capture
from proxy.state.digest import Digest
from proxy.state.level import UnknownLevel
from proxy.state.notifications import Notifications
from proxy.state.outcome import CarriedOver, Disagreement, QuotaExceeded, SearchRefused, SessionChange
from proxy.state.watches import WatchTable
from proxy.support.tasks import Tasks
from schema.entry import Kind, Request, Rules, encode_carry_over, encode_level
from schema.keys import Keyspace
from tests.proxy.log.proxies import until
from tests.proxy.log.trees import asked, created, opened, value_of

OPEN = opened(1)


def creation(path: str) -> Request:
    return created(1, path)


def entry(*requests: Request, checkpoint: int = 0, digest: int = 0) -> bytes:
    return value_of(requests, checkpoint, digest)


class World:
    """An applier; its effects are this."""

    def __init__(self, slice_seconds: float = 60.0) -> None:
        self.machine = capture.new_machine(1)
        self.watches = WatchTable()
        self.outbox = Outbox()
        self.stats = Stats()
        self.told: list[str] = []
        self.disagreements: list[Disagreement] = []
        self.failures: list[Exception] = []
        self.worker = StateWorker(seconds=slice_seconds)
        context = Context(mock.Mock(), Keyspace("/t"), Tasks(), self.machine, self.stats)
        self.applier = Applier(
            context, self.watches, self.outbox, cast(SessionKeeper, self), self.notice, self.worker
        )
        self.outbox.begin_incarnation("me")
        self.position = 10

    # Effects

    def session_changed(self, change: SessionChange) -> None:
        self.told.append(f"session {change.session_id} {change.incarnation}")

    def all_changed(self, carried: CarriedOver) -> None:
        for session_id in carried.session_ids:
            self.told.append(f"session {session_id} {carried.incarnation}")
            if carried.incarnation != "me":  # as `frontend.sessions`
                self.machine.transaction.pause()

    def notice(self, notice: Notice) -> None:
        match notice:
            case Disagreement():
                self.disagreements.append(notice)
            case Broken(error):
                self.failures.append(error)
            case RoomFreed():
                self.told.append("appended")
            case QuotaExceeded(path, _):
                self.told.append(f"quota {path}")
            case SearchRefused(path, session_id):
                self.told.append(f"search {path} {session_id}")
            case BudgetSpent(path):
                self.told.append(f"budget {path}")
            case ProxyCame() | ProxyGone():
                self.told.append(type(notice).__name__)

    # A watcher

    session_id = 1
    identities = ()

    def notify(self, notifications: Notifications) -> None:
        self.told += [
            f"{EventType(kind).name} {path} {notifications.zxid}" for kind, path in notifications.events
        ]

    # What a test does

    def foreign(self, number: int, *requests: Request, value: bytes = b"") -> Apply:
        self.position += 1
        return Apply(self.position, "other", number, value or entry(*requests))

    def submit(self, request: Request) -> Pending:
        def done(pending: Pending, zxid: int, error: int, body: bytes) -> None:
            self.told.append(f"reply {zxid} {error}")

        pending = Pending(*request, callback=done)
        self.outbox.queue.append(pending)
        return pending

    def feed_own(self, *requests: Request) -> None:
        """These are requests of this proxy, in one entry that the log shows."""
        for request in requests:
            self.submit(request)
        self.applier.apply([self.cut()[1]])

    def cut(self) -> tuple[Sent, Apply]:
        sent = self.outbox.cut(EntryHeader(1000, 0, 0, 0))
        assert sent is not None
        self.position += 1
        return sent, Apply(self.position, "me", sent.number, sent.value)


@pytest.fixture
async def world() -> World:
    return World()


async def test_entries_of_others_change_the_state_and_fire_watches(world: World) -> None:
    world.watches.data.add("/x", world)
    world.applier.apply([world.foreign(1, OPEN, creation("/x"))])
    assert world.told == ["session 1 other", "NODE_CREATED /x 2"]
    assert "/x" in world.machine.tree.nodes
    assert (world.applier.position, world.stats.applied_requests) == (11, 2)
    assert world.stats.applied_entries == world.machine.entries == 1
    assert world.applier.peers.get("other") is not None


async def test_a_snapshot_is_due_by_what_a_replay_costs(world: World) -> None:
    """A long multi, and long data, take few bytes in the log. The cost is the same at each proxy."""
    repeated = asked(1, zk.multi([zk.set_data("/x", b"") for _ in range(2000)]))
    refused = asked(1, zk.multi([zk.check("/none", 0)] * 1000))
    requests = OPEN, creation("/x"), repeated, refused
    item = world.foreign(1, *requests)
    assert len(item.value) < 2000
    world.applier.apply([item])
    assert (world.stats.applied_requests, world.stats.applied_cost) == (4, 3004)
    world = World()
    world.feed_own(*requests)
    assert world.stats.applied_cost == 3004
    world.feed_own(creation("/y"))
    assert world.stats.applied_cost == 3005
    world.feed_own(asked(1, zk.set_data("/x", bytes(102400))))
    assert world.stats.applied_cost == 3105


async def test_own_requests_are_answered_between_events_and_changes_of_sessions(world: World) -> None:
    for path in ("/x", "/y"):
        world.watches.data.add(path, world)
    world.feed_own(OPEN, creation("/x"), creation("/y"), creation("/x"))
    assert world.told == [
        "reply 1 0",
        "session 1 me",
        "NODE_CREATED /x 2",
        "reply 2 0",
        "NODE_CREATED /y 3",
        "reply 3 0",
        f"reply 4 {ErrorCode.NODE_EXISTS}",
        "appended",
    ]
    assert world.outbox.outstanding == 0
    assert world.applier.peers.get("me") is None


async def test_a_request_that_exceeds_a_quota_very_often_is_told_a_few_times(world: World) -> None:
    quota = "/zookeeper/quota/q"
    limits, stats = f"{quota}/zookeeper_limits", f"{quota}/zookeeper_stats"
    world.feed_own(OPEN, creation("/q"), creation(quota), created(1, limits, b"count=1"), creation(stats))
    world.told.clear()
    world.feed_own(asked(1, zk.multi([zk.create(f"/q/{number}") for number in range(100)])))
    assert world.told.count("quota /q") == 16


async def test_a_watch_set_by_a_reply_hears_of_the_next_request(world: World) -> None:
    world.submit(OPEN)
    first = world.submit(creation("/x"))
    world.submit(creation("/y"))
    done = first.callback

    def read(*arguments: object) -> None:
        done(*arguments)  # type: ignore[arg-type]
        world.watches.data.add("/y", world)

    first.callback = read
    world.applier.apply([world.cut()[1]])
    assert world.told[2:] == ["reply 2 0", "NODE_CREATED /y 3", "reply 3 0", "appended"]


async def test_what_the_replacement_left_out_is_refused_in_its_turn(world: World) -> None:
    world.applier.apply([world.foreign(1, OPEN)])
    world.told.clear()
    world.submit(creation("/x"))
    world.submit(Request(Kind.CLIENT, 1, OpCode.SYNC, (), pack_string("/")))
    world.submit(creation("/y"))
    sent, _ = world.cut()
    world.outbox.set_full(True)
    world.outbox.no_space(sent)
    world.submit(creation("/z"))
    assert world.outbox.cut(EntryHeader(0, 0, 0, 0)) is None
    world.applier.apply([Apply(20, "me", 1, sent.value)])
    refused = f"reply 1 {ErrorCode.SYSTEM_ERROR}"
    # The session is another proxy's, so the sync has moved.
    assert world.told == [refused, f"reply 1 {ErrorCode.SESSION_MOVED}", refused, refused, "appended"]
    assert world.stats.replaced == 1


async def test_what_somebody_else_put_under_our_number_is_applied_and_nobody_answered(world: World) -> None:
    world.submit(OPEN)
    world.cut()
    world.applier.apply([Apply(20, "me", 1, entry(OPEN, creation("/x")))])
    assert "/x" in world.machine.tree.nodes
    assert world.told == ["session 1 me", f"reply 2 {ErrorCode.CONNECTION_LOSS}", "appended"]
    assert world.outbox.outstanding == 0


async def test_long_entries_are_applied_in_slices_each_a_true_state() -> None:
    world = World(slice_seconds=0.0)
    seen: list[int] = []
    world.applier.apply([world.foreign(1, OPEN, *[creation(f"/x{number}") for number in range(20)])])
    while world.machine.entries == 0:
        seen.append(len(world.machine.tree.nodes))
        await asyncio.sleep(0)
    assert len(seen) >= 20
    assert seen == sorted(seen)
    await world.applier.worker.drained()
    assert world.applier.backlog == 0


def _multi(*paths: str) -> Request:
    return asked(1, zk.multi([zk.create(path) for path in paths]))


_MANY = [f"/x{number}" for number in range(2000)]


async def _partially_applied(worker: StateWorker) -> None:
    for _ in range(1000):
        if not worker.is_whole:
            return
        await asyncio.sleep(0)
    raise AssertionError("it was done at a stretch")


async def test_a_long_request_is_applied_in_slices_and_shown_at_its_end() -> None:
    world = World(slice_seconds=0.0)
    for path in ("/x5", "/x1999"):
        world.watches.data.add(path, world)
    world.feed_own(OPEN, _multi(*_MANY), creation("/y"))
    machine, worker = world.machine, world.worker
    called: list[int] = []
    seen: list[int] = []
    await _partially_applied(worker)
    worker.when_whole(lambda: called.append(machine.zxid))
    while not worker.is_whole:
        assert "reply 2 0" not in world.told
        seen.append(len(machine.tree.nodes))
        await asyncio.sleep(0)
    assert len(set(seen)) >= 3, "it was done at a stretch"
    await world.applier.worker.drained()
    assert called == [2], "what waits has its turn before the next request"
    assert world.told == [
        "reply 1 0",
        "session 1 me",
        "NODE_CREATED /x5 2",
        "NODE_CREATED /x1999 2",
        "reply 2 0",
        "reply 3 0",
        "appended",
    ]


@pytest.mark.parametrize("own", [True, False])
async def test_whose_request_took_long_to_apply_is_logged_and_counted(
    own: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("proxy.log.applier._LONG", math.inf)
    monkeypatch.setattr("proxy.log.applier._LONG", math.inf)
    world = World(slice_seconds=0.0)
    world.watches.data.add("/x5", world)
    requests = (OPEN, creation("/y"), _multi(*_MANY))
    if own:
        world.feed_own(*requests)
    else:
        world.applier.apply([world.foreign(1, *requests)])
    await world.applier.worker.drained()
    assert world.stats.long_requests == 1
    assert world.stats.long_seconds > 0
    assert not world.machine.transaction.events, "they may be very many"
    assert not caplog.messages, "none is logged for a few slices"
    monkeypatch.setattr("proxy.log.applier._LONG", 0.0)
    failing = _multi(*(f"/z{number}" for number in range(600)), "/y")
    world.applier.apply([world.foreign(1 + (not own), opened(2), failing._replace(session_id=2))])
    await world.applier.worker.drained()
    assert world.stats.long_requests == 2
    (line,) = caplog.messages
    assert re.fullmatch(
        "applying took long: MULTI of session 0x2 took [0-9]+ ms, with 600 changes and 0 watch events", line
    )
    assert world.machine.transaction.many == (0, 0), "an ATTACH behind it has the same zxid"


async def test_a_search_that_is_refused_for_what_others_searched_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.state.transaction.IN_VAIN", 0)
    world.feed_own(OPEN, creation("/a"), _multi(*(f"/a/{number}" for number in range(9))))
    world.told.clear()
    body = pack_string("/a") + INT.pack(100)
    world.submit(Request(Kind.CLIENT, 1, KeeperOpCode.REMOVE_RECURSIVE, (), body))
    sent = world.outbox.cut(EntryHeader(1000, int(Rules.KEEPER), 0, 0))
    assert sent is not None
    world.applier.apply([Apply(20, "me", sent.number, sent.value)])
    assert world.told == [f"reply 4 {int(ErrorCode.NOT_EMPTY)}", "search /a 1", "appended"]


async def test_nothing_is_applied_while_somebody_holds_the_state(world: World) -> None:
    world.submit(OPEN)
    first = world.submit(creation("/x"))
    world.submit(creation("/y"))
    done = first.callback

    def hold(*arguments: object) -> None:
        done(*arguments)  # type: ignore[arg-type]
        world.worker.hold()

    first.callback = hold
    world.applier.apply([world.cut()[1]])
    world.worker.hold()
    world.worker.release()
    for _ in range(5):
        await asyncio.sleep(0)
        world.applier.apply([world.foreign(1 + world.applier.backlog, OPEN)])
    assert world.machine.zxid == 2
    world.worker.release()
    assert world.machine.zxid == 2, "not in the same turn"
    await world.applier.worker.drained()
    assert world.machine.zxid == 3
    world.worker.hold()
    world.worker.release()
    await world.applier.worker.drained()


async def test_a_long_request_that_cannot_be_applied_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(slice_seconds=0.0)
    world.applier.apply([world.foreign(1, OPEN, _multi(*_MANY))])
    async with asyncio.timeout(20):
        while world.worker.is_whole:  # noqa: ASYNC110 - a look each 5 ms may miss it
            await asyncio.sleep(0)
    monkeypatch.setattr(Digest, "settle", None)
    await until(lambda: bool(world.failures))
    assert world.worker.is_whole


async def test_what_is_fed_meanwhile_waits_its_turn() -> None:
    world = World(slice_seconds=0.0)
    world.feed_own(OPEN, *(creation(f"/x{number}") for number in range(5)))
    world.applier.apply([ProxyGone("other", 30), ProxyCame("third", 31, b"")])
    await world.applier.worker.drained()
    assert world.told[-3:] == ["appended", "ProxyGone", "ProxyCame"]


async def test_a_callback_that_raises_ends_the_server(world: World) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("test")

    world.submit(OPEN).callback = fail
    world.submit(creation("/x"))
    world.applier.apply([world.cut()[1]])
    assert world.applier.broken
    assert [repr(failure) for failure in world.failures] == ["RuntimeError('test')"]


async def test_a_lack_of_memory_is_left_to_the_loop(world: World) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    world.submit(OPEN).callback = fail
    with pytest.raises(MemoryError):
        world.applier.apply([world.cut()[1]])
    assert world.applier.broken
    assert world.failures == []


async def test_an_unreadable_entry_and_an_unknown_level_end_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.applier.apply([world.foreign(1, OPEN), world.foreign(2, value=b"nonsense"), world.foreign(3, OPEN)])
    (failure,) = world.failures
    assert isinstance(failure, TreeNotServable)
    assert "zketcd void other 2" in str(failure)
    assert world.applier.broken
    world.applier.apply([world.foreign(4, OPEN)])
    assert world.machine.applied == {"other": 1}
    await world.applier.worker.drained()
    world = World()
    world.applier.apply([world.foreign(1, Request(Kind.LEVEL, 0, 0, (), encode_level(9)))])
    assert [type(failure) for failure in world.failures] == [UnknownLevel]
    assert caplog.records == []  # the caller that gets the failure reports it


async def test_another_digest_is_reported(world: World) -> None:
    for number in range(1, 33):
        world.applier.apply([world.foreign(number)])
    entries, ours = world.machine.last_checkpoint
    world.applier.apply([world.foreign(33, value=entry(checkpoint=entries, digest=ours))])
    assert world.disagreements == []
    world.applier.apply([world.foreign(34, value=entry(checkpoint=entries, digest=ours ^ 1))])
    assert world.disagreements == [Disagreement("other", entries, ours ^ 1, ours)]
    assert world.stats.disagreements == 1


@pytest.mark.parametrize("lost", [True, False])
async def test_proxies_with_different_logs_disagree(lost: bool) -> None:
    """etcd's members differ after a crash (issues 13766, 14370 and others): one has lost an entry."""
    one, two = World(), World()
    for world, left_out in ((one, False), (two, lost)):
        last = [] if left_out else [Apply(20, "crashed", 1, entry(opened(2), created(2, "/lost")))]
        world.applier.apply([world.foreign(1, OPEN, creation("/kept")), *last])
        world.applier.apply([world.foreign(number) for number in range(2, 70)])
    entries, digest = one.machine.last_checkpoint
    two.applier.apply([two.foreign(70, value=entry(checkpoint=entries, digest=digest))])
    assert [each.incarnation for each in two.disagreements] == ["other"] * lost


async def test_a_loaded_state_is_told_as_its_difference(world: World) -> None:
    world.applier.apply([world.foreign(1, OPEN, creation("/x"), creation("/gone"))])
    world.told.clear()
    for path in ("/own", "/later"):
        world.submit(creation(path))
        world.cut()
    other = World()
    other.applier.apply(
        [
            other.foreign(1, OPEN, creation("/x")),
            Apply(20, "me", 1, entry(creation("/own"))),
            other.foreign(2, opened(2), creation("/new")),
        ]
    )
    for path in ("/x", "/gone", "/new"):
        world.watches.data.add(path, world)
    await world.applier.become(other.machine, lambda: world.told.append("replaced"))
    zxid = other.machine.zxid
    told = {f"NODE_DELETED /gone {zxid}", f"NODE_CREATED /new {zxid}", "session 2 other"}
    assert set(world.told[:-1]) == told | {f"reply {zxid} {ErrorCode.CONNECTION_LOSS}"}
    assert (len(world.told), world.told[-1]) == (5, "replaced")
    assert set(world.machine.tree.nodes) == set(other.machine.tree.nodes)
    assert world.outbox.outstanding == 1
    assert world.stats.reloads == 1


@pytest.mark.long
@pytest.mark.parametrize("own", [True, False])
async def test_the_events_of_a_short_request_for_very_many_are_told_in_slices(own: bool) -> None:
    world = World(slice_seconds=0.0)
    heard: list[int] = []
    listeners = [mock.Mock(session_id=2, notify=lambda told: heard.append(told.zxid)) for _ in range(2000)]
    for listener in listeners:
        world.watches.data.add("/x", listener)
    requests = OPEN, creation("/x"), creation("/y")
    if own:
        world.feed_own(*requests)
    else:
        world.applier.apply([world.foreign(1, *requests)])
    await _partially_applied(world.worker)
    called: list[int] = []
    world.worker.when_whole(lambda: called.append(len(heard)))
    notified = set()
    while not world.worker.is_whole:
        notified.add(len(heard))
        assert "reply 2 0" not in world.told
        await asyncio.sleep(0)
    assert len(notified) >= 3, "they were notified at a stretch"
    await world.applier.worker.drained()
    assert called == [len(listeners)]
    assert heard == [2] * len(listeners)
    assert world.machine.zxid == 3
    assert not own or world.told[-3:] == ["reply 2 0", "reply 3 0", "appended"]


async def test_the_changes_of_very_many_sessions_are_reported_in_slices() -> None:
    world = World(slice_seconds=0.0)
    world.applier.apply([world.foreign(1, *(opened(number) for number in range(1, 101)))])
    await world.applier.worker.drained()
    world.told.clear()
    carry = Request(Kind.CARRY_OVER, 0, 0, (), encode_carry_over("other"))
    world.applier.apply([world.foreign(2, carry, opened(1000), created(1000, "/x"))])
    reported = set()
    while (count := sum(told.startswith("session") for told in world.told)) < 100:
        assert world.worker.is_whole or not count
        reported.add(count)
        await asyncio.sleep(0)
        if len(reported) == 2:
            world.watches.data.add("/x", world)
    assert len(reported) >= 3, "they were reported at a stretch"
    await world.applier.worker.drained()
    assert [told for told in world.told if told.startswith("NODE")] == ["NODE_CREATED /x 102"]


async def test_who_holds_the_state_where_sessions_are_carried_over_has_all_changes() -> None:
    """A process that takes over finds the sessions of its clients then."""
    world = World(slice_seconds=0.0)
    world.applier.apply([world.foreign(1, *(opened(number) for number in range(1, 101)))])
    await world.applier.worker.drained()
    world.told.clear()
    carry = world.submit(Request(Kind.CARRY_OVER, 0, 0, (), encode_carry_over("other")))
    carry.callback = lambda *_: world.worker.hold()
    world.submit(opened(1000))
    world.applier.apply([world.cut()[1]])
    for _ in range(5):
        await asyncio.sleep(0)
    assert sorted(world.told) == sorted(f"session {number} me" for number in range(1, 101))
    world.worker.release()
    await world.applier.worker.drained()
    assert len(world.told) == 103


class Loading(World):
    """A state of many watched nodes, and another one that is loaded in its place."""

    def __init__(self) -> None:
        super().__init__(slice_seconds=0.0)
        self.loaded = World()
        self.applier.apply([self.foreign(1, OPEN, _multi(*_MANY))])
        self.loaded.applier.apply([self.loaded.foreign(1, OPEN), self.loaded.foreign(2, creation("/new"))])

    def replaced(self) -> None:
        assert not self.worker.is_whole, "a client could read already"

    async def ready(self) -> None:
        await self.applier.worker.drained()
        self.told.clear()
        for path in (*_MANY, "/new"):
            self.watches.data.add(path, self)


async def test_a_state_is_compared_in_slices_and_then_told_while_nobody_reads() -> None:
    world = Loading()
    await world.ready()
    machine = world.machine
    former = machine.tree.nodes
    becoming = asyncio.ensure_future(world.applier.become(world.loaded.machine, world.replaced))
    stages = []
    while not becoming.done():
        await asyncio.sleep(0)
        stages.append((machine.tree.nodes is former, world.worker.is_whole))
        if stages[-1][0]:
            assert world.told == [], "clients still read the former state"
    assert list(dict.fromkeys(stages)) == [(True, True), (False, False), (False, True)]
    assert all(stages.count(stage) >= 2 for stage in set(stages)), "it was done at a stretch"
    zxid = world.loaded.machine.zxid
    assert world.told.count(f"NODE_CREATED /new {zxid}") == 1
    assert len(world.told) == len(_MANY) + 1
    assert former == {}, "the former nodes were let go"
    assert set(machine.tree.nodes) == set(world.loaded.machine.tree.nodes)


async def test_no_state_takes_the_place_of_one_that_somebody_holds() -> None:
    """A long read is one moment, and watches that it sets are those of the state that it has read."""
    world = Loading()
    await world.ready()
    former = world.machine.tree.nodes
    world.worker.hold()
    becoming = asyncio.ensure_future(world.applier.become(world.loaded.machine, world.replaced))
    for _ in range(100):
        await asyncio.sleep(0)
        assert world.machine.tree.nodes is former
    world.worker.release()
    await becoming
    assert "/new" in world.machine.tree.nodes
