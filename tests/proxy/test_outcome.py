"""What became of Txns, on the fake etcd: whatever is lost, what is told is true and nothing happens twice."""

import asyncio
import logging
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.constants import ErrorCode
from proxy import outcome as outcome_module
from proxy import plan
from proxy.etcd.model import Delete, EtcdUnknown, Put, Txn, TxnResult
from proxy.flights import Flight, Lane
from proxy.outcome import NoSpace, Outcomes
from tests.fakes.etcd import FakeEtcdClient, Fate
from tests.proxy.naive import Create, Multi, SetData, Single
from tests.proxy.shell import SESSIONS, Client, shells, until
from tests.proxy.world import INCARNATION, KEYS, MARKER, Proxy, Store, request_of


class World:
    """Flights on a store, sent by hand, and what is told of them."""

    def __init__(self) -> None:
        self.store = Store(SESSIONS)
        self.client = FakeEtcdClient(self.store)
        self.proxy = Proxy(self.store)
        self.new_lane = Lane(KEYS.marker(INCARNATION, 2))
        self.outcomes = Outcomes(self.proxy.mirror, self.client, KEYS, lambda: self.new_lane)

    async def flight(self, *asked: Single) -> Flight:
        """A batch of these, each of another session, on a lane that is open."""
        batch = self.proxy.batch(1)
        for session, single in zip(SESSIONS, asked, strict=False):
            assert batch.add(request_of(session, single))
        lane = Lane(MARKER)
        await self.outcomes.open(lane)
        flight = Flight(batch, lane, [])
        flight.value = lane.next_value("txn")
        return flight

    async def send(self, flight: Flight) -> TxnResult:
        lane = flight.lane
        txn, _ = plan.build(flight.batch, KEYS, lane.key, lane.mod, flight.value, loser=INCARNATION)
        return await self.client.txn(txn, 1.0)


async def test_a_lane_is_open_where_its_marker_was_put_whoever_was_told() -> None:
    world = World()
    there = Lane(MARKER)
    await world.outcomes.open(there)
    assert there.mod == world.store.range_now(MARKER)
    for fates in ((), (Fate.ANSWER_LOST,), (Fate.LOST, Fate.ANSWER_LOST)):
        lane = Lane(KEYS.marker("other", len(fates)))
        world.client.fates.extend(fates)
        with mock.patch.object(outcome_module, "_RETRY", 0.0005):
            await world.outcomes.open(lane)
        assert lane.mod == world.store.range_now(lane.key) == world.store.revision


async def test_an_answer_tells_which_components_were_applied_and_the_marker() -> None:
    world = World()
    flight = await world.flight(Create("/a"), SetData("/b"))
    assert world.outcomes.of_answer(flight, await world.send(flight)) == (world.store.revision, [True, True])
    assert flight.lane.mod == world.store.revision
    # Both were computed from the tree before: there is a node /a by now, but still no /b.
    again = await world.flight(Create("/a"), SetData("/b"))
    assert world.outcomes.of_answer(again, await world.send(again)) == (world.store.revision, [False, True])


async def test_an_answer_that_misses_the_marker_has_another_lane_opened() -> None:
    world = World()
    flight = await world.flight(Create("/a"))
    world.store.txn(Txn((), (Delete(MARKER),)))
    assert world.outcomes.of_answer(flight, await world.send(flight)) is None
    assert flight.lane is world.new_lane


@pytest.mark.parametrize("rival", [False, True])
async def test_the_mirror_shows_what_was_applied(rival: bool) -> None:
    world = World()
    flight = await world.flight(Create("/a"), SetData("/b"))
    if rival:
        other = await world.flight(Create("/a"))
        await world.send(other)
        flight.lane.mod = world.store.revision
    answer = await world.send(flight)
    world.proxy.catch_up()
    told = world.outcomes.of_events(flight, answer.revision, set())
    assert told == (answer.revision, [not rival, True])
    assert told == world.outcomes.of_answer(flight, answer)
    # What only refuses is told by what it puts if it loses.
    assert world.outcomes.of_events(flight, answer.revision, {"1"}) == (answer.revision, [not rival, False])


