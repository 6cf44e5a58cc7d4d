"""Group commit on the fake etcd: what is answered is true, in order, and happens once, whatever etcd does."""

import asyncio
from functools import partial
from unittest import mock

import pytest

from codec.constants import ErrorCode
from codec.packets import STAT
from proxy import committer as committer_module
from proxy.acl import Caller
from proxy.batch import Request
from proxy.etcd.model import Txn, TxnResult
from proxy.operation import WriteOperation
from proxy.ops.session import OPEN
from proxy.ops.stats import nothing
from proxy.ops.sync import SYNC
from schema.values import SessionValue
from tests.fakes.etcd import Fate
from tests.proxy import naive
from tests.proxy.naive import CloseSession, Create, Multi, SetData
from tests.proxy.shell import SESSIONS, Shell, shells, until
from tests.proxy.world import INCARNATION, KEYS, Store, answer_of


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


def _in_flight(shell: Shell, count: int) -> bool:
    return shell.client.waiting == count


@pytest.mark.parametrize(
    "patient",
    [CloseSession(), Multi((SetData("/a", b""), SetData("/b", b"")))],
    ids=["what cannot be evaluated ahead", "what needs paths of several Txns"],
)
async def test_who_waits_for_paths_that_are_always_taken_gets_them_in_the_end(patient: naive.Asked) -> None:
    async with shells() as (_, (shell,)):
        shell.submit(3, Create("/b"))
        shell.submit(4, Create("/a/ephemeral", flags=1))
        await shell.settle()
        crowd = {1: "/a/s", 2: "/b/s"}
        answers = 0
        over = False

        def more(session: int) -> None:
            """Ask once more, and again with each answer."""
            request = shell.submit(session, Create(crowd[session], flags=2))
            answer = request.done

            def done(request: Request, zxid: int) -> None:
                nonlocal answers
                answers += 1
                answer(request, zxid)
                if not over and answers < 5000:
                    more(session)

            request.done = done

        txn_now = shell.client.txn

        async def txn(txn: Txn, timeout: float) -> TxnResult:
            for _ in range(10):  # as long as the others need to ask for more
                await asyncio.sleep(0)
            return await txn_now(txn, timeout)

        shell.client.txn = txn  # type: ignore[method-assign]
        shell.client.open.clear()
        for number, session in enumerate(crowd, 1):
            for _ in range(2):  # one in flight, one behind it
                for _ in range(100):
                    more(session)
                await until(partial(_in_flight, shell, number))
        waiting = shell.submit(4, patient)
        answer = waiting.done

        def done(request: Request, zxid: int) -> None:
            nonlocal over
            over = True
            answer(request, zxid)

        waiting.done = done
        shell.client.open.set()
        await shell.settle()
        assert waiting.refusal is None
        assert answers < 5000, "it waited until the others had enough"


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


async def test_sessions_that_write_one_by_one_end_up_in_one_txn() -> None:
    rounds = 30
    with mock.patch("proxy.gathering.GRACE", 0.2), mock.patch("proxy.gathering._AT_ONCE", 0.2):
        async with shells() as (_, (shell,)):
            left = dict.fromkeys(SESSIONS, rounds)
            before = shell.committer.txns
            for session in SESSIONS:
                _write_again(shell, left, session, turns=20 * session)
            await until(lambda: not any(left.values()))
            assert shell.committer.txns - before < 3 * rounds  # of 6 where nobody is waited for


def _write_again(shell: Shell, left: dict[int, int], session: int, turns: int) -> None:
    """Write so many turns of the loop from now, and after the answer once more as long as any are left."""
    if turns:
        asyncio.get_running_loop().call_soon(_write_again, shell, left, session, turns - 1)
        return
    request = shell.submit(session, SetData(f"/a/{session}"))
    answer = request.done

    def done(request: Request, zxid: int) -> None:
        answer(request, zxid)
        left[session] -= 1
        if left[session]:  # each client takes another time to come back
            _write_again(shell, left, session, turns=3 * session)

    request.done = done


async def test_nobody_waits_for_a_session_that_has_begun_to_pipeline() -> None:
    with mock.patch("proxy.gathering.GRACE", 60.0), mock.patch("proxy.gathering._AT_ONCE", 60.0):
        async with shells() as (_, (shell,)):
            gathering = shell.committer._gathering
            for _ in range(5):
                shell.submit(1, SetData("/a"))
                await shell.settle()
            assert gathering._due == 1
            shell.client.open.clear()
            for _ in range(3):
                shell.submit(1, SetData("/a"))
            await until(lambda: shell.client.waiting == 1)
            with mock.patch.object(gathering, "_worthwhile", side_effect=AssertionError("who is to come?")):
                shell.submit(2, SetData("/b"))
                await until(lambda: shell.client.waiting == 2)
            shell.client.open.set()
            await shell.settle()


async def test_what_was_evaluated_ahead_tells_of_no_state_that_another_txn_has_changed_meanwhile() -> None:
    async with shells() as (_, (shell,)):
        for path in ("/a/x", "/b"):
            shell.submit(1, Create(path))
        await shell.settle()
        first_may = asyncio.Event()
        txn = shell.client.txn

        async def waits(asked: Txn, timeout: float) -> TxnResult:
            await first_may.wait()
            return await txn(asked, timeout)

        before = shell.committer.txns
        with mock.patch.object(shell.client, "txn", waits):
            shell.submit(1, SetData("/b"))
            await until(lambda: shell.committer.txns > before)
        ahead = shell.submit(1, SetData("/a/x"))
        await until(lambda: any(flight.next for flight in shell.committer._flights))
        shell.submit(2, Create("/a/x/child"))
        await until(lambda: "/a/x/child" in shell.mirror.tree.nodes)
        first_may.set()
        await shell.settle()
        stat = answer_of(ahead, shell.mirror.zxid).stat
        assert stat == STAT.unpack(shell.mirror.tree.nodes["/a/x"].stat())
