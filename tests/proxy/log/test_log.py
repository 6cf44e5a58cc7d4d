"""Whole proxies, without clients, on the model of etcd: each request counts exactly once and in order."""

import asyncio
import math
import random
import time
from collections.abc import AsyncIterator
from unittest import mock

import pytest

from codec.constants import ErrorCode
from lab.fakes.etcd import FakeEtcd, Fate
from proxy.etcd.model import Delete, Put, Txn
from proxy.log.append.sent import EntryHeader
from proxy.log.context import LogSettings
from proxy.log.follow import staleness, watch_guard
from proxy.log.record import Registered, TreeNotServable
from proxy.log.status import Contact
from proxy.log.upkeep import truncation
from proxy.log.upkeep.snapshot_writer import write
from proxy.state.node import full_node
from schema.budgets import encode_rule
from schema.entry import EntryWriter, Kind, encode_forget, encode_level, encode_terms
from schema.keys import Keyspace
from tests.proxy.log.proxies import EPHEMERAL, PASSWORD, SEQUENTIAL, Proxy, World, answered, until
from tests.proxy.log.trees import Tree
from tests.seeds import seeds


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    for proxy in world.proxies:
        world.client(proxy).reconnect()
        await proxy.stop()


async def test_a_write_is_applied_at_every_proxy_and_answered_at_one(world: World) -> None:
    one, two = await world.proxy(), await world.proxy()
    await answered([one.open(1)])
    reply = one.create(1, "/x", b"data")
    await answered([reply])
    assert (reply.error, reply.zxid, reply.body) == (0, 2, b"\0\0\0\x02/x")
    await until(lambda: "/x" in two.log.machine.tree.nodes)
    assert two.log.machine.sessions[1].incarnation == one.log.incarnation
    assert [proxy.incarnation for proxy in one.log.living] == [one.log.incarnation, two.log.incarnation]
    assert two.changes == one.changes
    await world.check()


async def test_when_the_lease_runs_out_the_sessions_are_carried_over(world: World) -> None:
    one, two = await world.proxy(), await world.proxy()
    await answered([one.open(1), one.create(1, "/xe", flags=EPHEMERAL), two.open(2)])
    old = one.log.incarnation
    world.end_lease(one)
    reply = one.create(1, "/xb")
    await answered([reply])
    assert reply.error == 0
    assert one.log.incarnation != old
    assert one.log.machine.sessions[1].incarnation == one.log.incarnation
    assert one.log.machine.sessions[2].incarnation == two.log.incarnation
    assert {"/xe", "/xb"} <= one.paths()
    await until(lambda: old in two.gone)
    assert (one.over, two.over) == ([old], [])
    await world.check()


async def test_the_sessions_of_a_proxy_are_timed_by_its_own_lease(world: World) -> None:
    """Also by proxies with another one, whether they saw it come or loaded the tree after that."""
    one = await world.proxy_with(LogSettings(lease_seconds=7))
    two, three = await world.proxy_with(LogSettings(lease_seconds=40)), await world.proxy()
    leases = {one.log.incarnation: 7, two.log.incarnation: 40}
    world.end_lease(one)
    world.end_lease(two)
    await until(lambda: one.gone == two.gone == three.gone == leases)


async def test_a_proxy_whose_key_names_no_lease_counts_as_if_it_had_none(world: World) -> None:
    """Its value is damaged: its sessions have their whole timeout."""
    one = await world.proxy()
    key = b"/t/live/proxy/damaged"
    world.store.txn(Txn((), (Put(key, b"{}"),)))
    world.store.txn(Txn((), (Delete(key),)))
    await until(lambda: one.gone == {"damaged": 0})


