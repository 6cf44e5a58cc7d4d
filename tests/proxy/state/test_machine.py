"""The machine: what spends a zxid, sessions, levels, epochs, checkpoints, and errors of our own."""

import hashlib
import logging
from collections.abc import Callable
from typing import Any

import pytest

from codec.constants import ErrorCode, EventType, OpCode
from codec.errors import MalformedPacket
from codec.jute import INT, pack_string
from lab.oracle.requests import Create, Delete, Multi, SetData
from proxy.state.capture import new_machine
from proxy.state.level import UnknownLevel
from proxy.state.machine import CHECKPOINT_EVERY, Machine
from proxy.state.ops import EXTENDED
from proxy.state.outcome import CarriedOver, Disagreement, SessionChange
from proxy.state.sessions import hash_of
from proxy.state.transaction import Transaction
from schema.entry import Entry, Kind, Request, Rules, encode_epoch, encode_forget, encode_level, encode_terms
from schema.zxids import epoch_begun_at, zxid_to_exceed
from tests.proxy.state.world import (
    HOME,
    PASSWORD,
    RULES,
    Ask,
    CarryOver,
    Expire,
    Open,
    World,
    all_pages,
    assert_sound,
    client,
    encode,
    reloaded,
    request_of,
    worlds_that_differ,
)


def _spent(world: World, request: Request, holder: str = HOME) -> tuple[int, int]:
    """The error and how many zxids it took."""
    before = world.machine.zxid
    (outcome,) = world.enter(request, holder=holder)
    return outcome.err, world.machine.zxid - before


# -- zxids ---------------------------------------------------------------------------------------------------


def test_keepers_requests_are_for_those_that_know_them() -> None:
    world = World()
    world.rules = int(Rules.EXTENDED_TYPES)
    body = pack_string("/x") + INT.pack(-1)
    assert _spent(world, client(1, 505, body)) == (ErrorCode.UNIMPLEMENTED, 0)
    world.rules = RULES
    assert _spent(world, client(1, 505, body)) == (0, 1)


# -- sessions ------------------------------------------------------------------------------------------------


def _attach(session: int, password: bytes = PASSWORD, timeout_ms: int = 9000) -> Request:
    return Request(Kind.ATTACH, session, 0, (), encode_terms(timeout_ms, hash_of(password)))


def test_a_session_begins() -> None:
    world = World(())
    assert _spent(world, request_of(Open(5), timeout_ms=1234), "p1") == (0, 1)
    session = world.machine.sessions[5]
    assert (session.id, session.timeout_ms, session.incarnation) == (5, 1234, "p1")
    assert world.machine.session_changes == [SessionChange(5, "", "p1")]
    assert _spent(world, request_of(Open(5)), "p2") == (ErrorCode.SYSTEM_ERROR, 0)
    assert (world.machine.sessions, session.incarnation) == ({5: session}, "p1")
    assert world.machine.session_changes == []


def test_a_session_moves_and_its_former_holder_is_heard_no_more() -> None:
    world = World((5,))
    assert _spent(world, _attach(5), "p2") == (0, 0)
    assert world.machine.session_changes == [SessionChange(5, HOME, "p2")]
    assert world.machine.sessions[5].timeout_ms == 9000
    assert _spent(world, client(5, *encode(Create("/x")))) == (ErrorCode.SESSION_MOVED, 1)
    assert _spent(world, client(5, *encode(Create("/x"))), "p2") == (0, 1)
    assert _spent(world, _attach(5, timeout_ms=10), "p2") == (0, 0)  # a client back at the same proxy
    assert world.machine.session_changes == [SessionChange(5, "p2", "p2")]
    assert world.machine.sessions[5].timeout_ms == 10
    assert_sound(world.machine)


@pytest.mark.parametrize("wrong", [_attach(5, b"another password"), _attach(6)])
def test_who_cannot_show_the_password_is_told_that_it_expired(wrong: Request) -> None:
    assert hash_of(PASSWORD) == hashlib.sha256(PASSWORD).digest()[:16]
    world = World((5,))
    assert _spent(world, wrong, "p2") == (ErrorCode.SESSION_EXPIRED, 0)
    assert world.machine.sessions[5].incarnation == HOME
    assert world.machine.session_changes == []


