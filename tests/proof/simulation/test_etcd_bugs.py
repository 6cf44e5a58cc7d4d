"""etcd's known bugs in the simulation: the model has them, and the servers find what they can find."""

import pytest

from proof.simulation.bug_faults import bug_faults
from proof.simulation.deceit import FOUND_WITHIN
from proof.simulation.kinds import run
from proof.simulation.record import World
from proof.simulation.simulation import simulate
from proxy.etcd.model import EtcdUnknown, Get, Put, RangeResult, Txn
from tests.proof.simulation.test_etcd import System

_KINDS = (
    "leave out events",
    "repeat events",
    "begin watches early",
    "compaction loses events",
    "old reads",
    "a stale member",
)


class _Watch:
    """The revisions that a client's watch has shown."""

    def __init__(self, system: System, first: int) -> None:
        self.seen: list[int] = []
        self.system = system
        self.task = system.host.create_task(self._follow(first))
        system.world.run(system.world.now + 0.1)

    async def _follow(self, first: int) -> None:
        await self.system.client.watch(
            b"k", b"l", first, lambda message: self.seen.extend(e.kv.mod_revision for e in message.events)
        )

    def puts(self, count: int) -> None:
        for _ in range(count):
            self.system.do(self.system.client.txn(Txn((), (Put(b"k", b""),)), 1.0))
        self.system.world.run(self.system.world.now + 1)


@pytest.fixture
def system() -> System:
    return System()


def test_every_bug_has_a_name(system: System) -> None:
    assert tuple(bug_faults(system.cluster, system.world.random("bugs"))) == _KINDS


def test_a_watch_leaves_out_revisions_and_goes_on(system: System) -> None:
    told: list[str] = []
    system.cluster.bugs.on_left_out = told.append
    watch = _Watch(system, 2)
    watch.puts(3)
    system.cluster.bugs.leave_out = 1.0
    watch.puts(2)
    system.cluster.bugs.leave_out = 0.0
    watch.puts(1)
    assert watch.seen == [2, 3, 4, 7]
    assert told == ["proxy1"] * 2


def test_a_watch_sends_former_events_again(system: System) -> None:
    watch = _Watch(system, 2)
    system.cluster.bugs.repeat = 1.0
    watch.puts(6)
    assert len(watch.seen) > 6
    assert set(watch.seen) == set(range(2, 8))
    assert watch.seen != sorted(watch.seen)


def test_a_watch_begins_before_the_revision_that_it_was_asked_for(system: System) -> None:
    _Watch(system, 2).puts(10)
    system.cluster.bugs.begin_early = 1.0
    assert min(_Watch(system, 11).seen) < 11


def test_a_slow_watch_loses_what_is_compacted(system: System) -> None:
    watch = _Watch(system, 2)
    (stream,) = system.cluster.watches
    stream.stalled_until = system.world.now + 100
    watch.puts(10)
    system.cluster.compact()
    stream.lose_pending()
    system.world.run(system.world.now + 100)
    watch.puts(1)
    assert watch.seen[-1] == 12
    assert len(watch.seen) < 11


def test_a_read_is_old_and_a_write_is_not(system: System) -> None:
    watch = _Watch(system, 2)
    watch.puts(5)
    system.cluster.bugs.old_read = 1.0
    for member in system.cluster.members:
        member.behind = 3
    assert system.do(system.client.range(Get(b"k"), 1.0)).revision < 6
    answer = system.do(system.client.txn(Txn((), (Get(b"k"),)), 1.0))
    (read,) = answer.responses
    assert isinstance(read, RangeResult)
    assert read.kvs[0].mod_revision == answer.revision < 6
    assert system.do(system.client.txn(Txn((), (Put(b"k", b""),)), 1.0)).revision == 7


def test_a_stale_member_reads_and_shows_what_there_was(system: System) -> None:
    watch = _Watch(system, 2)
    watch.puts(3)
    faults = bug_faults(system.cluster, system.world.random("bugs"))
    for _ in range(20):  # all members, one after another
        assert faults["a stale member"]() is not None
    system.do(system.client.txn(Txn((), (Put(b"k", b""),)), 1.0))
    assert system.do(system.client.txn(Txn((), (Get(b"k"),)), 1.0)).revision == 4
    assert watch.seen[-1] == 4
    system.world.run(system.world.now + 3)
    assert system.do(system.client.txn(Txn((), (Get(b"k"),)), 1.0)).revision == 5
    assert watch.seen[-1] == 5


def test_a_watch_that_ends_has_nothing_to_lose(system: System) -> None:
    watch = _Watch(system, 2)
    (stream,) = system.cluster.watches
    system.cluster.break_streams()
    system.world.run(system.world.now + 1)
    stream.lose_pending()
    with pytest.raises(EtcdUnknown):
        watch.task.result()


@pytest.mark.parametrize("kinds", [_KINDS[:1], _KINDS[1:3], _KINDS[3:4], (*_KINDS[4:], "load anew")])
def test_what_is_left_out_is_found_and_all_else_does_no_harm(kinds: tuple[str, ...]) -> None:
    outcome = simulate(3, 0.02, kinds)  # a seed in which each of the two deceives a server
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
    assert bool(outcome.deceived) == (kinds in (_KINDS[:1], _KINDS[3:4]))
    assert outcome.deceived_for < FOUND_WITHIN


def test_a_storm_with_bugs_of_etcd() -> None:
    outcome = run(World("etcd-bugs", 3, 0.01))
    assert outcome.kind == "etcd-bugs"
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