async def test_until_sessions_are_carried_over_the_keep_alives_of_their_incarnation_count(
    world: World,
) -> None:
    """For other proxies end them by it, however well the new one is kept alive."""
    one, two = await world.proxy(), await world.proxy()
    await answered([one.open(1)])

    def registered(incarnation: str) -> None:
        one.registered_as = incarnation
        world.client(one).unreachable = True  # nothing is carried over

    async def registers_anew() -> Contact:
        old = one.registered_as
        world.client(one).unreachable = False
        world.end_lease(one)
        await until(lambda: one.registered_as != old)
        return one.log.contact()

    before = one.log.contact()
    with mock.patch.object(one, "registered", registered):
        first = await registers_anew()
        second = await registers_anew()
    assert before.ended_at == math.inf
    assert before.keep_alive_sent == first.keep_alive_sent == second.keep_alive_sent
    assert first.ended_at == second.ended_at < math.inf
    world.client(one).unreachable = False
    await until(lambda: two.log.machine.sessions[1].incarnation == one.log.incarnation)
    await until(lambda: one.log.contact().ended_at == math.inf)
    assert one.log.contact().keep_alive_sent > before.keep_alive_sent
    await world.check()


async def test_until_sessions_are_taken_back_the_keep_alives_since_they_went_do_not_count(
    world: World,
) -> None:
    one, heir = await world.proxy(), await world.proxy()
    await answered([one.open(1)])
    went = one.log.contact()._replace(keep_alive_sent=1.0)
    assert await heir.log.carry_over(one.log.incarnation, int) == 0
    world.client(heir).disconnect()
    world.client(one).unreachable = True
    taking = asyncio.ensure_future(one.log.take_back(heir.log.incarnation, went))
    await asyncio.sleep(0)
    assert one.log.contact().keep_alive_sent == 1.0
    world.client(one).unreachable = False
    await asyncio.wait_for(taking, 10)
    assert one.log.machine.sessions[1].incarnation == one.log.incarnation
    assert one.log.contact().keep_alive_sent > 1.0


async def test_the_key_of_a_process_that_was_not_seen_to_come_is_deleted_as_well(world: World) -> None:
    """Its carry-over may be on its way: after that of this proxy, it would take the sessions away again."""
    one, heir = await world.proxy(), await world.proxy()
    await answered([one.open(1)])
    successor = heir.log.incarnation
    one.log.living.gone(successor)
    await asyncio.wait_for(one.log.take_back(successor, one.log.contact()), 10)
    await until(lambda: successor in one.gone)


async def test_a_session_that_moved_while_the_proxy_slept_is_not_carried_over(world: World) -> None:
    one, two = await world.proxy(), await world.proxy()
    await answered([one.open(1)])
    world.client(one).disconnect()
    world.end_lease(one)
    late = one.create(1, "/xa")
    await answered([two.submit(Kind.ATTACH, 1, body=encode_terms(30_000, PASSWORD))])
    world.client(one).reconnect()
    await answered([late])
    assert late.error == ErrorCode.SESSION_MOVED
    assert one.log.machine.sessions[1].incarnation == two.log.incarnation


async def test_a_proxy_that_loses_its_lease_while_etcd_is_full_is_registered_once_there_is_space(
    world: World,
) -> None:
    one = await world.proxy()
    await answered([one.open(1)])
    world.store.full = True
    world.end_lease(one)
    await until(lambda: one.log.status().is_full)
    assert not one.log.status().is_registered
    refused = one.create(1, "/xa")
    await answered([refused])
    assert refused.error == ErrorCode.SYSTEM_ERROR
    world.store.full = False
    await until(lambda: one.log.status().is_registered)
    await until(lambda: one.log.machine.sessions[1].incarnation == one.log.incarnation)
    await world.check()


async def test_draining_waits_for_outcomes(world: World) -> None:
    one = await world.proxy()
    await answered([one.open(1)])
    world.client(one).unreachable = True
    reply = one.create(1, "/xa")
    assert not await one.log.drain(0.1)
    assert reply.times == 0
    world.client(one).unreachable = False
    assert await one.log.drain(5.0)
    assert reply.error == 0