@pytest.mark.parametrize("ends_itself", [True, False])
def test_a_session_ends_with_its_ephemerals_in_one_zxid(ends_itself: bool) -> None:
    world = World((1, 2))
    world.do(Create("/d"), Create("/e", flags=1), Create("/d/e", flags=1))
    world.do(Create("/f", flags=1), session=2)
    world.events.clear()
    request = client(1, OpCode.CLOSE_SESSION, b"") if ends_itself else request_of(Expire(1, HOME))
    assert _spent(world, request) == (0, 1)
    assert world.fired == [(EventType.NODE_DELETED, "/d/e"), (EventType.NODE_DELETED, "/e")]
    reason = "" if ends_itself else "silent"
    assert world.machine.session_changes == [SessionChange(1, HOME, None, reason)]
    assert world.nodes["/d"].pzxid == world.nodes["/"].pzxid == world.machine.zxid
    assert set(world.machine.sessions) == {2}
    assert world.machine.tree.ephemerals == {2: {"/f"}}
    assert_sound(world.machine)


def test_a_carry_over_takes_those_that_are_still_there_and_no_others() -> None:
    world = World((3, 1, 2))
    world.enter(_attach(2), holder="elsewhere")
    assert _spent(world, request_of(CarryOver(HOME)), "new") == (0, 0)
    assert world.machine.session_changes == [CarriedOver(HOME, "new", [3, 1])]
    holders = {key: session.incarnation for key, session in world.machine.sessions.items()}
    assert holders == {1: "new", 2: "elsewhere", 3: "new"}
    assert world.machine.sessions[1].timeout_ms == 4000
    assert _spent(world, request_of(CarryOver(HOME)), "new") == (0, 0)
    assert world.machine.session_changes == [CarriedOver(HOME, "new", [])]
    assert_sound(world.machine)


# -- entries -------------------------------------------------------------------------------------------------


def test_numbers_have_no_gaps() -> None:
    machine = new_machine(1)
    machine.apply("a", 1, Entry(0, 0, 0, 0, []))
    machine.apply("b", 1, Entry(0, 0, 0, 0, []))
    for incarnation, number in (("a", 1), ("a", 3), ("c", 2), ("c", 0)):
        with pytest.raises(AssertionError, match=f"entry {number} of {incarnation}"):
            machine.begin(incarnation, number, 0, 0)
    assert machine.applied == {"a": 1, "b": 1}
    assert machine.entries == 2


def test_an_incarnation_that_is_over_is_forgotten() -> None:
    world = World()
    world.enter(holder="old")
    before = world.machine.zxid
    world.enter(Request(Kind.FORGET, 0, 0, (), encode_forget("old")))
    world.enter(Request(Kind.FORGET, 0, 0, (), encode_forget("never was")))
    assert set(world.machine.applied) == {HOME}
    assert world.machine.zxid == before


def test_after_a_restore_zxids_go_on_in_a_new_epoch() -> None:
    world = World()
    machine = world.machine
    before = machine.zxid
    for cluster_id, at_least, zxid in (
        (machine.cluster_id, 0, before),
        (machine.cluster_id, before, before),
        (machine.cluster_id, before + 1, 1 << 32),
        (99, 5, 2 << 32),
        (99, (7 << 32) + 5, 8 << 32),
    ):
        world.enter(Request(Kind.EPOCH, 0, 0, (), encode_epoch(cluster_id, at_least)))
        assert (machine.zxid, machine.cluster_id) == (zxid, cluster_id)
    assert machine.undone[0] == range(before + 1, 1 << 32)
    assert machine.undone[1:] == (range((1 << 32) + 1, 2 << 32), range((2 << 32) + 1, 8 << 32))
    world.do(Create("/x"))
    assert world.nodes["/x"].czxid == (8 << 32) + 1
    for at_least in range(9, 99, 2):
        world.enter(Request(Kind.EPOCH, 0, 0, (), encode_epoch(99, at_least << 32)))
    assert len(machine.undone) == 16
    assert machine.undone[-1] == range((96 << 32) + 1, 98 << 32), "the newest stay: sessions end within days"


