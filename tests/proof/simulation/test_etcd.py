"""The simulated cluster as the real client sees it: elections, lost answers, copies, watches."""

from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from proof.simulation.environment import SimulatedClock
from proof.simulation.etcd import Cluster
from proof.simulation.etcd_channel import Channel
from proof.simulation.network import Network
from proof.simulation.world import Host, World
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import Compare, EtcdUnknown, Get, Put, Txn, WatchCompacted
from proxy.etcd.transport import RpcError

T = TypeVar("T")


class System:
    """A cluster, and one client of it."""

    def __init__(self) -> None:
        self.world = World(1)
        self.network = Network(self.world)
        self.cluster = Cluster(self.world, self.network)
        self.host = Host(self.world, "proxy1")
        members = {member.name: member for member in self.cluster.members}
        self.client = EtcdClient(
            list(members),
            connect=lambda name, _port, _tls: Channel(self.cluster, self.host, members[name]),
            clock=SimulatedClock(self.host),
        )

    def do(self, work: Coroutine[Any, Any, T], limit: float = 60.0) -> T:
        """Run a coroutine on the client's host."""
        task = self.host.create_task(work)
        end = self.world.now + limit
        while not task.done() and self.world.now < end:
            self.world.run(self.world.now + 0.01)
        result: T = task.result()
        return result


@pytest.fixture
def system() -> System:
    return System()


def _put(value: bytes) -> Txn:
    return Txn((Compare(b"k", 0),), (Put(b"k", value),), (Get(b"k"),))


def test_a_put_and_a_get(system: System) -> None:
    assert system.do(system.client.txn(_put(b"1"), 1.0)).succeeded
    assert system.do(system.client.range(Get(b"k"), 1.0)).kvs[0].value == b"1"


def test_a_lost_answer_leaves_the_put_in_place(system: System) -> None:
    system.cluster.troubles.lose_answer = 1.0
    with pytest.raises(EtcdUnknown):
        system.do(system.client.txn(_put(b"1"), 1.0))
    assert system.cluster.store.snapshot()[0].value == b"1"


def test_a_lost_request_leaves_nothing(system: System) -> None:
    system.cluster.troubles.lose_request = 1.0
    with pytest.raises(EtcdUnknown):
        system.do(system.client.txn(_put(b"1"), 1.0))
    assert system.cluster.store.snapshot() == []


def test_what_is_compacted_gives_its_space_back_and_the_file_stays(system: System) -> None:
    def put() -> None:
        system.do(system.client.txn(Txn((), (Put(b"k", bytes(1000)),)), 1.0))

    for _ in range(10):
        put()
    full = system.do(system.client.status())
    assert full.db_size == full.db_size_in_use > 10_000
    system.cluster.compact_periodically(5.0)
    system.world.run(system.world.now + 6.0)
    for _ in range(5):
        put()
    status = system.do(system.client.status())
    assert status.db_size == full.db_size
    assert 6_000 < status.db_size_in_use < 7_000  # all revisions since one period ago
    system.world.run(system.world.now + 10.0)
    assert system.do(system.client.status()).db_size_in_use < 2_000


def test_a_request_over_a_cut_link_is_committed_after_its_sender_gave_up(system: System) -> None:
    pairs = [("proxy1", member.name) for member in system.cluster.members]
    system.network.cut(pairs)
    with pytest.raises(EtcdUnknown):
        system.do(system.client.txn(_put(b"late"), 1.0))
    assert system.cluster.store.snapshot() == []
    system.network.mend(pairs)
    system.world.run(system.world.now + 1)
    assert system.cluster.store.snapshot()[0].value == b"late"


def test_a_copy_is_committed_later(system: System) -> None:
    system.cluster.troubles.double = 1.0
    system.do(system.client.txn(Txn((), (Put(b"k", b"1"),)), 1.0))
    system.cluster.troubles.double = 0.0
    first = system.cluster.store.revision
    system.world.run(400)
    assert system.cluster.store.revision == first + 1


def test_without_a_majority_nothing_is_answered_and_no_lease_ends(system: System) -> None:
    system.do(system.client.lease_grant(7, 5))
    for member in system.cluster.members[:2]:
        system.cluster.kill(member)
    system.world.run(60)
    with pytest.raises(EtcdUnknown):
        system.do(system.client.txn(_put(b"1"), 2.0))
    assert system.cluster.store.lease_ids == [7]
    for member in system.cluster.members[:2]:
        system.cluster.start(member)
    system.world.run(system.world.now + 30)
    assert system.cluster.elections > 0
    assert system.cluster.store.lease_ids == []


def test_a_watch_tells_each_revision_once_and_ends_with_its_stream(system: System) -> None:
    seen: list[bytes] = []

    async def follow() -> str:
        try:
            await system.client.watch(
                b"k", b"l", 1, lambda message: seen.extend(event.kv.value for event in message.events)
            )
        except EtcdUnknown as error:
            return error.message
        return ""

    task = system.host.create_task(follow())
    for number in range(20):
        system.do(system.client.txn(Txn((), (Put(b"k", b"%d" % number), Put(b"k2", b"")), ()), 1.0))
    system.world.run(system.world.now + 1)
    assert [value for value in seen if value] == [b"%d" % number for number in range(20)]
    assert system.cluster.break_streams() == 1
    system.world.run(system.world.now + 1)
    assert task.result() == "the connection was lost"


def test_a_watch_from_a_compacted_revision_is_refused(system: System) -> None:
    for _ in range(5):
        system.do(system.client.txn(Txn((), (Put(b"k", b""),)), 1.0))
    system.cluster.compact()

    async def follow() -> None:
        await system.client.watch(b"k", b"l", 2, lambda _message: None)

    with pytest.raises(WatchCompacted):
        system.do(follow())


def test_a_stream_that_is_refused_leaves_no_call_behind() -> None:
    """Else the end of a calm world finds more and more of them (calm seed 7)."""
    world = World(1)
    cluster = Cluster(world, Network(world))
    member = cluster.members[0]
    cluster.kill(member)
    host = Host(world, "proxy")
    refused: list[str] = []

    async def watch() -> None:
        try:
            await Channel(cluster, host, member).stream("/Watch")
        except RpcError as error:
            refused.append(str(error))

    host.call_soon(lambda: host.create_task(watch()))
    world.run(1)
    assert len(refused) == 1
    assert not member.calls


def test_a_watch_is_confirmed_before_it_shows_what_was_there(system: System) -> None:
    """Else the client ends it after some seconds."""
    for _ in range(20):
        system.do(system.client.txn(Txn((), (Put(b"k", b""),)), 1.0))
    for _ in range(10):
        seen: list[int] = []

        async def follow(seen: list[int] = seen) -> None:
            await system.client.watch(b"k", b"l", 1, lambda message: seen.append(len(message.events)))

        task = system.host.create_task(follow())
        system.world.run(system.world.now + 5)
        assert not task.done()
        assert seen[0] == 0
        assert sum(seen) == 20
        task.cancel()
        system.world.run(system.world.now + 1)