@pytest.mark.parametrize(
    ("fate", "fences", "applied"),
    [
        (Fate.LOST, (), False),
        (Fate.ANSWER_LOST, (), True),
        (Fate.LATE, (), False),
        (Fate.LOST, (Fate.ANSWER_LOST,), False),  # the second fence finds the first one's marker
        (Fate.ANSWER_LOST, (Fate.LOST,), True),
        (Fate.LATE, (Fate.LOST, Fate.ANSWER_LOST), False),
    ],
)
async def test_a_fence_tells_and_what_it_told_stays_so(
    fate: Fate, fences: tuple[Fate, ...], applied: bool
) -> None:
    world = World()
    flight = await world.flight(Create("/a"), Create("/b"))
    world.client.fates.extend((fate, *fences))
    with pytest.raises(EtcdUnknown):
        await world.send(flight)
    sent = world.store.revision
    with mock.patch.object(outcome_module, "_RETRY", 0.0005):
        outcome = await world.outcomes.resolve(flight, no_space=False)
    assert outcome == ((sent, [True]) if applied else None)
    assert flight.lane.mod == world.store.range_now(MARKER)
    world.store.apply_late()
    assert bool(world.store.range_now(KEYS.node("/a"))) is applied


@pytest.mark.parametrize("applied", [False, True])
async def test_a_fence_tells_whether_a_full_etcd_took_the_txn(applied: bool) -> None:
    world = World()
    flight = await world.flight(Create("/a"))
    world.client.fates.append(Fate.NO_SPACE_APPLIED if applied else Fate.NO_SPACE)
    with pytest.raises(EtcdUnknown):
        await world.send(flight)
    if applied:
        sent = world.store.revision
        assert await world.outcomes.resolve(flight, no_space=True) == (sent, [True])
    else:
        with pytest.raises(NoSpace):
            await world.outcomes.resolve(flight, no_space=True)


async def test_no_fence_is_put_when_the_events_have_told() -> None:
    world = World()
    flight = await world.flight(Create("/a"))
    await world.send(flight)
    before = world.store.revision
    flight.ended = True
    assert await world.outcomes.resolve(flight, no_space=False) is None
    assert world.store.revision == before


async def test_a_refusal_is_told_by_the_events_of_its_txn_without_waiting_for_etcds_answer() -> None:
    async with shells(2) as (_, (here, there)):
        answers = asyncio.Event()
        txn = here.client.txn

        async def late(asked: Txn, timeout: float) -> TxnResult:
            answer = await txn(asked, timeout)
            await answers.wait()
            return answer

        with mock.patch.object(here.client, "txn", late):
            refused = here.submit(1, SetData("/missing"))
            here.submit(2, SetData("/a"))
            await until(lambda: len(here.answers) == 2)
            assert refused.refusal == ErrorCode.NO_NODE
            # One that has lost its race is not: its path is there by now.
            here.following.clear()
            there.submit(5, Create("/a/x"))
            await there.settle()
            again = here.submit(1, SetData("/a/x"))
            here.submit(2, SetData("/a"))
            await until(lambda: here.committer.txns == 3)
            here.following.set()
            await until(lambda: again.attempts)
            answers.set()
            await here.settle()
        assert again.refusal is None


_UNKNOWN = (Fate.LOST, Fate.ANSWER_LOST, Fate.LATE)


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from([None, *_UNKNOWN]), max_size=12),
    st.lists(st.booleans(), max_size=12),
    st.booleans(),
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
)
def test_whatever_becomes_of_txns_each_write_happens_once(
    fates: list[Fate | None], arrivals: list[bool], follows: bool, rounds: list[int]
) -> None:
    async def run() -> None:
        async with shells() as (store, (shell,)):
            shell.client.fates.extend(fates)  # type: ignore[arg-type]
            shell.client.arrivals.extend(arrivals)
            if not follows:
                shell.following.clear()
            asked = 0
            for count in rounds:
                for number in range(count):
                    shell.submit(SESSIONS[number], Create("/a/s", flags=2))
                    shell.submit(SESSIONS[number], SetData("/a", b"%d" % asked))
                    asked += 1
                for _ in range(7):
                    await asyncio.sleep(0)
            # While the stream is still, only fences can tell.
            for _ in range(0 if follows else 60):
                await asyncio.sleep(0)
            shell.following.set()
            await shell.settle()
            store.apply_late()
            await until(lambda: shell.mirror.revision == store.revision)
            created = [request.result[0] for _, what, request in shell.answers if isinstance(what, Create)]
            assert sorted(created) == [f"/a/s{number:010d}" for number in range(asked)]
            node = shell.mirror.tree.nodes["/a"]
            assert (node.version, len(node.children or ()), node.created) == (asked, asked, asked)
            assert all(request.refusal is None for _, _, request in shell.answers)

    logging.disable(logging.ERROR)
    try:
        with mock.patch.object(outcome_module, "_RETRY", 0.0005):
            asyncio.run(run())
    finally:
        logging.disable(logging.NOTSET)