@pytest.mark.parametrize("seconds", [0.0, 1.8e9])
def test_a_request_for_an_epoch_begins_one_also_above_the_very_zxid_that_was_reached(seconds: float) -> None:
    world = World()
    machine = world.machine
    before = machine.zxid
    body = encode_epoch(machine.cluster_id, zxid_to_exceed(seconds, before))
    for _ in range(2):  # the second one comes too late
        world.enter(Request(Kind.EPOCH, 0, 0, (), body))
        assert machine.zxid == epoch_begun_at(seconds, before)


def test_a_level_is_raised_if_it_is_known() -> None:
    machine = Machine(1, at_level=1, known_levels=(1, 2))
    levels = {level: Request(Kind.LEVEL, 0, 0, (), encode_level(level)) for level in (1, 2, 3)}
    for number, level in enumerate([1, 2, 1], 1):
        machine.apply("a", number, Entry(0, 0, 0, 0, [levels[level]]))
    machine.begin("a", 4, 0, 0)
    with pytest.raises(UnknownLevel, match=r"\[1, 2\]") as unknown:
        machine.execute(levels[3])
    assert (unknown.value.level, machine.level, machine.zxid) == (3, 2, 0)


# -- checkpoints ---------------------------------------------------------------------------------------------


def _after(entries: int, path: str = "/x") -> Machine:
    world = World((1,))
    for number in range(entries - 1):
        world.do(Create(path) if number == 0 else SetData(path))
    return world.machine


def test_servers_that_disagree_hear_of_it() -> None:
    machine = _after(CHECKPOINT_EVERY)
    entries, digest = machine.last_checkpoint
    assert (entries, digest) == (CHECKPOINT_EVERY, machine.compute_digest())
    assert machine.begin("other", 1, 0, 0, entries, digest) is None
    assert machine.begin("other", 2, 0, 0) is None
    assert machine.begin("other", 3, 0, 0, entries + 1, digest) is None  # not yet known here
    assert machine.begin("other", 4, 0, 0, entries, digest ^ 1) == Disagreement(
        "other", entries, digest ^ 1, digest
    )
    assert _after(CHECKPOINT_EVERY, "/y").last_checkpoint[1] != digest
    assert _after(CHECKPOINT_EVERY - 1).last_checkpoint == (0, 0)


def test_checkpoints_of_long_ago_are_not_kept() -> None:
    machine = new_machine(1)
    for number in range(1, 200 * CHECKPOINT_EVERY + 1):
        machine.begin("a", number, 0, 0)
        machine.end()
    kept = [entries for entries, _ in machine.checkpoints]
    assert kept == list(range(137 * CHECKPOINT_EVERY, 201 * CHECKPOINT_EVERY, CHECKPOINT_EVERY))
    assert reloaded(machine).checkpoints == machine.checkpoints


@pytest.mark.long
def test_a_long_entry_is_hashed_as_it_goes() -> None:
    """Else the end of a batch of entries would hold everything up."""
    world = World((1,))
    for start in range(10):
        world.do(*(Create(f"/{start}-{number}") for number in range(500)))
        assert len(world.machine.digest.touched) <= 1025
    assert_sound(world.machine)


def test_the_end_of_a_session_with_many_ephemerals_is_hashed_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World((1,))
    for number in range(5):
        world.do(Create(f"/{number}"), Create(f"/{number}/e", flags=1))
    world.machine.reset_digest()
    monkeypatch.setattr("proxy.state.machine._MOST_TOUCHED", 4)
    world.enter(request_of(Expire(1, HOME)))
    assert not world.machine.digest.touched
    assert_sound(world.machine)


# -- errors of ours ------------------------------------------------------------------------------------------


def _breaks(monkeypatch: pytest.MonkeyPatch, apply: Callable[[Transaction, Any], None]) -> None:
    """This is what deletes do."""
    delete = EXTENDED.writes[OpCode.DELETE]
    monkeypatch.setitem(EXTENDED.writes, OpCode.DELETE, delete._replace(apply=apply))


