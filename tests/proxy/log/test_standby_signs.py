"""How long a proxy with --standby-within serves after the last sign of life of its standby's follower."""

import asyncio
import logging
from math import inf

import pytest

from lab.fakes.clock import FakeClock
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.etcd.model import Delete, Get, Put, RangeResult, Txn
from proxy.log.follow.standby_signs import Standby
from schema.followed import Sign, encode_sign
from schema.keys import Keyspace

KEYS = Keyspace("/t")
WITHIN = 10


class World:
    """A proxy, its etcd, and a follower that signs."""

    def __init__(self, within: int = WITHIN) -> None:
        self.clock = FakeClock(1000.0)
        self.store = FakeEtcd()
        self.client = FakeEtcdClient(self.store)
        self.standby = Standby(self.client, KEYS, within, self.clock)

    def put(self, key: bytes, value: bytes) -> int:
        """Returns the revision."""
        return int(self.store.txn(Txn((), (Put(key, value),))).revision)

    def sign(self, revision: int, within: int = WITHIN) -> int:
        return self.put(KEYS.heard, encode_sign(Sign(within, revision, 2, "/copy")))

    def arm(self) -> None:
        """A follower signs for the first time, without having seen a revision, and the time passes."""
        self.sign(0)
        self.ask()
        self.clock.now += WITHIN

    def ask(self, asked: float = 0.0) -> float:
        """Ask; the answer comes `asked` seconds later. Returns for how long the proxy may serve."""
        began = self.clock.now
        self.clock.now += asked
        found = self.store.range(Get(KEYS.heard))
        self.standby.answered(began, found.revision, found.kvs[0].value if found.kvs else None)
        return self.standby.left


def test_a_proxy_serves_from_what_its_own_question_has_shown() -> None:
    world = World()
    world.arm()
    assert world.ask() == -inf
    assert "has not been heard within 10 s" in world.standby.reason
    seen = world.put(b"/x", b"")
    world.clock.now += 1
    assert world.ask() == -inf
    world.sign(seen)
    world.clock.now += 1
    assert world.ask() == WITHIN - 2  # the revision was made after the first question, not after the second
    assert not world.standby.is_silent
    world.sign(world.store.revision)
    assert world.ask() == WITHIN - 1  # after the second one
    world.clock.now += WITHIN
    assert world.standby.is_silent


def test_a_sign_that_was_late_counts_from_what_its_follower_had_seen() -> None:
    world = World()
    world.arm()
    seen = world.put(b"/x", b"")
    for _ in range(3):
        world.ask()
        world.clock.now += 1
        world.put(b"/x", b"")
    world.sign(seen)  # a process that stood still sends it now
    world.clock.now += 1
    assert world.ask() == -inf
    world.sign(world.store.revision)
    world.clock.now += 3
    assert world.ask(asked=2) == WITHIN - 7  # since the last question that did not show what it had seen


def test_an_old_sign_stays_old() -> None:
    world = World()
    world.ask()
    world.sign(world.put(b"/x", b""))
    left = world.ask()
    for second in range(1, 3 * WITHIN):
        world.clock.now += 1
        world.put(b"/x", b"")
        assert world.ask() == left - second
    assert len(world.standby._questions) <= WITHIN + 1


def test_a_sign_that_does_not_count() -> None:
    world = World()
    world.arm()
    world.store.txn(Txn((), (Delete(KEYS.heard),)))
    assert world.ask() == -inf
    assert "there is no sign of life of a follower" in world.standby.reason
    world.sign(world.put(b"/x", b""), within=WITHIN - 1)
    assert world.ask() == -inf
    assert "its follower has --standby-within 9, and this proxy needs as much" in world.standby.reason
    world.sign(world.store.revision + 100)  # of another etcd
    assert world.ask() == -inf
    world.put(KEYS.heard, b"{}")
    assert world.ask() == -inf
    assert "sign of life of the standby's follower" in world.standby.reason


def test_etcd_is_restored() -> None:
    world = World()
    world.arm()
    before = world.store.revision
    for _ in range(5):
        world.put(b"/x", b"")
    world.ask()
    world.clock.now += 1
    world.standby.answered(world.clock.now, before, None)
    world.standby.answered(world.clock.now, before + 2, encode_sign(Sign(WITHIN, before + 1, 2, "/copy")))
    assert world.standby.left == WITHIN


async def test_an_old_answer_to_a_read_shows_no_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """As etcd 20418 gives it: the member does not know yet what it had to say before."""
    world = World()
    world.arm()
    world.ask()
    sign = world.put(b"/x", b"")
    world.sign(sign)
    world.ask()
    ends = world.clock.now + world.standby.left
    world.clock.now += WITHIN / 2

    async def old(_get: Get, _timeout: float) -> RangeResult:
        return RangeResult([], False, 0, sign - 1)

    async def pause(_seconds: float) -> None:
        world.clock.now += 1
        if world.clock.now > ends:
            raise asyncio.CancelledError

    monkeypatch.setattr(world.client, "range", old)
    monkeypatch.setattr(asyncio, "sleep", pause)
    with pytest.raises(asyncio.CancelledError):
        await world.standby.run()
    assert world.clock.now + world.standby.left == ends


def test_clients_are_served_until_a_follower_has_signed(caplog: pytest.LogCaptureFixture) -> None:
    """But a proxy that did not hear of it does not serve for longer than after a sign."""
    caplog.set_level(logging.INFO)
    world = World()
    assert world.standby.is_silent  # it has not asked yet
    for _ in range(3 * WITHIN):
        assert world.ask() == WITHIN
        world.clock.now += 1
    before = world.standby.is_needed
    assert "clients are served without a standby" in caplog.text
    world.sign(0)
    assert world.ask() == WITHIN - 1
    assert (before, world.standby.is_needed) == (False, True)
    assert "a follower has signed" in caplog.text
    world.store.txn(Txn((), (Delete(KEYS.heard),)))
    world.clock.now += 1
    assert world.ask() == WITHIN - 2


def test_without_the_option() -> None:
    world = World(0)
    asyncio.run(world.standby.run())
    assert not world.standby.is_silent
    assert world.standby.left == inf


async def test_it_asks_and_says_that_nobody_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    world = World()
    world.arm()
    seconds = 0

    async def pause(_seconds: float) -> None:
        nonlocal seconds
        seconds += 1
        world.clock.now += 1
        world.client.unreachable = seconds == 3
        if seconds == 3 * WITHIN:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", pause)
    with pytest.raises(asyncio.CancelledError):
        await world.standby.run()
    (message,) = (record.message for record in caplog.records)
    assert message.startswith("the standby has not been heard within 10 s")
    assert message.endswith("no client is served until it is")