async def test_a_drain_does_not_wait_for_what_another_process_has_taken_over(world: World) -> None:
    """The end of a session came after that, and 10 s passed before this process ended."""
    one = await world.proxy()
    await answered([one.open(1)])
    one.log.outbox.hold()
    one.log.outbox.end()
    one.close(1)
    assert await one.log.drain(0.0)


async def test_work_that_was_cancelled_is_a_fault(world: World) -> None:
    one = await world.proxy()
    work = one.log._running[0]
    work.cancel()
    failure = await asyncio.wait_for(one.log.failed(), 10)
    assert isinstance(failure, RuntimeError)
    assert work.get_name() in str(failure)
    assert "was cancelled" in str(failure)


async def test_a_level_that_this_release_does_not_know_ends_it_with_what_to_do(world: World) -> None:
    one, two = await world.proxy(), await world.proxy()
    one.submit(Kind.LEVEL, 0, body=encode_level(2))
    failure = await asyncio.wait_for(two.log.failed(), 10)
    assert isinstance(failure, TreeNotServable)
    assert "the tree under /t has level 2" in str(failure)
    assert "Start a newer release" in str(failure)


@pytest.mark.parametrize("seed", seeds(2, 25))
async def test_random_histories(world: World, seed: int) -> None:
    """Lost, late, doubled and refused Txns, broken watches, leases that end at random moments; a budget."""
    chance = random.Random(seed)
    proxies = [await world.proxy() for _ in range(3)]
    has_budget = seed % 3 == 1
    if has_budget:
        await answered([proxies[0].submit(Kind.BUDGET, 0, body=encode_rule("/", 2, 0))])
    sessions = {proxy: [10 * index + number for number in (1, 2, 3)] for index, proxy in enumerate(proxies)}
    for proxy in proxies:
        await answered([proxy.open(session) for session in sessions[proxy]])
    count = 0
    fates = [Fate.LOST, Fate.LOST, Fate.ANSWER_LOST, Fate.LATE, Fate.LATE]
    if seed % 3 == 0:
        fates += [Fate.NO_SPACE, Fate.NO_SPACE_APPLIED]
    for _ in range(250):
        proxy = chance.choice(proxies)
        what = chance.random()
        if what < 0.5:
            count += 1
            proxy.create(chance.choice(sessions[proxy]), f"/x{count}")
        elif what < 0.7:
            world.sync(proxy, chance.choice(sessions[proxy]))
        elif what < 0.8:
            world.client(proxy).fates.append(chance.choice(fates))
        elif what < 0.84:
            world.end_lease(proxy)
        elif what < 0.88:
            world.store.apply_late()
        elif what < 0.9:
            world.store.break_watches()
        elif what < 0.92:
            if world.client(proxy).unreachable:
                world.client(proxy).reconnect()
            else:
                world.client(proxy).disconnect()
        if chance.random() < 0.5:
            await asyncio.sleep(chance.choice((0, 0, 0, 0.001, 0.01)))
    for proxy in proxies:
        world.client(proxy).reconnect()
        world.client(proxy).fates.clear()
    await answered([reply for proxy in proxies for reply in proxy.replies])
    world.store.apply_late()
    await world.check()
    machines = [proxy.log.machine for proxy in proxies]
    assert all(machine.budgets.value == machines[0].budgets.value for machine in machines)
    assert has_budget == any(proxy.log.stats.throttled["/"] for proxy in proxies)


# -- truncation, loads, restores -----------------------------------------------------------------------------


async def truncate(proxy: Proxy, times: int = 1) -> None:
    """Two snapshots: what the first holds is no longer in the log. Then forget, as a proxy does."""
    keys = Keyspace("/t")
    living = {each.incarnation: each.revision for each in proxy.log.living}
    name = proxy.log.incarnation
    for _ in range(2 * times):
        await proxy.barrier()
        await write(proxy.etcd, keys, Registered(name, living[name]), pace=1e12)
    record = proxy.log.status().record
    assert record is not None
    assert record.previous is not None
    truncated = await truncation.applied_in(proxy.etcd, keys, record.previous.name)
    assert truncated is not None
    for incarnation in truncation.forgettable(proxy.log.machine, living.keys(), truncated):
        number = proxy.log.machine.applied[incarnation]
        assert await truncation.drop_incarnation(proxy.etcd, keys, incarnation, number)
        await answered([proxy.submit(Kind.FORGET, 0, body=encode_forget(incarnation))])


