"""Several entries at one position: all readers of the log come to the same states.

What a proxy makes of the watch, which has been there from the beginning, is compared with all other readers.
"""

import asyncio
from pathlib import Path
from random import Random
from unittest import mock

import pytest

from archive.archiver import writer as archive_writer
from archive.archiver.archiver import Archiver
from archive.files.moment import moment
from archive.files.store import store_of
from archive.past.state import state_at
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from pipeline.etcd import log as etcd_log
from proxy.etcd.model import Get, RangeResult, Txn
from proxy.log.combine.combiner import Offer, txn_of_all
from proxy.log.follow.catch_up import read_missed
from proxy.log.follow.log_order import Apply
from proxy.log.load.start import Wanted, load_as_of
from proxy.state.machine import Machine
from schema.entry import decode_entry
from tests.proxy.log.proxies import SEQUENTIAL, until
from tests.proxy.log.trees import Ran, Tree, created, value_of
from tests.seeds import seeds

NAMES = ("a", "b", "c")
_State = tuple[int, int, int]


def _state(machine: Machine) -> _State:
    """Entries, zxid and digest, which includes who created which node."""
    return machine.entries, machine.zxid, machine.compute_digest()


class _AnyOrder(FakeEtcdClient):
    """Answers to requests that are made together come in any order."""

    chance = Random(0)

    async def range(self, get: Get, timeout: float) -> RangeResult:
        for _ in range(self.chance.randrange(8)):
            await asyncio.sleep(0)
        return await super().range(get, timeout)


class _Log(Tree):
    """A log that grows by random Txns of a combiner, and the state at each position."""

    def __init__(self, seed: int) -> None:
        super().__init__(_AnyOrder(FakeEtcd()))
        self.chance = Random(seed)
        self.states: dict[int, _State] = {}  # by position
        self._late: list[Txn] = []
        self._ran: Ran | None = None

    def grow(self, count: int) -> None:
        """So many Txns of one to six entries; some come late, so that there are gaps."""
        chance = self.chance
        for _ in range(count):
            offers = []
            for name in chance.sample(NAMES, chance.randint(1, 3)):
                for _ in range(chance.choice((1, 1, 2))):
                    self.numbers[name] += 1
                    value = value_of([created(self.session(name), "/s", name.encode(), SEQUENTIAL)])
                    offers.append(Offer(name, self.revisions[name], self.numbers[name], value, mock.Mock()))
            chance.shuffle(offers)
            self._late.append(txn_of_all(self.keys, offers))
            if chance.random() < 0.7:
                self.settle()

    def settle(self) -> None:
        """What is late comes, in any order."""
        self.chance.shuffle(self._late)
        while self._late:
            assert self.store.txn(self._late.pop()).succeeded
            self.note()

    def note(self) -> Machine:
        """What a proxy has now that was there from the beginning."""
        self._ran = self._ran or Ran(self.store)
        machine = self._ran.follow()
        self.states[self.store.revision] = _state(machine)
        return machine

    async def loaded(self, wanted: Wanted = Wanted()) -> Machine:  # noqa: B008 - immutable
        return (await load_as_of(self.etcd, self.keys, wanted)).machine


@pytest.mark.parametrize("seed", seeds(1, 4))
async def test_all_readers_come_to_the_states_of_a_follower(seed: int) -> None:
    log = _Log(seed)
    await log.make(*NAMES)
    follower = Ran(log.store)
    for turn in range(4):
        follower.follow()  # and then its watch breaks
        seen = follower._order
        log.grow(25)
        log.settle()
        newest = log.note()
        for upto in log.chance.sample(list(log.states), 5 if turn < 2 else 0):
            assert _state(await log.loaded(Wanted(upto=upto))) == log.states[upto]
        assert _state(await log.loaded()) == _state(newest)
        assert _state(await log.loaded(Wanted(entries=newest.entries - 1))) != _state(newest)
        caught = await read_missed(log.etcd, log.keys, seen.numbers, seen.revision)
        for item in seen.take_read(caught.revision, caught.entries, caught.proxies, caught.pair):
            if isinstance(item, Apply):
                follower.machine.apply(item.incarnation, item.number, decode_entry(item.value))
        assert _state(follower.machine) == _state(newest)
        follower._seen = caught.revision + 1
        start = await etcd_log.earliest(log.etcd, log.keys)
        while start.entries < newest.entries:  # a stream of at most so many entries at a time
            start = await etcd_log.latest(log.etcd, log.keys, start, 3)
            assert start.revision not in log.states or log.states[start.revision][0] == start.entries
        assert start.applied == newest.applied
        if turn:
            await log.snapshot("a")
            assert _state(await log.loaded(Wanted(previous=turn > 1))) == _state(newest)


@pytest.mark.long
async def test_an_archive_has_the_state_at_each_position(tmp_path: Path) -> None:
    log = _Log(5)
    await log.make(*NAMES)
    log.note()
    store = store_of(str(tmp_path))
    with mock.patch.object(archive_writer, "MOST", 1):  # a segment ends behind each entry
        archiver = asyncio.create_task(Archiver(log.etcd, log.keys, store).run())
        log.grow(20)
        log.settle()
        await until(lambda: any(f"{log.note().entries:016d}-" in name for name in store.list()))
        archiver.cancel()
    first = min(log.states)
    for position, state in log.states.items():
        if position > first:
            assert _state(state_at(store, moment(str(position), 0))) == state, position
