"""The order in which entries take effect: the same for a proxy that follows and for one that catches up."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.fakes.etcd import FakeEtcd
from proxy.etcd.model import Compare, Delete, Get, Put, Txn
from proxy.log.follow.log_order import (
    Apply,
    EntriesGone,
    Gap,
    Item,
    LogOrder,
    ProxyCame,
    ProxyGone,
    RecordChanged,
)
from proxy.log.foreign import ours
from schema.keys import Keyspace
from tests import golden
from tests.seeds import seeds

KEYS = Keyspace("/t")
SCRIPT = Path(__file__).with_name("log_order.txt")


class World:
    """An etcd, and the order of its log, which gets events by a watch that may break."""

    def __init__(self) -> None:
        self.store = FakeEtcd()
        self.order = LogOrder(KEYS)
        self.is_connected = True

    def change(self, *changes: Put | Delete) -> int:
        return self.store.txn(Txn((), changes)).revision

    def append(self, incarnation: str, number: int) -> None:
        put = Put(KEYS.entry(incarnation, number), b"%d" % number)
        self.store.txn(Txn((Compare(put.key, 0),), (put,)))

    def watch(self, order: LogOrder | None = None, most: int | None = None) -> list[Item]:
        """What the watch delivers; `most` revisions."""
        order = order or self.order
        events = self.store.history_from(order.revision + 1)[:most]
        return [item for each in events for item in order.items_of(each)]

    def take_read(self, order: LogOrder | None = None, revision: int = 0) -> list[Item]:
        revision = revision or self.store.revision
        entries = ours(KEYS, self.store.range(Get(KEYS.log, KEYS.log_end)).kvs)
        proxies = ours(KEYS, self.store.range(Get(KEYS.proxies, KEYS.proxies_end)).kvs)
        proxies = [pair for pair in proxies if pair.create_revision <= revision]
        record = self.store.range(Get(KEYS.tree)).kvs
        take_read = (order or self.order).take_read
        return take_read(revision, entries, proxies, record[0] if record else None)

    def answer(self, words: Sequence[str]) -> list[str]:
        """Do what a script says."""
        match words:
            case ["come", *names]:
                for name in names:
                    self.change(Put(KEYS.proxy(name), b"v"))
            case ["go", name]:
                self.change(Delete(KEYS.proxy(name)))
            case ["put", name, number]:
                self.append(name, int(number))
            case ["delete", name, number]:
                self.change(Delete(KEYS.entry(name, int(number))))
            case ["truncate", name]:
                self.change(Delete(*KEYS.entries_of(name)))
            case ["record", value]:
                self.change(Put(KEYS.tree, value.encode()))
            case ["no", "record"]:
                self.change(Delete(KEYS.tree))
            case ["junk"]:
                self.change(Put(KEYS.log + b"nonsense", b""))
            case ["junk", "proxy"]:
                self.change(Put(KEYS.proxies + b"not/a/proxy", b""))
            case ["break"]:
                self.is_connected = False
            case ["connect"]:
                self.is_connected = True
            case ["lose"]:  # the next events
                self.is_connected = False
                self.order.revision += 1
            case ["catch", "up", *as_of]:
                return texts(self.take_read(revision=int(as_of[-1]) if as_of else 0))
            case ["restart", *numbers]:
                self.order.restart(_numbers(numbers))
            case ["expect", name, revision]:
                self.order.expect(name, int(revision))
            case ["retain", *numbers]:
                self.order.retain(_numbers(numbers))
            case ["left", "out"]:
                entries = ours(KEYS, self.store.range(Get(KEYS.log, KEYS.log_end)).kvs)
                entries.sort(key=lambda kv: kv.mod_revision)
                pair = self.order.left_out(entries)
                return ["nothing" if pair is None else f"{pair.key.decode()} @{pair.mod_revision}"]
            case ["state"]:
                order = self.order
                delivered = [f"{name}={number}" for name, number in sorted(order.numbers.items())]
                waiting = [f"{name}: {len(held)}" for name, held in sorted(order._waiting.items())]
                living = sorted({*order.living, *order._expected})
                return [
                    f"delivered {' '.join(delivered) or '-'}, waiting {' '.join(waiting) or '-'},"
                    f" living {' '.join(living) or '-'}, at revision {order.revision}"
                ]
            case _:
                raise AssertionError(words)
        return texts(self.watch()) if self.is_connected else []


def _numbers(words: Sequence[str]) -> dict[str, int]:
    return {name: int(number) for name, number in (word.split("=") for word in words)}


def texts(items: Sequence[Item]) -> list[str]:
    return [_text(item) for item in items]


def _text(item: Item) -> str:
    match item:
        case Apply(position, incarnation, number, value):
            assert value == b"%d" % number
            return f"apply {incarnation} {number} @{position}"
        case ProxyCame(incarnation, revision, _):
            return f"came {incarnation} @{revision}"
        case ProxyGone(incarnation, revision):
            return f"gone {incarnation} @{revision}"
        case Gap(incarnation, number, behind):
            return f"gap {incarnation} {number}, {behind} behind it"
        case EntriesGone(incarnation, first, last, revision):
            return f"deleted {incarnation} {first} to {last} @{revision}"
        case RecordChanged(value, revision):
            return f"record {'-' if value is None else value.decode()} @{revision}"


@golden.one_by_one(SCRIPT)
def test_script(case: golden.Case) -> None:
    golden.check(SCRIPT, case, World().answer)


def numbers(items: list[Item]) -> list[tuple[str, int]]:
    return [(item.incarnation, item.number) for item in items if isinstance(item, Apply)]


@pytest.mark.parametrize("seed", seeds(2, 150))
def test_however_the_events_come_the_order_is_the_same(seed: int) -> None:
    """By one watch, by a watch that breaks at random, or read at once: what takes effect is the same."""
    chance = random.Random(seed)
    world = World()
    held: dict[str, list[int]] = {}  # numbers used and not yet put
    next_number: dict[str, int] = {}
    living: list[str] = []
    broken = LogOrder(KEYS)
    broken_items: list[Item] = []
    for step in range(120):
        what = chance.random()
        if what < 0.08 or not living:
            name = f"p{step}"
            living.append(name)
            world.change(Put(KEYS.proxy(name), b"v"))
            next_number[name] = 1
            held[name] = []
            continue
        name = chance.choice(living)
        if what < 0.5:
            held[name].append(next_number[name])
            next_number[name] += 1
        elif what < 0.85:
            if held[name]:
                world.append(name, held[name].pop(chance.randrange(len(held[name]))))
        elif what < 0.9:
            living.remove(name)
            world.change(Delete(KEYS.proxy(name)))
        elif what < 0.97:
            broken_items += world.watch(broken, chance.randrange(5))
        else:
            broken_items += world.take_read(broken)
    broken_items += world.take_read(broken)
    straight = numbers(world.watch())
    assert numbers(broken_items) == straight
    assert numbers(world.take_read(LogOrder(KEYS))) == straight
    assert broken.living == world.order.living
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
