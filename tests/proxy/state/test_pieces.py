"""Requests in pieces: as those at a stretch, and in between nothing is seen but what is said to change."""

from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.constants import CreateMode, KeeperOpCode, OpCode
from codec.jute import INT, LONG, pack_string, pack_strings
from codec.packets import MULTI_HEADER
from proxy.state import pieces
from proxy.state.ops import EXTENDED, PLAIN
from proxy.state.pieces import AT_ONCE, AT_ONCE_BYTES, Laborious, Unfinished, sorting, whole
from proxy.state.tree import packing
from tests.proxy.state import naive
from tests.proxy.state.short_pieces import executed, short_pieces
from tests.proxy.state.test_machine_histories import _OPENED, entries
from tests.proxy.state.world import (
    RULES,
    Ask,
    Expire,
    Said,
    World,
    all_pages,
    answer_of,
    assert_same_tree,
    assert_sound,
    naive_answer,
    naive_tree,
    request_of,
    sampled,
)


def test_all_of_some_work() -> None:
    def work() -> Any:
        yield
        yield
        return 3

    assert whole(work()) == 3


@given(st.lists(st.text(max_size=3)), st.integers(1, 4))
def test_sorting_in_pieces(items: list[str], size: int) -> None:
    with mock.patch.multiple(pieces, _SORTED=size, PIECE=size):
        assert whole(sorting(items, str)) == sorted(items)


def test_very_many_are_sorted_in_many_pieces() -> None:
    items = [(number * 7919) % 100_003 for number in range(100_003)]
    work = sorting(items, lambda item: item)
    assert len(list(work)) > 100
    assert whole(sorting(items, lambda item: -item)) == list(range(100_002, -1, -1))


@given(entries)
def test_the_machine_in_pieces_does_what_a_plain_zookeeper_does(
    history: list[tuple[str, list[Said]]],
) -> None:
    world = World(sessions=())
    model = naive_tree()
    for clock, (holder, asked) in enumerate([_OPENED, *history]):
        world.events.clear()
        model.events.clear()
        world.machine.begin(holder, world.machine.applied.get(holder, 0) + 1, clock, RULES)
        with short_pieces():
            for single in asked:
                expected = naive_answer(model, holder, single, clock)
                outcome, _ = executed(world.machine, request_of(single))
                world.events += world.machine.events
                assert answer_of(single, outcome) == expected, single
                assert world.machine.zxid == model.zxid, single
            world.machine.end()
        assert sampled(world.events) == model.events
        assert_same_tree(world.machine, model)


def _pair() -> tuple[World, World]:
    """Two worlds that are the same."""
    return World(), World()


def _compare(first: World, second: World, said: Said) -> int:
    """Apply a request at a stretch and in pieces; in how many."""
    request = request_of(said)
    expected = first.enter(request)
    machine = second.machine
    machine.begin("home", machine.applied["home"] + 1, 1000, second.rules)
    outcome, pieces = executed(machine, request)
    second.events += machine.events
    assert machine.session_changes == first.machine.session_changes
    machine.end()
    assert [outcome] == expected
    assert second.events == first.events
    assert_sound(machine)
    assert all_pages(machine) == all_pages(first.machine)
    return pieces


def _creates(count: int, flags: int = CreateMode.PERSISTENT) -> list[naive.Create]:
    return [naive.Create(f"/node-{number:06d}", b"x", flags=flags) for number in range(count)]


@pytest.mark.parametrize(
    "last", [naive.Delete("/node-000000"), naive.Delete("/never")], ids=["done", "failing"]
)
def test_a_large_multi_is_done_in_pieces(last: naive.Delete) -> None:
    first, second = _pair()
    many = naive.Multi((*_creates(2000), last))
    assert len(request_of(Ask(1, many)).body) > AT_ONCE_BYTES
    assert _compare(first, second, Ask(1, many)) >= 8
    small = naive.Multi(tuple(_creates(3)))
    assert _compare(first, second, Ask(1, small)) == 0


