"""A proxy whose stream hangs while etcd answers all else stops serving, and goes on when it has caught up."""

import asyncio
from unittest import mock

import pytest

from lab.fakes.clock import FakeClock
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.etcd.model import EtcdRefused, EtcdUnknown, Put, RefusalKind, Txn
from proxy.log.follow import staleness as module
from proxy.log.follow.follower import Apply, Follower
from proxy.log.follow.staleness import Staleness
from proxy.log.follow.watch_guard import WatchGuard
from proxy.log.start import load
from proxy.state.machine import Machine
from proxy.support.tasks import Tasks
from schema.entry import decode_entry
from tests.proxy.log.proxies import until
from tests.proxy.log.trees import Tree

_NO_ANSWER = EtcdUnknown("no answer")


class World:
    """A proxy's follower and machine, fed by hand, and a clock."""

    def __init__(self) -> None:
        self.store = FakeEtcd()
        self.client = FakeEtcdClient(self.store)
        self.tree = Tree(FakeEtcdClient(self.store))
        self.follower = Follower(self.tree.keys)
        self.machine: Machine
        self.clock = FakeClock(1000.0)
        self.stops: list[str] = []
        self.guard = mock.Mock(spec=WatchGuard)
        self.guard.left_out = lambda: self.left_out.append(self.clock.now)
        self.left_out: list[float] = []
        self.staleness: Staleness

    async def start(self) -> "World":
        await self.tree.make()
        await self.tree.come("a", "b")
        loaded = await load(self.client, self.tree.keys)
        self.machine = loaded.machine
        self.follower.restart(loaded.machine.applied)
        caught = loaded.caught
        self.follower.catch_up(caught.revision, caught.entries, caught.proxies, caught.pair)
        self.staleness = Staleness(
            self.client,
            self.follower,
            self.machine,
            self.guard,
            self.stops.append,
            limit=3.0,
            clock=self.clock,
        )
        return self

    def follow(self) -> None:
        """The stream catches up."""
        for events in self.store.history_from(self.follower.revision + 1):
            for item in self.follower.items_of(events):
                if isinstance(item, Apply):
                    self.machine.apply(item.incarnation, item.number, decode_entry(item.value))

    def catch_up(self) -> None:
        self.follow()
        self.staleness.judge()

    @property
    def seen(self) -> tuple[bool, int]:
        """Whether clients may see the state, and how often it was taken from them."""
        return self.staleness.serving, len(self.stops)

    @property
    def expected(self) -> list[bool]:
        """Of each answer that the watch had not shown at once: whether it has now."""
        return [call.args[0]() for call in self.guard.expect.call_args_list]

    async def seconds(self, count: int = 1) -> None:
        for _ in range(count):
            self.clock.now += 1
            await self.staleness.probe()


@pytest.fixture
async def world() -> World:
    """A proxy that serves."""
    world = await World().start()
    assert not world.staleness.serving
    await world.staleness.probe()
    assert world.seen == (True, 0)
    return world


async def test_a_stream_that_hangs(world: World) -> None:
    await world.tree.create("a", "/1")
    await world.seconds(4)
    assert world.seen == (True, 0)
    await world.seconds()
    assert world.seen == (False, 1)
    world.catch_up()
    assert world.seen == (True, 1)
    assert world.staleness.age == 0


async def test_the_watch_has_to_show_soon_what_a_question_has_found(world: World) -> None:
    """Though this proxy writes nothing."""
    for path in ("/1", "/2"):
        await world.tree.create("a", path)
    await world.seconds()
    await world.tree.create("b", "/3")
    await world.seconds()
    assert world.expected == [False, False]
    first, second, third = world.store.history_from(world.follower.revision + 1)
    world.follower.items_of(first)
    assert world.expected == [False, False]
    world.follower.items_of(second)
    assert world.expected == [True, False]
    world.follower.items_of(third)
    assert world.expected == [True, True]


async def test_a_watch_that_shows_everything_is_not_looked_at(world: World) -> None:
    await world.tree.create("a", "/1")
    world.follow()
    await world.seconds(2)
    assert world.expected == []