@pytest.mark.parametrize("loses_answer", [False, True])
async def test_a_proxy_that_slept_until_it_was_forgotten(world: World, loses_answer: bool) -> None:
    """It is not known any more which of its requests counted: none is sent again."""
    one, two = await world.pair()
    if loses_answer:
        doubtful = await world.append_unheard(one)
    else:
        world.client(one).disconnect()
        doubtful = one.create(1, "/xa")
    old = one.log.incarnation
    world.end_lease(one)
    await until(lambda: old in two.gone)
    await answered([two.close(1)])
    await truncate(two, times=2)
    assert old not in two.log.machine.applied
    world.client(one).reconnect()
    await answered([doubtful])
    assert doubtful.error in (ErrorCode.CONNECTION_LOSS, ErrorCode.SESSION_EXPIRED)
    await until(lambda: one.log.incarnation != old)
    behind = one.open(3)
    await answered([behind])
    await world.agree()


async def test_sessions_that_could_not_be_carried_over_are_so_before_what_waits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next incarnation ends as well, and takes what would have carried the sessions over with it."""
    one, two = await world.pair()
    first = one.log.incarnation
    with monkeypatch.context() as patched:
        patched.setattr(world.client(one), "begin_txn", lambda *_: None)  # neither sent nor answered
        world.end_lease(one)
        await until(lambda: one.log.status().unanswered == 1)
        second = one.log.incarnation
        assert second != first
        lost = one.create(1, "/xlost")
        # As many as may be in flight, which are more after a round trip that took long.
        appender = one.log.incarnations.appender
        for number in range(2, appender.window):
            await until(lambda: one.log.status().unanswered == number)  # noqa: B023
            one.create(1, f"/xlost{number}")
        await until(lambda: one.log.status().unanswered == appender.window)
        waiting = one.create(1, "/xwaiting")
        world.client(one).disconnect()
        world.end_lease(one)
        await until(lambda: second in two.gone)
        await answered([two.create(2, "/xa")])
        await truncate(two, times=2)
    world.client(one).reconnect()
    await answered([lost, waiting])
    assert (lost.error, waiting.error) == (ErrorCode.CONNECTION_LOSS, 0)
    await world.agree()


async def test_after_a_restore_the_incarnation_is_new_and_zxids_go_on(world: World) -> None:
    one, two = await world.proxy(), await world.proxy()
    await answered([one.open(1), one.create(1, "/xa"), two.open(2)])
    zxid = one.log.machine.zxid
    names = {one.log.incarnation, two.log.incarnation}
    backup = world.store.snapshot()
    await answered([one.create(1, "/xlost")])
    for proxy in (one, two):
        world.client(proxy).disconnect()
    in_flight = one.create(1, "/xb")
    await until(lambda: not one.log.outbox.queue)  # it was sent; the next one waits
    one.log.outbox.hold()
    waiting = one.create(1, "/xw")
    restored = FakeEtcd()
    restored.cluster_id = 7
    restored.revision = 2
    for pair in backup:
        if b"/proxy/" not in pair.key:
            restored.txn(Txn((), (Put(pair.key, pair.value),)))
    for proxy in (one, two):
        world.client(proxy).store = restored
        world.client(proxy).reconnect()
    world.store = restored
    await answered([in_flight])
    assert in_flight.error == ErrorCode.CONNECTION_LOSS
    one.log.outbox.release()
    await until(lambda: names.isdisjoint({one.log.incarnation, two.log.incarnation}))
    again = one.create(1, "/xc")
    await answered([again])
    assert again.error == 0
    assert again.zxid >> 32 > zxid >> 32
    await world.agree()
    assert one.log.machine.sessions[1].incarnation == one.log.incarnation
    assert one.log.machine.sessions[2].incarnation == two.log.incarnation
    assert "/xlost" not in one.log.machine.tree.nodes
    await answered([waiting])
    assert one.log.machine.undone[0].start == zxid + 1


async def test_a_lease_that_ends_before_the_sessions_were_carried_over(world: World) -> None:
    one = await world.proxy()
    await answered([one.open(1)])
    first = one.log.incarnation
    client = world.client(one)

    def registered(incarnation: str) -> None:
        # The entry that carries the sessions over is still on its way when this lease ends, too.
        if not one.registered_as.startswith("second"):
            one.registered_as = f"second {incarnation}"
            client.fates.append(Fate.LATE)

    one.registered = registered  # type: ignore[method-assign]
    world.end_lease(one)
    reply = one.create(1, "/xa")
    await until(lambda: one.registered_as.startswith("second") and not client.fates)
    second = one.log.incarnation
    world.end_lease(one)
    await answered([reply])
    assert reply.error == 0
    assert len({first, second, one.log.incarnation}) == 3
    assert not any(result.succeeded for result in world.store.apply_late())
    assert one.log.machine.sessions[1].incarnation == one.log.incarnation
    assert sorted(one.over) == sorted((first, second))
    await world.check()


@pytest.mark.parametrize("truncated", [False, True])
async def test_what_the_watch_left_out_before_the_lease_ran_out_is_not_sent_again(
    world: World, monkeypatch: pytest.MonkeyPatch, truncated: bool
) -> None:
    """etcd's issue 17529: the entry is in the log, but the state does not show that it counts."""
    monkeypatch.setattr(staleness, "_INTERVAL", 3600)  # nothing else finds it
    monkeypatch.setattr(watch_guard, "_SHOWN_WITHIN", 3600)
    one, two = await world.pair()
    old, client = one.log.incarnation, world.client(one)
    client.leaves_out = 1
    reply = one.create(1, "/xa-", flags=SEQUENTIAL)
    reply.path = ""
    await until(lambda: bool(client.left_out))
    if truncated:
        await truncate(two)
    unsent = one.create(1, "/xb")
    world.end_lease(one)
    await answered(one.replies)
    assert (reply.error, unsent.error) == (ErrorCode.CONNECTION_LOSS, 0)
    assert len([path for path in two.paths() if path.startswith("/xa-")]) == 1
    assert one.log.machine.sessions[1].incarnation == one.log.incarnation != old
    await world.agree()


