"""Group commit on the fake etcd: what is answered is true, in order, and happens once, whatever etcd does."""

import asyncio
import logging
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.constants import ErrorCode
from proxy import committer as committer_module
from proxy.acl import Caller
from proxy.batch import Request
from proxy.etcd.model import Delete, EtcdUnknown, Put, Txn, TxnResult
from proxy.operation import WriteOperation
from proxy.ops.session import OPEN
from proxy.ops.stats import nothing
from proxy.ops.sync import SYNC
from schema.values import SessionValue
from tests.fakes.etcd import Fate
from tests.proxy.naive import CloseSession, Create, Multi, SetData
from tests.proxy.shell import SESSIONS, Client, Shell, shells, until
from tests.proxy.world import INCARNATION, KEYS, Store


async def test_an_answer_comes_when_the_mirror_shows_it_and_its_watches_have_fired() -> None:
    async with shells() as (store, (shell,)):
        shell.following.clear()
        shell.watches.fired.clear()
        request = shell.submit(1, Create("/a/x"))
        await until(lambda: store.range_now(KEYS.node("/a/x")))
        for _ in range(10):
            await asyncio.sleep(0)
        assert shell.answers == []
        revisions, seconds = shell.committer.lag()
        assert revisions == store.revision - shell.mirror.revision > 0
        assert seconds >= 0
        fired: list[tuple[int, str]] = []
        answer = request.done

        def done(request: Request, zxid: int) -> None:
            fired.extend(shell.watches.fired)
            assert "/a/x" in shell.mirror.tree.nodes
            answer(request, zxid)

        request.done = done
        shell.following.set()
        await shell.settle()
        assert fired == [(1, "/a/x")]
        assert shell.committer.lag() == (0, 0.0)


async def test_writes_of_many_sessions_share_a_txn() -> None:
    async with shells() as (_, (shell,)):
        before = shell.committer.txns
        sizes = shell.committer.batch_sizes.nanos
        for session in SESSIONS:
            for _ in range(20):
                shell.submit(session, Create("/a/s", flags=2))
        await shell.settle()
        assert shell.committer.txns - before == 1
        assert shell.committer.batch_sizes.nanos - sizes == 160
        assert len(shell.answers) == 160
        names = {request.result[0] for _, _, request in shell.answers}
        assert names == {f"/a/s{number:010d}" for number in range(160)}


async def test_each_session_is_answered_in_its_order() -> None:
    async with shells() as (_, (shell,)):
        for round_ in range(30):
            for session in SESSIONS:
                shell.submit(session, SetData("/a" if round_ % 3 else "/", b"%d" % round_))
            if round_ % 4 == 0:
                await asyncio.sleep(0)
        await shell.settle()
        for session in SESSIONS:
            data = [asked.data for who, asked, _ in shell.answers if who == session]
            assert data == [b"%d" % round_ for round_ in range(30)]


async def test_a_path_in_flight_is_waited_for_and_others_are_not() -> None:
    async with shells() as (_, (shell,)):
        shell.client.open.clear()
        shell.submit(1, SetData("/a", b"1"))
        await until(lambda: shell.client.waiting == 1)
        held = shell.submit(2, SetData("/a", b"2", 1))
        shell.submit(3, SetData("/", b"3"))
        await until(lambda: shell.client.waiting == 2)
        shell.client.open.set()
        await shell.settle()
        assert held.refusal is None
        assert shell.mirror.tree.nodes["/a"].version == 2
        assert shell.committer.txns == 4


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


async def test_two_proxies_share_a_counter_without_gaps() -> None:
    async with shells(2) as (store, both):
        for number in range(40):
            for place, shell in enumerate(both):
                shell.submit(1 + place * 4 + number % 4, Create("/a/s", flags=2))
            if number % 5 == 0:
                await asyncio.sleep(0)
        for shell in both:
            await shell.settle()
        names = [request.result[0] for shell in both for _, _, request in shell.answers]
        assert sorted(names) == [f"/a/s{number:010d}" for number in range(80)]
        assert sum(shell.committer.conflicts for shell in both) > 0
        await until(lambda: all(len(shell.mirror.tree.nodes["/a"].children or ()) == 80 for shell in both))
        assert store.revision == both[0].mirror.revision


async def test_a_refusal_computed_from_an_old_mirror_is_computed_again() -> None:
    async with shells(2) as (_, (here, there)):
        here.following.clear()
        there.submit(5, Create("/a/x"))
        await there.settle()
        request = here.submit(1, SetData("/a/x", b"seen"))
        await until(lambda: not here.client.waiting)
        assert here.answers == []
        here.following.set()
        await here.settle()
        assert request.refusal is None


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


async def test_who_would_change_what_another_session_reads_goes_into_the_next_txn() -> None:
    async with shells() as (_, (shell,)):
        shell.submit(1, SetData("/a"))
        shell.submit(1, Create("/b")).reads = (b"/",)
        before = shell.committer.txns
        first, second = shell.submit(2, Create("/c")), shell.submit(2, SetData("/c"))
        shell.submit(3, SetData("/a"))
        await shell.settle()
        assert shell.committer.txns - before == 2
        assert first.refusal == second.refusal is None
        assert [who for who, _, _ in shell.answers] == [1, 1, 3, 2, 2]


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
        with mock.patch.object(committer_module, "_RETRY", 0.0005):
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


