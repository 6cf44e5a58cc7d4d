"""Evaluated ahead of a Txn in flight: in its order, sent once that was applied, taken back if not."""

from typing import Any

import pytest

from codec.constants import ErrorCode
from proxy.ahead import Foresight
from proxy.batch import Batch
from proxy.flights import QUANTUM, Flight, Lane, Queue
from tests.proxy.naive import CloseSession, Create, SetData, Single
from tests.proxy.shell import SESSIONS, shells, until
from tests.proxy.world import INCARNATION, MARKER, Proxy, Store, request_of


class World:
    """A Txn in flight that changes /a, and sessions that wait for it."""

    def __init__(self) -> None:
        self.proxy = Proxy(Store(SESSIONS))
        self.mirror = self.proxy.mirror
        self.proxy.commit(self._evaluated(Create("/a")))
        self.proxy.catch_up()
        self.flight = Flight(self._evaluated(SetData("/a")), Lane(MARKER), [])
        self.locks: dict[str, Any] = dict.fromkeys(self.flight.changed, self.flight)
        self.back: list[Batch] = []
        self.foresight = Foresight(self.mirror, self.locks, self._batch, self.back.append)

    def _evaluated(self, asked: Single) -> Batch:
        batch = self.proxy.batch(2000)
        assert batch.add(request_of(1, asked))
        return batch

    def _batch(self, flight: Flight) -> Batch:
        return Batch(
            self.mirror.tree,
            self.mirror.sessions,
            self.locks,
            INCARNATION,
            self.mirror.revision,
            3000,
            ahead_of=(flight, flight.batch.draft),
        )

    def wait(self, session: int, *asked: Single | CloseSession, solo: bool = False) -> Queue:
        """These writes of a session wait for the Txn."""
        queue = Queue(session)
        queue.requests.extend(request_of(session, one, solo=solo) for one in asked)
        self.flight.waiting.append(queue)
        return queue

    def apply(self) -> int:
        """etcd applies the Txn, the mirror too; its paths are free again."""
        revision = self.proxy.commit(self.flight.batch).revision
        self.proxy.catch_up()
        self.locks.clear()
        return revision


def test_what_waits_is_evaluated_as_if_the_txn_had_been_applied_and_is_sent_then() -> None:
    world = World()
    queue = world.wait(2, SetData("/a", b"new", 1), Create("/a"))
    world.foresight.look(world.flight)
    assert not queue.requests
    assert list(world.flight.claimed) == [queue]
    assert world.mirror.tree.nodes["/a"].version == 0
    revision = world.apply()
    batch = world.foresight.settle(world.flight, revision)
    assert batch is not None
    assert [request.refusal for request in batch.requests] == [None, ErrorCode.NODE_EXISTS]
    assert world.flight.next is None  # so it is not sent again
    assert world.foresight.settle(world.flight, revision) is None
    assert all(result.succeeded for result in world.proxy.commit(batch).responses[1:])  # type: ignore[union-attr]
    world.proxy.catch_up()
    assert (world.mirror.tree.nodes["/a"].data, world.mirror.tree.nodes["/a"].version) == (b"new", 2)


def test_nothing_waits() -> None:
    world = World()
    world.foresight.look(world.flight)
    assert world.flight.next is None
    assert world.foresight.settle(world.flight, world.apply()) is None


def test_more_of_a_session_joins_later_in_turns() -> None:
    world = World()
    queue = world.wait(2, *[SetData("/a")] * (QUANTUM + 1))
    world.foresight.look(world.flight)
    assert len(queue.requests) == 1
    first = world.flight.next
    world.foresight.look(world.flight)
    assert not queue.requests
    assert world.flight.next is first
    assert first is not None
    assert len(first.requests) == QUANTUM + 1


@pytest.mark.parametrize(("asked", "solo"), [(CloseSession(), False), (SetData("/a"), True)])
def test_what_cannot_be_evaluated_ahead_holds_up_its_session_alone(
    asked: Single | CloseSession, solo: bool
) -> None:
    world = World()
    passed = world.wait(2, asked, SetData("/a"), solo=solo)
    other = world.wait(3, SetData("/a"))
    world.foresight.look(world.flight)
    assert len(passed.requests) == 2
    assert list(world.flight.claimed) == [other]
    assert world.flight.passed == {passed}


def test_what_looked_at_a_path_that_is_locked_by_now_is_not_sent() -> None:
    world = World()
    world.wait(2, SetData("/a"))
    world.foresight.look(world.flight)
    revision = world.apply()
    world.locks["/a"] = object()
    assert world.foresight.settle(world.flight, revision) is None
    assert world.flight.next is not None  # until it is taken back


def test_what_is_forgotten_goes_back() -> None:
    world = World()
    world.wait(2, SetData("/a"), SetData("/a"))
    world.foresight.look(world.flight)
    batch = world.flight.next
    assert batch is not None
    world.foresight.forget(world.flight)
    assert world.back == [batch]
    assert world.flight.next is None
    assert not world.flight.claimed
    world.foresight.forget(world.flight)
    assert len(world.back) == 1


async def test_what_waits_for_a_path_in_flight_goes_out_as_soon_as_that_is_over() -> None:
    async with shells() as (_, (shell,)):
        committer = shell.committer
        before = committer.txns
        shell.client.open.clear()
        shell.submit(1, SetData("/a", b"1"))
        await until(lambda: shell.client.waiting == 1)
        shell.submit(1, SetData("/a", b"2"))
        shell.submit(2, SetData("/a", b"3", 1))
        await until(lambda: not any(queue.requests for queue in committer._queues.values()))
        assert committer.outstanding == 3
        assert committer.txns == before + 1
        shell.client.open.set()
        await shell.settle()
        assert (committer.txns, committer.ahead, committer.conflicts) == (before + 2, 1, 0)
        assert [request.refusal for _, _, request in shell.answers] == [None] * 3
        assert [asked.data for session, asked, _ in shell.answers if session == 1] == [b"1", b"2"]
        assert shell.mirror.tree.nodes["/a"].version == 3


async def test_what_was_evaluated_ahead_of_a_lost_race_is_evaluated_again_in_its_order() -> None:
    async with shells(2) as (_, (shell, other)):
        shell.client.open.clear()
        shell.submit(1, Create("/a/s", flags=2))
        await until(lambda: shell.client.waiting == 1)
        shell.submit(1, Create("/a/s", flags=2))
        shell.submit(2, Create("/a/s", flags=2))
        await until(lambda: not any(queue.requests for queue in shell.committer._queues.values()))
        other.submit(3, Create("/a/s", flags=2))
        await other.settle()
        shell.client.open.set()
        await shell.settle()
        assert (shell.committer.ahead, shell.committer.conflicts) == (0, 1)
        made = [(session, request.result[0]) for session, _, request in shell.answers]
        assert sorted(path for _, path in made) == [f"/a/s{number:010d}" for number in (1, 2, 3)]
        assert [path for session, path in made if session == 1] == sorted(
            path for session, path in made if session == 1
        )