async def test_what_was_loaded_or_read_since_the_watch_need_not_show(world: World) -> None:
    await world.tree.come("c")
    await world.tree.create("a", "/1")
    await world.seconds()
    world.follow()
    world.follower.revision = 1  # as after a restore of etcd
    assert world.expected == [False]
    world.follower.revision = world.store.revision
    await world.seconds()
    world.follower.revision = 1
    assert world.expected == [True]


async def test_a_state_that_lags_behind_its_stream_needs_no_other_watch(world: World) -> None:
    await world.tree.create("a", "/1")
    for events in world.store.history_from(world.follower.revision + 1):
        world.follower.items_of(events)  # and nothing is applied
    await world.seconds(10)
    assert world.seen == (False, 1)
    assert world.expected == []


async def test_a_stream_that_lags_but_flows(world: World) -> None:
    """Always behind, but never by more than the limit."""
    for count in range(20):
        await world.tree.create("a", f"/{count}")
        await world.seconds()
        if count % 2:
            world.catch_up()
    assert world.seen == (True, 0)


@pytest.mark.parametrize("change", ["came", "gone"])
async def test_proxies_that_the_stream_does_not_show(world: World, change: str) -> None:
    if change == "came":
        await world.tree.come("c")
    else:
        await world.tree.go("a")
    await world.seconds(5)
    assert world.seen == (False, 1)
    assert world.expected == [False] * 5
    world.catch_up()
    assert world.seen == (True, 1)
    assert world.expected == [True] * 5


async def test_an_entry_that_waits_for_its_predecessor_is_not_missing(world: World) -> None:
    await world.tree.send("a", [], number=7)
    world.follow()
    await world.seconds(10)
    assert world.seen == (True, 0)
    await world.tree.go("a")
    world.follow()
    await world.seconds()
    assert world.staleness.serving


async def test_what_the_watch_leaves_out_is_found_by_the_next_question(world: World) -> None:
    """etcd's issue 17529: an entry; that later ones wait for it does not hide that."""
    await world.tree.create("a", "/left-out")
    left_out = world.store.revision
    for path in ("/waits", "/waits too"):
        await world.tree.create("a", path)
    await world.tree.create("b", "/in-time")
    for events in world.store.history_from(left_out + 1):
        world.follower.items_of(events)
    assert world.left_out == []
    await world.seconds()
    assert world.left_out == [world.clock.now]


async def test_a_new_proxy_that_the_watch_leaves_out_is_found(world: World) -> None:
    """Its sessions would be ended as those of a dead proxy."""
    await world.tree.come("c")
    await world.tree.create("a", "/1")
    for events in world.store.history_from(world.store.revision):
        world.follower.items_of(events)
    await world.seconds()
    assert world.left_out == [world.clock.now]


async def test_keys_among_the_proxies_that_are_not_ours_are_ignored(world: World) -> None:
    for name in (b"", b"a/b"):
        world.store.txn(Txn((), (Put(world.tree.keys.proxies + name, b"something"),)))
    world.catch_up()
    await world.seconds(5)
    assert (world.left_out, world.seen) == ([], (True, 0))


async def test_what_the_watch_has_not_come_to_is_not_left_out(world: World) -> None:
    await world.tree.come("c")
    await world.tree.create("a", "/1")
    await world.tree.create("c", "/2")
    await world.seconds()
    assert world.left_out == []


async def test_an_old_answer_proves_nothing(world: World) -> None:
    """etcd's issue 20418: it would say that this proxy has everything."""
    await world.tree.create("a", "/1")
    world.catch_up()
    caught_up_at = world.staleness.caught_up_at
    world.follower.revision += 1  # as if etcd had shown more
    world.clock.now += 1
    with pytest.raises(EtcdUnknown):
        await world.staleness.probe()
    assert world.staleness.caught_up_at == caught_up_at


async def test_a_state_that_is_wrong_is_shown_to_no_client_until_it_was_loaded_anew(world: World) -> None:
    world.staleness.distrust()
    await world.seconds()
    assert world.seen == (False, 1)
    world.staleness.trust()
    assert world.seen == (True, 1)


