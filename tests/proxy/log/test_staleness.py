"""A proxy whose stream hangs while etcd answers all else stops serving, until it has caught up.

One that only applies slowly lets its clients wait.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pytest

from lab.fakes.clock import FakeClock
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.etcd.model import Delete, EtcdError, EtcdRefused, EtcdUnknown, Put, RefusalKind, Txn
from proxy.log.follow import question
from proxy.log.follow import staleness as module
from proxy.log.follow.log_order import Apply, LogOrder
from proxy.log.follow.question import Question
from proxy.log.follow.staleness import Staleness
from proxy.log.follow.watch_guard import WatchGuard
from proxy.log.load.start import load_to_serve
from proxy.log.status import Freshness
from proxy.support.tasks import Tasks
from tests import golden
from tests.proxy.log.proxies import until
from tests.proxy.log.trees import Tree

SCRIPT = Path(__file__).with_name("staleness.txt")
_NO_ANSWER = EtcdUnknown("no answer")
_REFUSED = EtcdRefused(RefusalKind.PERMISSION, "permission denied")


class World:
    """A proxy whose stream delivers when a test says so, and a clock."""

    def __init__(self) -> None:
        self.store = FakeEtcd()
        self.client = FakeEtcdClient(self.store)
        self.tree = Tree(FakeEtcdClient(self.store))
        self.order = LogOrder(self.tree.keys)
        self.clock = FakeClock(1000.0)
        self.guard = mock.Mock(spec=WatchGuard)
        self.guard.left_out = lambda: self.told.append("the watch has left something out")
        self.told: list[str] = []
        self.received: deque[Apply] = deque()  # and not applied
        self.staleness: Staleness
        self.seen = ""

    async def start(self) -> "World":
        await self.tree.make()
        loaded = await load_to_serve(self.client, self.tree.keys)
        self.machine = loaded.machine
        self.order.restart(loaded.machine.applied)
        caught = loaded.caught
        self.order.take_read(caught.revision, caught.entries, caught.proxies, caught.pair)
        self.staleness = Staleness(
            self.client,
            self.order,
            self.machine,
            self.guard,
            lambda reason: self.told.append(f"stopped: {reason}"),
            limit=3.0,
            clock=self.clock,
        )
        self.staleness.fell_behind = lambda is_behind: self.told.append(
            "clients wait" if is_behind else "clients go on"
        )
        return self

    def receive(self, revisions: int) -> None:
        """The stream delivers so many revisions."""
        for events in self.store.history_from(self.order.revision + 1)[:revisions]:
            self.received += [item for item in self.order.items_of(events) if isinstance(item, Apply)]

    def apply(self, entries: int) -> None:
        for _ in range(min(entries, len(self.received))):
            item = self.received.popleft()
            self.machine.apply(item.incarnation, item.number, item.decode())

    def follow(self) -> None:
        """The stream catches up, and so does the state."""
        self.receive(1 << 30)
        self.apply(1 << 30)

    async def second(self) -> None:
        self.clock.now += 1
        try:
            await self.staleness.ask()
        except EtcdUnknown as error:
            self.told.append(str(error))

    def failed(self, error: EtcdError, *, contact: bool) -> None:
        """A second in which the question has no answer. `contact`: other requests have."""
        asked = self.clock.now
        self.clock.now += 1
        if contact:
            self.client.last_contact = self.clock.now
        self.staleness.unanswered(asked, error)
        self.staleness.judge()

    async def answer(self, words: Sequence[str]) -> list[str]:
        """Do what a script says."""
        match words:
            case ["come", *names]:
                await self.tree.come(*names)
            case ["go", name]:
                await self.tree.go(name)
            case ["create", name, path]:
                await self.tree.create(name, path)
            case ["entry", name, number]:
                await self.tree.send(name, [], number=int(number))
            case ["junk"]:
                keys = self.tree.keys
                for junk in (keys.proxies, keys.proxies + b"a/b", keys.log + b"a"):
                    self.store.txn(Txn((), (Put(junk, b"something"),)))
            case ["junk-between-a-and-c", count]:
                for each in range(int(count)):
                    self.store.txn(Txn((), (Put(self.tree.keys.log + b"b-%06d" % each, b""),)))
            case ["elsewhere"]:
                self.store.txn(Txn((), (Put(b"/another-user", b""),)))
            case ["deliver"]:
                self.follow()
            case ["receive", revisions]:
                self.receive(int(revisions))
            case ["lose", revisions]:
                self.order.revision += int(revisions)
            case ["back", revisions]:  # as after a restore of etcd
                self.order.revision -= int(revisions)
            case ["begin"]:  # to apply an entry: some of its requests are
                item, entry = self.received[0], self.received[0].decode()
                self.machine.begin(item.incarnation, item.number, entry.clock, entry.rules)
            case ["finish"]:
                self.received.popleft()
                self.machine.end()
            case ["apply", entries]:
                self.apply(int(entries))
            case ["second"]:
                await self.second()
            case ["seconds", count]:
                for _ in range(int(count)):
                    await self.second()
            case ["sleep", seconds]:
                self.clock.now += int(seconds)
            case ["silent", count]:
                for _ in range(int(count)):
                    self.failed(_NO_ANSWER, contact=False)
            case ["unanswered", count]:
                for _ in range(int(count)):
                    self.failed(_NO_ANSWER, contact=True)
            case ["refused", count]:
                for _ in range(int(count)):
                    self.failed(_REFUSED, contact=True)
            case ["distrust"]:
                self.staleness.distrust()
            case ["load"]:
                self.staleness.loads()
            case ["trust"]:
                self.staleness.trust()
            case ["end"]:
                self.staleness.give_up("it was moved")
            case _:
                raise AssertionError(words)
        self.staleness.judge()
        told, self.told = self.told, []
        return [*told, *self.state()]

    def state(self) -> list[str]:
        """Whether clients may see the state, and what the watch has to show; nothing if that is as before."""
        why = self.staleness.why
        text = self.staleness.freshness.name.lower() + (f": {why}" if why else "")
        text += ", no keep-alives" * self.staleness.cut_off
        late = [call.args[0]() for call in self.guard.expect.call_args_list].count(False)
        text += f", the watch has not shown what {late} of the answers say" if late else ""
        former, self.seen = self.seen, text
        return [] if text == former else [text]


@pytest.fixture
async def world() -> World:
    """A proxy that has asked nothing yet."""
    return await World().start()


@golden.parametrized(SCRIPT)
async def test_script(world: World, case: golden.Case) -> None:
    await golden.check_async(SCRIPT, case, world.answer)


async def test_many_proxies_take_several_txns(world: World) -> None:
    await world.tree.come(*(f"p{number}" for number in range(20)))
    world.follow()
    with mock.patch.object(question, "MOST_OPS", 8):
        await world.staleness.ask()
        assert not world.staleness.why
        await world.tree.create("p19", "/1")
        await world.answer(["seconds", "5"])
        assert world.staleness.why


async def test_what_a_range_has_no_room_for_counts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question, "_MOST_KEYS", 1)
    await world.answer(["come", "a"])
    world.follow()
    await world.answer(["second"])
    caught_up_at = world.clock.now
    for path in ("/1", "/2"):
        await world.tree.create("a", path)
    world.store.txn(Txn((), (Put(b"/another-user", b""),)))
    await world.answer(["second"])
    await world.answer(["receive", "2"])
    await world.answer(["apply", "2"])
    assert world.staleness.caught_up_at == caught_up_at
    await world.answer(["second"])
    assert world.staleness.caught_up_at == world.clock.now


async def test_only_so_many_keys_that_are_not_ours_are_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(question, "_MOST_FOREIGN", 10)
    monkeypatch.setattr(question, "_MOST_FURTHER", 3)
    await world.answer(["junk-between-a-and-c", "130"])
    world.follow()
    await world.answer(["elsewhere"])
    await world.answer(["second"])
    caught_up_at = world.clock.now
    assert world.staleness.caught_up_at == caught_up_at
    world.store.txn(Txn((), (Put(world.tree.keys.log + b"b-x", b""),)))
    world.follow()
    await world.answer(["elsewhere"])
    await world.answer(["second"])
    assert world.staleness.caught_up_at == caught_up_at


async def test_what_is_truncated_while_a_question_asks_on_is_not_overlooked(world: World) -> None:
    await world.answer(["junk-between-a-and-c", "101"])
    world.follow()
    await world.tree.come("c")
    await world.tree.create("c", "/1")
    ask = Question(world.order, world.machine.applied, 0.0)
    txns = ask.answered([world.store.txn(txn) for txn in ask.txns])
    await world.tree.create("c", "/2")
    newest = world.store.revision
    pair = await world.tree.pair()
    world.store.txn(Txn((), (Put(pair.key, pair.value),)))  # as of a new snapshot
    world.store.txn(Txn((), (Delete(*world.tree.keys.entries_of("c")),)))
    assert not ask.answered([world.store.txn(txn) for txn in txns])
    assert ask.newest > newest


async def test_a_monotonic_clock_may_begin_below_zero(world: World) -> None:
    world.clock.now = world.client.last_contact = -1000.0
    await world.answer(["second"])
    assert not world.staleness.why


async def test_a_process_that_has_stood_still_finds_that_at_the_first_request(world: World) -> None:
    await world.answer(["second"])
    world.staleness.look()
    world.clock.now += 25
    assert world.told == []
    world.staleness.look()
    assert world.told == ["clients wait"]
    await world.staleness.ask()
    assert world.told == ["clients wait", "clients go on"]


async def test_who_finds_a_standstill_is_not_closed_amid_what_it_does(world: World) -> None:
    """A write that had been received was handled after its connection was closed."""
    for line in ("come a", "deliver", "second"):
        await world.answer(line.split())
    await world.tree.create("a", "/1")
    await world.staleness.ask()  # the stream does not deliver it
    world.clock.now += 25
    world.staleness.look()
    assert world.told == ["clients wait"]
    await asyncio.sleep(0)
    assert world.told[1:] == ["clients go on", f"stopped: {module._LATE}"]


async def test_it_asks_by_itself(world: World) -> None:
    await world.answer(["come", "a"])
    world.follow()
    tasks = Tasks()
    with mock.patch.object(module, "_INTERVAL", 0.01), mock.patch.object(module, "_TICK", 0.005):
        tasks.start(world.staleness.run(), "ask")
        await until(lambda: world.staleness.freshness is Freshness.RECENT)
        await world.tree.create("a", "/1")
        await asyncio.sleep(0.05)
        world.clock.now += 4
        await until(lambda: world.staleness.freshness is Freshness.OLD)
        world.follow()
        await until(lambda: world.staleness.freshness is Freshness.RECENT)
    world.guard.stop.assert_not_called()
    await tasks.close()
    world.guard.stop.assert_called_once()


async def test_what_ends_it_is_raised_as_it_is(world: World) -> None:
    """The archiver starts again by an exception of its own."""

    class Restart(Exception):
        pass

    with mock.patch.object(world.staleness, "ask", side_effect=Restart), pytest.raises(Restart):
        await world.staleness.run()
