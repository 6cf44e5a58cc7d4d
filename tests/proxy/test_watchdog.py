"""When requests have waited too long for this process alone, and when not."""

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proxy.admin.subject import ProcessFacts
from proxy.etcd.interface import Calls
from proxy.log.append.pending import Pending
from proxy.log.append.syncs import Syncs
from proxy.server import Server
from proxy.watchdog import Watchdog, WatchdogThread, limit_of
from schema.entry import Kind
from tests.table import one_by_one

_LIMIT = 60.0
_REQUEST = Pending(Kind.CLIENT, 7, 5, (), b"")


class World:
    """A server as far as the watchdog reads it, on a clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.calls = Calls()
        self.worker = SimpleNamespace(done=True, began=0.0)
        self.outbox = SimpleNamespace(
            queue=deque(), refused=[], syncs=Syncs(), is_held=False, first_sent=0, get={}.get
        )
        self.gate = SimpleNamespace(
            first_parked=None,
            openings=SimpleNamespace(first_parked=None),
            first_slow_read=None,
            reads=[SimpleNamespace(done=True, began=0.0) for _ in range(2)],
        )
        self.flush_queue = SimpleNamespace(first=None)
        self.live = asyncio.Event()
        self.live.set()
        self.process = ProcessFacts()
        log = SimpleNamespace(
            outbox=self.outbox,
            context=SimpleNamespace(etcd=SimpleNamespace(calls=self.calls)),
            follower=SimpleNamespace(live=self.live),
            applier=SimpleNamespace(worker=self.worker),
        )
        server = SimpleNamespace(
            log=log,
            state_gate=self.gate,
            flush_queue=self.flush_queue,
            clock=SimpleNamespace(monotonic=lambda: self.now),
            process=self.process,
        )
        self.loop = SimpleNamespace(call_soon_threadsafe=lambda callback, *args: callback(*args))
        self.watchdog = Watchdog(cast(Server, server), cast(asyncio.AbstractEventLoop, self.loop), _LIMIT)

    def wait(self, seconds: int, each: Callable[[], object] = lambda: None, *, answers: bool = True) -> str:
        """Look once a second for so long; what was found. `each` happens between two looks."""
        for _ in range(seconds):
            self.now += 1
            if answers:
                self.calls.answered("Txn", 1)
            each()
            if reason := self.watchdog.look():
                return reason
        return ""


@pytest.fixture
def world() -> World:
    """A server with a request that is never sent."""
    world = World()
    world.outbox.queue.append(_REQUEST)
    return world


def test_a_request_that_is_not_sent(world: World) -> None:
    assert world.wait(60) == ""
    reason = world.wait(3)
    assert reason == (
        "requests have waited to be sent to etcd for 61 s (first session 0x7, opcode 5);"
        " etcd answered 0.0 s ago"
    )
    assert world.process.deaf == reason, "/live says it"
    world.outbox.queue.clear()
    assert world.wait(1) == reason, "it is final"


def _sent(world: World) -> None:
    sent = object()
    world.outbox.first_sent, world.outbox.get = 5, {5: sent}.get


def _sync(world: World) -> None:
    world.outbox.syncs.add([_REQUEST])


def _refused(world: World) -> None:
    world.outbox.refused.append((_REQUEST, -1))


def _parked(world: World) -> None:
    world.gate.first_parked = object()


def _parked_before_its_session(world: World) -> None:
    world.gate.openings.first_parked = object()


def _slow(world: World) -> None:
    world.gate.first_slow_read = object()


def _flush(world: World) -> None:
    world.flush_queue.first = object()


def _blocked(world: World) -> None:
    world.loop.call_soon_threadsafe = lambda *_: None


_PLACES = [_sent, _sync, _refused, _parked, _parked_before_its_session, _slow, _flush, _blocked]


@one_by_one("place", _PLACES)
def test_each_place(place: Callable[[World], None]) -> None:
    world = World()
    assert world.wait(200) == ""
    place(world)
    assert " for 6" in world.wait(70)


@one_by_one("place", _PLACES[:-1])
def test_what_waits_is_another_one_each_time(place: Callable[[World], None]) -> None:
    world = World()

    def another() -> None:
        world.outbox.refused.clear()
        world.outbox.syncs = Syncs()
        place(world)
        if place is _sync:
            world.outbox.syncs = Syncs()
            world.outbox.syncs.add([Pending(Kind.CLIENT, 7, 5, (), b"")])
        if place is _refused:
            world.outbox.refused[:] = [(Pending(Kind.CLIENT, 7, 5, (), b""), -1)]

    assert world.wait(300, another) == ""


def test_an_etcd_that_does_not_answer(world: World) -> None:
    assert world.wait(600, answers=False) == ""
    assert world.wait(50) == "", "its time begins anew"
    assert world.wait(20)


@pytest.mark.parametrize("method", ["Txn", "LeaseGrant", "LeaseRevoke"])
@pytest.mark.parametrize("kind", ["no space", "refused", "unknown"])
def test_an_etcd_that_fails_or_refuses(world: World, method: str, kind: str) -> None:
    """NOSPACE, no permission, no majority for writes: the attempt is repeated each five seconds at least."""
    turns = Counter[str]()

    def attempt() -> None:
        turns["all"] += 1
        if turns["all"] % 5 == 0:
            world.calls.failures[method, kind] += 1

    assert world.wait(600, attempt) == ""


def test_a_request_for_the_status_that_is_refused_does_not_excuse_it(world: World) -> None:
    def refused() -> None:
        world.calls.failures["Status", "refused"] += 1

    assert world.wait(70, refused)


def test_a_process_that_stood_still(world: World) -> None:
    for _ in range(20):
        world.now += 3600
        assert world.watchdog.look() == ""


def test_a_handover(world: World) -> None:
    world.outbox.is_held = True
    assert world.wait(600) == ""


def test_a_load(world: World) -> None:
    world.live.clear()
    assert world.wait(600) == ""


@one_by_one("place", [_sent, _parked, _slow])
@one_by_one("slices", ["worker", "reads"])
def test_work_in_slices(place: Callable[[World], None], slices: str) -> None:
    world = World()
    place(world)
    work: Any = world.worker if slices == "worker" else world.gate.reads[0]
    work.done = False

    def slice_() -> None:
        work.began = world.now

    assert world.wait(600, slice_) == ""
    assert world.wait(70), "the next slice does not come"


def test_the_limit_is_longer_than_what_zketcd_mends_itself() -> None:
    assert limit_of(10.0) == 60.0
    assert limit_of(100.0) == 200.0


def test_the_thread_ends_the_process(world: World) -> None:
    ends: list[str] = []
    world.wait(70)
    thread = WatchdogThread(world.watchdog, lambda reason, _error: ends.append(reason))
    thread.start()
    thread._thread.join(60)
    thread.stop()
    assert ends == [f"ending: {world.process.deaf}"]


def test_a_process_that_another_has_replaced_is_not_ended(world: World) -> None:
    ends: list[str] = []
    world.wait(70)
    thread = WatchdogThread(world.watchdog, lambda reason, _error: ends.append(reason))
    looked = threading.Event()
    look = world.watchdog.look

    def looking() -> str:
        reason = look()
        looked.set()
        return reason

    world.watchdog.look = looking  # type: ignore[method-assign]
    thread.start()
    assert looked.wait(60)
    thread.stop()
    assert ends == []