async def test_while_etcd_answers_nothing_clients_are_served_on(world: World) -> None:
    world.client.disconnect()
    for _ in range(10):
        asked = world.clock.now
        with pytest.raises(EtcdUnknown):
            await world.seconds()
        world.staleness.unanswered(asked, _NO_ANSWER)
        world.staleness.judge()
    assert world.seen == (True, 0)
    world.client.reconnect()
    await world.staleness.probe()
    assert world.seen == (True, 0)


def _answer_all_but_the_question(world: World) -> None:
    """Let etcd do so for five seconds."""
    for _ in range(5):
        asked = world.clock.now
        world.clock.now += 1
        world.client.last_contact = world.clock.now
        world.staleness.unanswered(asked, _NO_ANSWER)
        world.staleness.judge()


async def test_an_etcd_that_answers_everything_but_the_question(world: World) -> None:
    _answer_all_but_the_question(world)
    assert world.seen == (False, 1)
    await world.staleness.probe()
    assert world.seen == (True, 1)


async def test_an_etcd_that_refuses_the_question(world: World) -> None:
    """It refuses at once, and nothing else is asked meanwhile."""
    for _ in range(5):
        asked = world.clock.now
        world.clock.now += 1
        world.staleness.unanswered(asked, EtcdRefused(RefusalKind.PERMISSION, "permission denied"))
        world.staleness.judge()
    assert (world.seen, world.staleness.cut_off) == ((False, 1), True)
    assert "permission denied" in world.stops[0]
    await world.staleness.probe()
    assert (world.seen, world.staleness.cut_off) == ((True, 1), False)


async def test_silence_is_no_reason_to_serve_again(world: World) -> None:
    """Clients had been sent away while etcd answered other requests; now it answers none."""
    _answer_all_but_the_question(world)
    for _ in range(5):
        world.clock.now += 1
        world.staleness.unanswered(world.clock.now, _NO_ANSWER)
        world.staleness.judge()
    assert (world.seen, world.staleness.cut_off) == ((False, 1), True)


async def test_applying_that_falls_further_and_further_behind(world: World) -> None:
    """The next entry is always applied in time, but there are more and more behind it."""
    entries = []
    for _ in range(12):
        for count in range(3):
            await world.tree.create("a", f"/{world.clock.now}-{count}")
        for events in world.store.history_from(world.follower.revision + 1):
            entries += [item for item in world.follower.items_of(events) if isinstance(item, Apply)]
        await world.seconds()
        item = entries.pop(0)
        world.machine.apply(item.incarnation, item.number, decode_entry(item.value))
        world.staleness.judge()
    assert not world.staleness.serving


async def test_many_proxies_take_several_txns(world: World) -> None:
    await world.tree.come(*(f"p{number}" for number in range(20)))
    world.follow()
    with mock.patch.object(module, "MOST_OPS", 8):
        await world.staleness.probe()
        assert world.staleness.serving
        await world.tree.create("p19", "/1")
        await world.seconds(5)
        assert not world.staleness.serving


async def test_it_asks_by_itself(world: World) -> None:
    tasks = Tasks()
    with mock.patch.object(module, "_INTERVAL", 0.01), mock.patch.object(module, "_TICK", 0.005):
        tasks.start(world.staleness.run(), "ask")
        await until(lambda: world.staleness.serving)
        await world.tree.create("a", "/1")
        await asyncio.sleep(0.05)
        world.clock.now += 4
        await until(lambda: not world.staleness.serving)
        world.follow()
        await until(lambda: world.staleness.serving)
    world.guard.stop.assert_not_called()
    await tasks.close()
    world.guard.stop.assert_called_once()


async def test_what_ends_it_is_raised_as_it_is(world: World) -> None:
    """The archiver starts again by an exception that `left_out` raises."""

    class Restart(Exception):
        pass

    with mock.patch.object(world.staleness, "probe", side_effect=Restart), pytest.raises(Restart):
        await world.staleness.run()