async def test_a_lease_that_ends_while_the_previous_snapshot_knows_a_proxy_that_is_forgotten(
    world: World,
) -> None:
    """What the state lacks of others says nothing about its own requests. It was loaded for ever."""
    one, two = await world.pair()
    three = await world.proxy()
    await three.barrier()
    await three.stop()
    world.proxies.remove(three)
    await until(lambda: three.log.incarnation in two.gone)
    await truncate(two)
    assert three.log.incarnation not in two.log.machine.applied
    world.client(one).fates.append(Fate.LOST)
    reply = one.create(1, "/xa")
    await until(lambda: not world.client(one).fates)
    world.end_lease(one)
    await answered([reply])
    assert (reply.error, one.stops) == (0, [])
    await world.agree()


async def test_a_state_that_is_not_trusted_is_loaded_anew_under_load(world: World) -> None:
    one, _ = await world.proxy(), await world.proxy()
    await answered([one.open(1)])
    full_node(one.log.machine.tree.nodes, "/zookeeper").aversion = 7
    for number in range(60):
        one.create(1, f"/x{number}")
        if number == 30:
            one.log.follower.distrust()
        await asyncio.sleep(0.001)
    await answered(one.replies)
    await until(lambda: one.log.stats.reloads == 1)
    await world.agree()
    nodes = one.log.machine.tree.nodes
    for reply in one.replies:
        assert reply.error in (0, ErrorCode.CONNECTION_LOSS)
        assert not reply.path or reply.path in nodes