@pytest.mark.parametrize("cut", [1, 13, 20_000])
def test_a_large_multi_that_is_cut_short_is_refused_as_a_small_one(cut: int) -> None:
    first, second = _pair()
    request = request_of(Ask(1, naive.Multi(tuple(_creates(2000)))))
    request = request._replace(body=request.body[:-cut])
    small = request_of(Ask(1, naive.Multi(tuple(_creates(2)))))
    (expected,) = first.enter(small._replace(body=small.body[:-1]))
    machine = second.machine
    machine.begin("home", machine.applied["home"] + 1, 1000, second.rules)
    outcome, pieces = executed(machine, request)
    machine.end()
    assert (outcome, machine.zxid) == (expected, first.machine.zxid)
    assert pieces >= 1
    assert all_pages(machine) == all_pages(first.machine)


@pytest.mark.parametrize("end", ["by itself", "by its proxy"])
def test_a_session_with_many_ephemerals_ends_in_pieces(end: str) -> None:
    first, second = _pair()
    for world in (first, second):
        world.do(naive.Multi(tuple(_creates(AT_ONCE + 1, CreateMode.EPHEMERAL))), session=2)
    said: Said = Ask(2, naive.CloseSession()) if end == "by itself" else Expire(2)
    assert _compare(first, second, said) >= 2
    assert 2 not in second.machine.sessions
    assert not second.machine.tree.ephemerals


def test_a_quota_over_many_nodes_is_counted_in_pieces() -> None:
    first, second = _pair()
    for world in (first, second):
        world.do(naive.Create("/a", b""))
        world.do(*(naive.Create(f"/a/{number}", b"123") for number in range(3000)))
        world.do(naive.Create("/zookeeper/quota/a", b""))
    quota = naive.Multi(
        (
            naive.Create("/zookeeper/quota/a/zookeeper_limits", b"count=5,bytes=6"),
            naive.Create("/zookeeper/quota/a/zookeeper_stats", b""),
        )
    )
    assert _compare(first, second, Ask(1, quota)) >= 2
    stats = second.nodes["/zookeeper/quota/a/zookeeper_stats"]
    assert stats.data == b"count=3001,bytes=9000"
    assert _compare(first, second, Ask(1, naive.Create("/a/more", b"1"))) == 0
    assert stats.data == b"count=3002,bytes=9001"


def test_the_caller_who_takes_no_pieces_has_it_all_done() -> None:
    world = World()
    (answer,) = world.do(naive.Multi(tuple(_creates(2000))))
    assert answer.failed_at is None
    assert world.machine.changing == ()


def test_what_was_touched_before_is_not_said_to_change() -> None:
    world = World()
    world.do(naive.Create("/other"))
    machine = world.machine
    machine.in_pieces = True
    machine.begin("home", machine.applied["home"] + 1, 1000, world.rules)
    with pytest.raises(Unfinished) as raised:
        machine.execute(request_of(Ask(1, naive.Multi(tuple(_creates(2000))))))
    for _ in range(6):
        next(raised.value.work)
    assert machine.changing
    assert "/node-000000" in machine.changing
    assert "/other" not in machine.changing


# -- reads ---------------------------------------------------------------------------------------------------


class Reader:
    """Who asks."""

    session_id = 1
    identities = ()

    def __init__(self, *, knows_keeper: bool) -> None:
        self.knows_keeper = knows_keeper
        self.told: list[tuple[int, str]] = []

    def notify(self, kind: int, path: str, _zxid: int, _acl: object) -> None:
        self.told.append((kind, path))

    def local_session_closed(self) -> None:
        raise AssertionError


_PATHS = ["/", "", "/a", "/a/b", "/a/b/c", "/e", "/none"]


def _multi(*parts: tuple[int, bytes]) -> bytes:
    head = b"".join(MULTI_HEADER.pack(opcode, False, -1) + body for opcode, body in parts)
    return head + MULTI_HEADER.pack(-1, True, -1)


def _watch(path: str, watch: bool) -> bytes:
    return pack_string(path) + bytes([watch])