async def test_a_txn_that_arrives_behind_its_fence_does_nothing() -> None:
    async with shells() as (store, (shell,)):
        shell.client.fates.append(Fate.LATE)
        shell.submit(1, Create("/a/s", flags=2))
        await shell.settle()
        (late,) = store.apply_late()
        assert not late.succeeded
        assert (shell.committer.unknown, shell.committer.refused) == (1, 0)
        await until(lambda: shell.mirror.revision == store.revision)
        assert shell.mirror.tree.nodes["/a"].children == {"s0000000000"}


async def test_a_refusal_is_told_though_its_txn_was_lost() -> None:
    async with shells() as (_, (shell,)):
        shell.client.fates.append(Fate.ANSWER_LOST)
        request = shell.submit(1, Create("/a"))
        await shell.settle()
        assert request.refusal is ErrorCode.NODE_EXISTS


async def test_a_component_lost_in_a_lost_txn_is_told_from_one_that_won() -> None:
    async with shells() as (store, (shell,)):
        shell.submit(1, Create("/b"))
        await shell.settle()
        shell.following.clear()
        shell.client.open.clear()
        # Both have event lists; only the second component's guards hold when the Txn arrives.
        twice = (SetData("/a", b"1"), SetData("/a", b"2"))
        shell.submit(1, Multi(twice))
        shell.submit(2, Multi((SetData("/b", b"1"), SetData("/b", b"2"))))
        await until(lambda: shell.client.waiting == 1)
        put = next(kv for kv in store.snapshot() if kv.key == KEYS.node("/a"))
        store.txn(Txn((), (Put(put.key, put.value),)))
        shell.client.fates.append(Fate.ANSWER_LOST)
        shell.client.open.set()
        await until(lambda: not shell.client.fates)
        shell.following.set()
        await shell.settle()
        nodes = shell.mirror.tree.nodes
        assert (nodes["/a"].version, nodes["/b"].version) == (2, 2)


async def test_a_swept_marker_costs_nothing_but_another_try() -> None:
    async with shells() as (store, (shell,)):
        for marker in (name for name in (kv.key for kv in store.snapshot()) if name.startswith(KEYS.markers)):
            store.txn(Txn((), (Delete(marker),)))
        request = shell.submit(1, Create("/a/x"))
        await shell.settle()
        assert request.refusal is None


async def test_a_lost_txn_whose_marker_was_swept_is_never_tried_again() -> None:
    async with shells() as (store, (shell,)):
        shell.following.clear()
        client = shell.client

        async def lose_and_sweep(txn: Txn, timeout: float) -> TxnResult:
            client.txn = Client.txn.__get__(client)  # type: ignore[method-assign]
            store.txn(txn)
            for kv in store.snapshot():
                if kv.key.startswith(KEYS.markers):
                    store.txn(Txn((), (Delete(kv.key),)))
            raise EtcdUnknown("lost")

        client.txn = lose_and_sweep  # type: ignore[method-assign]
        request = shell.submit(1, Create("/a/s", flags=2))
        await until(lambda: shell.answers)
        assert request.refusal is ErrorCode.CONNECTION_LOSS
        shell.following.set()
        await until(lambda: shell.mirror.revision == store.revision)
        assert shell.mirror.tree.nodes["/a"].children == {"s0000000000"}
        again = shell.submit(1, Create("/a/s", flags=2))
        await shell.settle()
        assert again.refusal is None


async def test_the_txn_that_fills_etcd_counts() -> None:
    async with shells() as (_, (shell,)):
        shell.following.clear()
        shell.client.fates.append(Fate.NO_SPACE_APPLIED)
        request = shell.submit(1, SetData("/a", b"1"))
        await until(lambda: not shell.client.fates)
        shell.following.set()
        await shell.settle()
        assert request.refusal is None
        assert shell.mirror.tree.nodes["/a"].version == 1