async def test_a_lease_that_is_gone_is_the_fault_of_its_session_alone() -> None:
    async with shells() as (_, (shell,)):
        guilty = shell.submit_as(99, OPEN, SessionValue("h", 4000, INCARNATION))
        innocent = [shell.submit(session, Create("/a/s", flags=2)) for session in SESSIONS]
        await shell.settle()
        assert guilty.refusal is ErrorCode.SESSION_EXPIRED
        assert [request.refusal for request in innocent] == [None] * len(SESSIONS)


async def test_a_request_too_large_for_etcd_is_told_so_and_alone() -> None:
    async with shells() as (_, (shell,)):
        large = shell.submit(1, SetData("/a", bytes(2_000_000)))
        small = shell.submit(2, SetData("/", b"small"))
        await shell.settle()
        assert large.refusal is ErrorCode.BAD_ARGUMENTS
        assert (shell.committer.unknown, shell.committer.refused) == (0, 2)  # with the other, then alone
        assert small.refusal is None
        assert shell.mirror.tree.nodes["/a"].version == 0


async def test_a_full_etcd_refuses_writes_and_ends_sessions_later() -> None:
    async with shells() as (_, (shell,)):
        shell.submit(1, Create("/e", flags=1))
        await shell.settle()
        with mock.patch.object(committer_module, "_NO_SPACE_PAUSE", 0.01):
            # The Txn, then a second one for what ends the session; each is followed by a look at the marker.
            shell.client.fates.extend([Fate.NO_SPACE])
            refused = shell.submit(2, SetData("/a", b"1"))
            ended = shell.submit(1, CloseSession())
            await shell.settle()
        assert refused.refusal is ErrorCode.SYSTEM_ERROR
        assert ended.refusal is None
        assert "/e" not in shell.mirror.tree.nodes
        assert shell.mirror.tree.nodes["/a"].version == 0


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


async def test_a_full_etcd_that_takes_no_marker_refuses_as_well() -> None:
    store = Store(SESSIONS)
    shell = Shell(store)
    shell.client.fates.append(Fate.NO_SPACE)
    refused = shell.submit(1, Create("/x"))
    await shell.settle()
    assert refused.refusal is ErrorCode.SYSTEM_ERROR
    accepted = shell.submit(1, Create("/x"))
    await shell.settle()
    assert accepted.refusal is None
    await shell.tasks.close()


async def test_a_request_that_cannot_be_evaluated_harms_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_draft: object, _caller: object, _fields: object) -> None:
        raise ZeroDivisionError

    poison = WriteOperation(SYNC.decode, fail, nothing)
    async with shells() as (_, (shell,)):
        shell.submit(1, Create("/a/x"))
        bad = shell.submit_as(1, poison, None)
        alone = shell.submit_as(2, poison, None)
        good = shell.submit(1, Create("/a/y"))
        after = shell.submit(2, Create("/a/z"))
        await shell.settle()
        assert bad.refusal is alone.refusal is ErrorCode.MARSHALLING_ERROR
        assert good.refusal is after.refusal is None
        later = shell.submit(2, Create("/a/w"))
        await shell.settle()
        assert later.refusal is None
    assert "could not be evaluated" in caplog.text


async def test_a_request_that_needs_a_txn_to_itself_waits_for_those_in_flight() -> None:
    async with shells() as (_, (shell,)):
        names = [f"/a/{number}" for number in range(150)]
        shell.submit(1, Multi(tuple(Create(name) for name in names)))
        await shell.settle()
        shell.client.open.clear()
        shell.submit(2, SetData("/", b"first"))
        await until(lambda: shell.client.waiting == 1)
        wide = shell.submit(1, Multi(tuple(SetData(name, b"new", 0) for name in names)))
        behind = shell.submit(3, SetData("/a", b"behind"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert shell.client.waiting == 1
        shell.client.open.set()
        await shell.settle()
        assert isinstance(wide.result, list)
        assert behind.refusal is None
        assert {shell.mirror.tree.nodes[name].version for name in names} == {1}


async def test_nothing_overtakes_a_request_that_needs_a_txn_to_itself() -> None:
    async with shells() as (_, (shell,)):
        names = [f"/a/{number}" for number in range(150)]
        shell.submit(1, Multi(tuple(Create(name) for name in names)))
        await shell.settle()
        shell.client.open.clear()
        shell.submit(1, Multi(tuple(SetData(name, b"new", 0) for name in names)))
        await until(lambda: shell.client.waiting == 1)
        shell.submit(2, SetData("/", b"behind"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert shell.client.waiting == 1  # else small ones might make the wide one lose again and again
        shell.client.open.set()
        await shell.settle()
        assert shell.committer.conflicts == 0
        assert shell.mirror.tree.nodes["/"].version == 1


async def test_waiting_for_the_end_of_nothing_is_no_wait() -> None:
    async with shells() as (_, (shell,)):
        await shell.settle()
        assert shell.committer.outstanding == 0


async def test_commit_waits_for_the_answer() -> None:
    async with shells() as (_, (shell,)):
        done = await shell.committer.commit(
            lambda done: Request(SYNC, "/", Caller(0, ()), 0, done, of_session=False)
        )
        assert done.refusal is None
        assert done.result == "/"