_path = st.sampled_from(_PATHS)
_listing = st.builds(_watch, _path, st.booleans())
_filtered = st.builds(lambda head, only: head + bytes([only]), _listing, st.integers(0, 3))
_full = st.builds(
    lambda head, rest: head + bytes(rest), _filtered, st.lists(st.booleans(), min_size=2, max_size=2)
)
_lists = st.lists(_path, max_size=3).map(pack_strings)
_watches = st.tuples(*[st.one_of(_lists, st.just(INT.pack(-1)))] * 5).map(b"".join)
_zxid = st.integers(0, 12).map(LONG.pack)
_reads: dict[int, st.SearchStrategy[bytes]] = {
    OpCode.GET_CHILDREN: _listing,
    OpCode.GET_CHILDREN2: _listing,
    OpCode.SET_WATCHES: st.builds(bytes.__add__, _zxid, _watches),
    OpCode.SET_WATCHES2: st.builds(bytes.__add__, _zxid, _watches),
    OpCode.GET_EPHEMERALS: st.sampled_from(["", "/", "/e", "/a"]).map(pack_string),
    OpCode.GET_ALL_CHILDREN_NUMBER: _path.map(pack_string),
    OpCode.MULTI_READ: st.lists(
        st.tuples(st.sampled_from([OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.EXISTS]), _listing),
        max_size=4,
    ).map(lambda parts: _multi(*parts)),
    KeeperOpCode.FILTERED_LIST: _filtered,
    KeeperOpCode.LIST_WITH_STAT_AND_DATA: _full,
    KeeperOpCode.LIST_RECURSIVE: st.builds(
        lambda path, limit: pack_string(path) + INT.pack(limit), _path, st.integers(0, 9)
    ),
}


def test_every_read_that_can_take_long_is_tried() -> None:
    assert set(_reads) == set(EXTENDED.long_reads)
    assert set(PLAIN.long_reads) <= set(PLAIN.reads)


def _read_tree() -> World:
    world = World()
    for path in ("/a", "/a/b", "/a/b/c", "/a/d"):
        world.do(naive.Create(path, b"data"))
    for path in ("/e", "/a/e", "/a/b/e"):
        world.do(naive.Create(path, flags=CreateMode.EPHEMERAL))
    return world


def _watched(world: World) -> object:
    watches = world.watches
    return [
        {path: len(watchers) for path, watchers in table.by_path.items()}
        for table in (watches.data, watches.children, watches.persistent, watches.recursive)
    ]


@given(st.sampled_from(sorted(_reads)), st.booleans(), st.data())
def test_a_read_in_pieces_answers_as_one_at_a_stretch(opcode: int, keeper: bool, data: st.DataObject) -> None:
    body = data.draw(_reads[opcode])
    first, second = _read_tree(), _read_tree()
    plain, long = Reader(knows_keeper=keeper), Reader(knows_keeper=keeper)
    expected: Any
    found: Any
    try:
        expected = EXTENDED.reads[opcode](first.reading, plain, b"head" + body, 4)
    except Exception as error:  # noqa: BLE001 - both have to raise the same
        expected = type(error), getattr(error, "code", None), getattr(error, "body", None)
    with short_pieces():
        before = _watched(second)
        try:
            EXTENDED.reads[opcode](second.reading, Reader(knows_keeper=keeper), b"head" + body, 4)
        except Laborious:
            assert _watched(second) == before
        except Exception:  # noqa: BLE001 - so does what follows
            pass
        second.watches.__init__()  # type: ignore[misc]
        try:
            found = whole(EXTENDED.long_reads[opcode](second.reading, long, b"head" + body, 4))
        except Exception as error:  # noqa: BLE001 - see above
            found = type(error), getattr(error, "code", None), getattr(error, "body", None)
    assert found == expected
    assert long.told == plain.told
    assert _watched(second) == _watched(first)


@given(st.lists(st.text(max_size=3), max_size=9))
def test_strings_are_packed_in_pieces(strings: list[str]) -> None:
    with short_pieces():
        assert whole(packing(strings)) == pack_strings(strings)