def _stumble(tx: Transaction, fields: Any) -> None:
    """An operation that changes something and then meets an error of ours."""
    tx.set_data("/a", tx.nodes["/a"], b"half")
    tx.create("/half", "/", tx.nodes["/"], b"", tx.nodes["/"].rights, 1)
    raise ZeroDivisionError(fields)


@pytest.mark.parametrize("own", [True, False])
def test_an_error_in_a_request_is_the_same_everywhere(
    own: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _breaks(monkeypatch, _stumble)
    world = World()
    world.do(Create("/a", b"whole"))
    world.events.clear()
    before = all_pages(world.machine)
    zxid = world.machine.zxid
    asked = request_of(Ask(1, Delete("/a"))), request_of(Ask(1, Create("/b")))
    with caplog.at_level(logging.ERROR):
        outcomes = world.enter(*asked, own=own)
    assert [outcome.err for outcome in outcomes] == [ErrorCode.SYSTEM_ERROR, 0]
    (record,) = caplog.records
    assert "entry 3 of home" in record.getMessage()
    assert "opcode 2" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError
    assert world.machine.zxid == zxid + 2
    assert world.fired == [(EventType.NODE_CREATED, "/b")]
    assert_sound(world.machine)
    world.do(Multi((Create("/c"),)))
    assert set(world.nodes) >= {"/a", "/b", "/c"}
    assert "/half" not in world.nodes
    assert world.nodes["/a"].data == b"whole"
    assert all_pages(reloaded(world.machine)) == all_pages(world.machine) != before


def test_an_error_in_what_a_proxy_says(caplog: pytest.LogCaptureFixture) -> None:
    world = World((1,))
    before, zxid = all_pages(world.machine), world.machine.zxid
    bad = [Request(kind, 1, 0, (), b"\xff") for kind in Kind if kind != Kind.CLIENT]
    with caplog.at_level(logging.ERROR):
        outcomes = world.enter(*bad)
    assert {outcome.err for outcome in outcomes} == {ErrorCode.SYSTEM_ERROR}
    assert len(caplog.records) == len(bad)
    assert world.machine.zxid == zxid
    assert all_pages(world.machine)[:2] == before[:2]


def test_a_request_that_turns_out_to_be_malformed_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    delete = EXTENDED.writes[OpCode.DELETE].apply

    def malformed(tx: Transaction, fields: tuple[str, int]) -> None:
        delete(tx, fields)
        raise MalformedPacket("found out late")

    _breaks(monkeypatch, malformed)
    world = World()
    world.do(Create("/a", b"whole"))
    world.events.clear()
    pages = all_pages(world.machine)
    (outcome,) = world.enter(request_of(Ask(1, Delete("/a"))))
    assert outcome.err == ErrorCode.MARSHALLING_ERROR
    assert all_pages(world.machine)[:2] == pages[:2]
    assert world.fired == []
    world.enter(request_of(Ask(1, Create("/b"))))
    assert world.fired == [(EventType.NODE_CREATED, "/b")]


def test_no_memory_is_no_error_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def starve(*_: object) -> None:
        raise MemoryError

    _breaks(monkeypatch, starve)
    world = World((1,))
    monkeypatch.setattr("proxy.state.transaction.Transaction.open_session", starve)
    for said in (Open(2), Ask(1, Delete("/a"))):
        with pytest.raises(MemoryError):
            world.enter(request_of(said))


# -- taking over a state -------------------------------------------------------------------------------------


def test_becoming_what_was_loaded_aside() -> None:
    here, there = worlds_that_differ()
    machine, loaded = here.machine, reloaded(there.machine)
    tree, sessions = machine.tree, machine.sessions
    machine.replace(loaded)
    assert (machine.tree, machine.sessions) == (tree, sessions)
    assert all_pages(machine) == all_pages(there.machine)
    assert_sound(machine)
    more = [request_of(Ask(1, asked)) for asked in (Create("/on", flags=1), Delete("/new/x"))]
    for world in (here, there):  # and both behave alike afterwards
        world.enter(*more, holder="p2")
        assert [outcome.err for outcome in world.outcomes] == [0, 0]
    assert all_pages(machine) == all_pages(there.machine)