async def test_a_proxy_that_lacks_an_entry_of_its_own_after_a_load_goes_on_at_once(world: World) -> None:
    """Somebody has deleted it. All that this proxy sent since waited behind it: its clients got no answer."""
    one, _ = await world.pair()
    old = one.log.incarnation
    await answered([one.create(1, "/xlost")])
    lost = one.log.machine.applied[old]
    await answered([one.create(1, "/xbehind")])
    world.store.txn(Txn((), (Delete(Keyspace("/t").entry(old, lost)),)))
    one.log.follower.distrust()
    waiting = one.create(1, "/xwaiting")
    await until(lambda: one.log.incarnation != old)
    after = one.create(1, "/xafter")
    await answered([waiting, after])
    assert (waiting.error, after.error) == (ErrorCode.CONNECTION_LOSS, 0)
    assert one.paths() == {"/xafter"}
    assert one.log.machine.sessions[1].incarnation == one.log.incarnation


async def test_a_proxy_whose_next_entry_another_process_has_written_goes_on_at_once(world: World) -> None:
    """Whoever has the peers' secret can do so. Its clients got no answer, and after a minute it ended."""
    one, two = await world.pair()
    old = one.log.incarnation
    strange = Keyspace("/t").entry(old, one.log.machine.applied[old] + 1)
    world.store.txn(Txn((), (Put(strange, EntryHeader(0, 0, 0, 0).finish(EntryWriter())),)))
    await until(lambda: one.log.incarnation != old)
    reply = one.create(1, "/x")
    await answered([reply])
    assert (reply.error, one.stops) == (0, [])
    await until(lambda: "/x" in two.paths())
    assert one.log.machine.sessions[1].incarnation == one.log.incarnation


async def test_in_doubt_the_incarnation_is_ended_and_clients_notice_nothing(world: World) -> None:
    one, two = await world.proxy(), await world.proxy()
    await answered([one.open(1)])
    old = one.log.incarnation
    replies = [one.create(1, "/xa")]
    await asyncio.sleep(0)
    one.log.incarnations.registration.current.end("test")
    replies.append(one.create(1, "/xb"))
    await answered(replies)
    assert [reply.error for reply in replies] == [0, 0]
    assert old in two.gone
    assert f"/t/live/proxy/{old}".encode() not in {pair.key for pair in world.store.snapshot()}
    assert one.log.machine.sessions[1].incarnation == one.log.incarnation != old
    await world.check()


async def test_when_an_entry_of_ours_was_sent_is_known_while_it_is_applied(world: World) -> None:
    """For the log of slow requests and for traces, which divide a request's time at this moment."""
    proxy = await world.proxy()
    submitted = time.perf_counter()
    await answered([proxy.create(1, "/sent")])
    applier = proxy.log.applier
    assert submitted <= applier.sent_at <= applier.worker.began


async def test_a_proxy_that_came_during_a_break_lives_for_the_load_that_follows(world: World) -> None:
    """Else the sessions of that proxy count as those of a dead one while the former state is freed."""
    one = await world.proxy()
    world.client(one).disconnect()
    two = await world.proxy()
    one.log.follower.distrust()
    await asyncio.sleep(0.01)  # a catch-up that has begun fails meanwhile: only the load shows it the proxy
    world.client(one).reconnect()
    await until(lambda: one.log.stats.reloads == 1)
    assert two.log.incarnation in one.living


async def test_a_proxy_that_loads_another_state_than_the_log_says_tells_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As where etcd's keys were copied one by one, which loses the order of entries."""
    tree = await Tree().make("a")
    await tree.fill("a", "x", 40)
    await tree.send("a", [], checkpoint=tree.ran().last_checkpoint[0], digest=1)
    proxy = Proxy(tree.etcd, tree.keys.prefix.decode())
    await proxy.log.load()
    await proxy.stop()
    assert proxy.log.stats.disagreements == 1
    assert "1 entries have another digest than this replay of the log" in caplog.text
