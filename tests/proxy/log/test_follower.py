"""The order in which entries take effect: the same for whoever follows, and for whoever catches up."""

import itertools
import random

import pytest

from lab.fakes.etcd import FakeEtcd
from proxy.etcd.model import Compare, Delete, Get, Put, Txn
from proxy.log.follow.follower import Apply, Follower, Item, ProxyCame, ProxyGone, RecordChanged
from schema.keys import Keyspace

KEYS = Keyspace("/t")


class World:
    """An etcd, and a follower that gets its events when told."""

    def __init__(self, *incarnations: str) -> None:
        self.store = FakeEtcd()
        self.follower = Follower(KEYS)
        self._leases = itertools.count(1)
        self.lease: dict[str, int] = {}
        for incarnation in incarnations:
            self.come(incarnation)

    def come(self, incarnation: str) -> int:
        lease = self.lease[incarnation] = next(self._leases)
        self.store.lease_grant(lease, 5)
        return self.store.txn(Txn((), (Put(KEYS.proxy(incarnation), b"v", lease),))).revision

    def go(self, incarnation: str) -> None:
        self.store.lease_revoke(self.lease.pop(incarnation))

    def append(self, incarnation: str, *numbers: int) -> int:
        revision = 0
        for number in numbers:
            put = Put(KEYS.entry(incarnation, number), b"%d" % number)
            revision = self.store.txn(Txn((Compare(put.key, 0),), (put,))).revision
        return revision

    def feed(self) -> list[Item]:
        items: list[Item] = []
        for events in self.store.history_from(self.follower.revision + 1):
            items += self.follower.items_of(events)
        return items

    def catch_up(self, follower: Follower | None = None) -> list[Item]:
        store = self.store
        entries = store.range(Get(KEYS.log, KEYS.log_end)).kvs
        proxies = store.range(Get(KEYS.proxies, KEYS.proxies_end)).kvs
        record = store.range(Get(KEYS.tree)).kvs
        catch_up = (follower or self.follower).catch_up
        return catch_up(store.revision, entries, proxies, record[0] if record else None)


def numbers(items: list[Item]) -> list[tuple[str, int]]:
    return [(item.incarnation, item.number) for item in items if isinstance(item, Apply)]


def test_entries_take_effect_in_the_order_of_their_positions() -> None:
    world = World("a", "b")
    positions = [world.append("a", 1), world.append("b", 1), world.append("b", 2), world.append("a", 2)]
    items = world.feed()
    assert numbers(items) == [("a", 1), ("b", 1), ("b", 2), ("a", 2)]
    assert [item.position for item in items if isinstance(item, Apply)] == positions
    assert world.follower.revision == positions[-1]
    assert world.follower.numbers == {"a": 2, "b": 2}


def test_an_entry_that_overtook_its_predecessor_waits_for_it() -> None:
    world = World("a")
    world.append("a", 3, 1)
    world.append("b", 1)
    assert numbers(world.feed()) == [("a", 1), ("b", 1)]
    assert world.follower.held("a") == 1
    world.append("a", 2)
    assert numbers(world.feed()) == [("a", 2), ("a", 3)]
    assert world.follower.held("a") == 0


def test_a_late_copy_of_an_entry_that_was_truncated_is_ignored() -> None:
    world = World("a")
    world.append("a", 1, 2)
    world.feed()
    world.store.txn(Txn((), (Delete(*KEYS.entries_of("a")),)))
    world.append("a", 1, 3)
    assert numbers(world.feed()) == [("a", 3)]


def test_proxies_and_the_record() -> None:
    world = World()
    came = world.come("a")
    record = world.store.txn(Txn((), (Put(KEYS.tree, b"r"),))).revision
    world.go("a")
    world.store.txn(Txn((), (Delete(KEYS.tree),)))
    world.store.txn(Txn((), (Put(KEYS.log + b"nonsense", b""),)))
    assert world.feed() == [
        ProxyCame("a", came, b"v"),
        RecordChanged(b"r", record),
        ProxyGone("a", record + 1),
        RecordChanged(None, record + 2),
    ]
    assert world.follower.revision == world.store.revision


def test_entries_that_came_after_the_revision_are_left_to_the_watch() -> None:
    world = World("a")
    revision = world.append("a", 1)
    world.append("a", 2)
    entries = world.store.range(Get(KEYS.log, KEYS.log_end)).kvs
    proxies = world.store.range(Get(KEYS.proxies, KEYS.proxies_end)).kvs
    assert numbers(world.follower.catch_up(revision, entries, proxies, None)) == [("a", 1)]
    assert numbers(world.feed()) == [("a", 2)]


def test_a_start_goes_on_from_the_numbers_of_its_snapshot() -> None:
    world = World("a")
    world.append("a", 1, 2, 4)
    world.follower.restart({"a": 1, "dead": 7})
    assert numbers(world.catch_up()) == [("a", 2)]
    assert world.follower.held("a") == 1


def test_our_own_key_that_went_unseen_is_reported_gone() -> None:
    world = World()
    revision = world.come("a")
    world.catch_up(Follower(KEYS))
    world.follower.expect("a", revision)
    assert world.follower.knows("a")
    # What is read as of before the key was put says nothing about it.
    assert world.follower.catch_up(revision - 1, [], [], None) == [RecordChanged(None, revision - 1)]
    world.go("a")
    assert ProxyGone("a", world.store.revision) in world.catch_up()
    assert not world.follower.knows("a")


def test_forgotten_incarnations_leave_nothing() -> None:
    world = World("a")
    world.append("a", 1)
    world.feed()
    world.go("a")
    again = world.come("a")
    assert ProxyCame("a", again, b"v") in world.catch_up(), "a key that was made anew comes anew"
    world.go("a")
    world.feed()
    world.follower.retain({"a": 1})
    assert world.follower.numbers == {"a": 1}
    world.follower.retain({})
    assert world.follower.numbers == {}


@pytest.mark.parametrize("seed", range(150))
def test_however_the_events_come_the_order_is_the_same(seed: int) -> None:
    """By one watch, by a watch that breaks at random, or read at once: what takes effect is the same."""
    chance = random.Random(seed)
    world = World()
    next_number: dict[str, int] = {}
    held: dict[str, list[int]] = {}  # numbers used and not yet put
    broken = Follower(KEYS)
    broken_items: list[Item] = []
    for step in range(120):
        what = chance.random()
        if what < 0.08 or not world.lease:
            name = f"p{step}"
            world.come(name)
            next_number[name] = 1
            held[name] = []
            continue
        name = chance.choice(list(world.lease))
        if what < 0.5:
            held[name].append(next_number[name])
            next_number[name] += 1
        elif what < 0.85:
            if held[name]:
                world.append(name, held[name].pop(chance.randrange(len(held[name]))))
        elif what < 0.9:
            world.go(name)
        elif what < 0.97:
            for events in world.store.history_from(broken.revision + 1)[: chance.randrange(5)]:
                broken_items += broken.items_of(events)
        else:
            broken_items += world.catch_up(broken)
    broken_items += world.catch_up(broken)
    straight = numbers(world.feed())
    assert numbers(broken_items) == straight
    assert numbers(world.catch_up(Follower(KEYS))) == straight
    assert broken.living == world.follower.living
    for incarnation in next_number:
        mine = [number for name, number in straight if name == incarnation]
        assert mine == list(range(1, len(mine) + 1))
    # A proxy is reported gone after all that it did.
    gone: set[str] = set()
    for item in broken_items:
        if isinstance(item, ProxyGone):
            gone.add(item.incarnation)
        elif isinstance(item, Apply):
            assert item.incarnation not in gone
