"""Work that pauses does what it does at a stretch; slow reads are refused before they change anything."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from codec.constants import CreateMode, ErrorCode, KeeperOpCode, OpCode
from codec.jute import INT, LONG, Acl, pack_string, pack_strings
from codec.packets import MULTI_HEADER
from lab.oracle.requests import RECORDS, Create, Multi, RemoveRecursive, SetAcl, SetData, SetWatches2, body_of
from proxy.state.machine import Machine
from proxy.state.node import FullNode, Node, full_node, pack_children, pack_names
from proxy.state.ops import EXTENDED
from proxy.state.outcome import Refusal
from proxy.state.pause import BYTES_PER_STEP, NO_PAUSE, AtOnce, Lengths, Pause, TooLong
from proxy.state.tree import free
from schema.entry import Request
from tests.proxy.state.ops.room import Client
from tests.proxy.state.world import (
    Ask,
    CarryOver,
    Expire,
    Open,
    Said,
    World,
    all_pages,
    assert_sound,
    request_of,
)
from tests.table import one_by_one


class Counting(Pause):
    """Counts how often it is called; by default at every step."""

    def __init__(self, every: int = 1) -> None:
        super().__init__(Lengths(every=every))
        self.calls = 0

    @override
    def __call__(self) -> None:
        super().__call__()
        self.calls += 1


@contextmanager
def pausing(machine: Machine, every: int) -> Iterator[Counting]:
    """Pause in the machine's requests while this lasts."""
    machine.transaction.pause = pause = Counting(every)
    try:
        yield pause
    finally:
        machine.transaction.pause = NO_PAUSE


@given(st.lists(st.integers()), st.integers(1, 4), st.integers(1, 3))
def test_all_items_come_in_their_order(items: list[int], every: int, per_step: int) -> None:
    pause = Counting(every)
    assert list(pause.each(items)) == items
    assert pause.calls >= len(items) // every - 1
    assert [item for batch in pause.batches(items, per_step) for item in batch] == items
    assert pause.sorted(items, lambda item: -item) == sorted(items, reverse=True)
    pause.clear(items)
    assert items == []


@given(st.lists(st.text(max_size=3)), st.integers(0, 3), st.integers(1, 9))
def test_texts_are_sorted_and_come_in_their_order(texts: list[str], longer: int, every: int) -> None:
    texts = ["n" * longer * BYTES_PER_STEP + text for text in texts]
    pause = Counting(every)
    assert pause.sorted_texts(texts) == sorted(texts)
    assert pause.calls >= (len(texts) // every - 1 if longer > 1 and len(texts) > every else 0)
    assert [text for some in pause.texts(texts, 2) for text in some] == texts


def test_long_paths_that_end_with_their_session_are_taken_with_pauses() -> None:
    worlds = []
    for _ in range(2):
        worlds.append(World())
        for number in range(60):
            path = f"/{number:02}{'n' * 100_000}"
            worlds[-1].do(Create(path, flags=CreateMode.EPHEMERAL))
    first, second = worlds
    assert _compare(first, second, Expire(1), every=100) >= 6_000_000 // (100 * BYTES_PER_STEP)


def test_very_many_sessions_are_carried_over_with_pauses() -> None:
    worlds = World(), World()
    for world in worlds:
        for session in range(2000, 2, -1):
            world.enter(request_of(Open(session)))
    assert _compare(*worlds, CarryOver("home"), every=100) >= 2000 // 100 + 2000 // 400


def test_short_loops_together_pause_as_a_long_one() -> None:
    pause = Counting(100)
    for _ in range(100):
        assert list(pause.each([1, 2, 3])) == [1, 2, 3]
    assert 3 <= pause.calls <= 4


def test_very_many_are_sorted_with_many_pauses() -> None:
    items = [(number * 7919) % 100_003 for number in range(100_003)]
    pause = Counting(512)
    assert pause.sorted(items, lambda item: item) == list(range(100_003))
    assert pause.calls > 100


def _compare(first: World, second: World, said: Said | Request, every: int = 512) -> int:
    """Apply a request at a stretch and with pauses; how many."""
    request = said if isinstance(said, Request) else request_of(said)
    expected = first.enter(request)
    machine = second.machine
    machine.begin("home", machine.applied["home"] + 1, 1000, second.rules)
    with pausing(machine, every) as pause:
        outcome = machine.execute(request, wants_reply=True)
    second.events += machine.transaction.events
    assert machine.session_changes == first.machine.session_changes
    machine.end()
    assert [outcome] == expected
    assert second.events == first.events
    assert_sound(machine)
    assert all_pages(machine) == all_pages(first.machine)
    return pause.calls


def _creates(count: int, flags: int = CreateMode.PERSISTENT) -> list[Create]:
    return [Create(f"/node-{number:06d}", b"x", flags=flags) for number in range(count)]


@pytest.mark.parametrize("cut", [1, 13, 20_000])
def test_a_large_multi_that_is_cut_short_is_refused_with_pauses(cut: int) -> None:
    request = request_of(Ask(1, Multi(tuple(_creates(2000)))))
    first = World()
    assert _compare(first, World(), request._replace(body=request.body[:-cut]), every=1) >= 1
    assert first.outcomes == [(ErrorCode.MARSHALLING_ERROR, b"")]


@pytest.mark.long
def test_a_long_acl_is_decoded_and_compiled_with_pauses() -> None:
    acl = tuple(Acl(31, "ip", f"10.{place >> 8}.{place & 255}.0/24") for place in range(5000))
    first, second = World(), World()
    assert _compare(first, second, Ask(1, Create("/long", acls=acl))) >= 2 * 5000 // 512
    part = Create("/part", acls=(Acl(1, "world", "anyone"), *acl))
    assert _compare(first, second, Ask(1, Multi((part,)))) >= 2 * 5000 // 512
    many = Multi(tuple(Create(f"/n{place}", acls=(*acl[:100], acl[100 + place])) for place in range(50)))
    assert _compare(first, second, Ask(1, many)) >= 2 * 5000 // 512


def test_the_acl_of_a_large_node_is_set_with_a_pause_and_without_copies_of_its_data() -> None:
    first, second = World(), World()
    for world in (first, second):
        world.do(Create("/large", bytes(1 << 20)))
    of = SetAcl("/large", (Acl(31, "ip", "::1"), Acl(31, "world", "anyone")))
    assert _compare(first, second, Ask(1, of), every=64) >= 1
    data = second.nodes["/large"].data
    _compare(first, second, Ask(1, of))
    assert second.nodes["/large"].data is data


@pytest.mark.long
def test_the_nodes_below_one_are_sorted_with_pauses() -> None:
    first, second = World(), World()
    for world in (first, second):
        world.do(Create("/a"), *(Create(f"/a/{number}") for number in range(3000)), Create("/a/0/b"))
    assert _compare(first, second, Ask(1, RemoveRecursive("/a", 3001))) >= 3000 // 512
    assert first.outcomes[-1].err == ErrorCode.NOT_EMPTY


# -- reads ---------------------------------------------------------------------------------------------------


_PATHS = ["/", "", "/a", "/a/b", "/a/b/c", "/e", "/none"]


def _multi(*parts: tuple[int, bytes]) -> bytes:
    head = b"".join(MULTI_HEADER.pack(opcode, False, -1) + body for opcode, body in parts)
    return head + MULTI_HEADER.pack(-1, True, -1)


def _watch(path: str, watch: bool) -> bytes:
    return pack_string(path) + bytes([watch])


_path = st.sampled_from(_PATHS)
_paths = st.one_of(st.lists(_path, max_size=3), st.none())
_fields: dict[str, st.SearchStrategy[Any]] = {
    "path": _path,
    "prefix": st.sampled_from(["", "/", "/e", "/a"]),
    "watch": st.booleans(),
    "only": st.integers(0, 3),
    "with_stats": st.booleans(),
    "with_data": st.booleans(),
    "limit": st.integers(0, 9),
    "since": st.integers(0, 12),
    **dict.fromkeys(SetWatches2._fields[1:], _paths),
}
_multi_reads = st.lists(
    st.tuples(
        st.sampled_from([OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.EXISTS]),
        st.builds(_watch, _path, st.booleans()),
    ),
    max_size=4,
).map(lambda parts: _multi(*parts))


def _bodies(opcode: int) -> st.SearchStrategy[bytes]:
    if opcode == OpCode.MULTI_READ:
        return _multi_reads
    fields = {name: _fields[name] for name in RECORDS[opcode]}
    return st.fixed_dictionaries(fields).map(lambda values: body_of(opcode, **values))


def _read_tree() -> World:
    world = World()
    entries = tuple(Acl(31, "ip", f"10.0.0.{number}") for number in range(12))
    for path in ("/a", "/a/b", "/a/b/c", "/a/d"):
        world.do(Create(path, b"data", acls=(Acl(31, "world", "anyone"), *entries)))
    for path in ("/e", "/a/e", "/a/b/e"):
        world.do(Create(path, flags=CreateMode.EPHEMERAL))
    return world


def _watched(world: World) -> object:
    watches = world.watches
    return [
        {path: len(watchers) for path, watchers in table.by_path.items()}
        for table in (watches.data, watches.children, watches.persistent, watches.recursive)
    ]


def _answer(world: World, reader: Client, pause: Pause, opcode: int, body: bytes) -> Any:
    """The reply, or what is raised in its place."""
    reading = world.reading._replace(pause=pause)
    try:
        return EXTENDED.reads[opcode].answer(reading, reader, b"head" + body, 4)
    except Exception as error:  # noqa: BLE001 - whatever it is, it has to be the same
        return type(error), getattr(error, "code", None), getattr(error, "body", None)


@pytest.mark.parametrize("opcode", [opcode for opcode, read in EXTENDED.reads.items() if read.steps])
@given(st.booleans(), st.data())
def test_a_read_that_pauses_answers_as_one_at_a_stretch(
    opcode: int, keeper: bool, data: st.DataObject
) -> None:
    body = data.draw(_bodies(opcode))
    first, second = _read_tree(), _read_tree()
    plain, slow, refused = (Client(knows_keeper=keeper) for _ in range(3))
    expected = _answer(first, plain, NO_PAUSE, opcode, body)
    short = AtOnce(Lengths(every=1, at_once=data.draw(st.integers(-1, 9))))
    answer = _answer(second, refused, short, opcode, body)
    if isinstance(answer, tuple) and answer[0] is TooLong:
        assert not second.watches
        assert refused.told == []
    else:
        assert answer == expected
        second = _read_tree()
    assert _answer(second, slow, Counting(), opcode, body) == expected
    assert slow.told == plain.told
    assert _watched(second) == _watched(first)


@one_by_one("keeper", [False, True])
@one_by_one(
    ("opcode", "head", "part"),
    [
        (OpCode.SET_WATCHES, LONG.pack(0), pack_strings(["/a"])),
        (OpCode.SET_WATCHES2, LONG.pack(0), pack_strings(["/a"])),
        (OpCode.MULTI_READ, b"", MULTI_HEADER.pack(OpCode.GET_DATA, False, -1) + _watch("/a", False)),
    ],
)
def test_a_request_is_long_by_its_bytes_before_it_is_read(
    opcode: OpCode, head: bytes, part: bytes, keeper: bool
) -> None:
    client = Client(knows_keeper=keeper)
    for count, is_long in ((10_000, True), (40, False)):
        answer = _answer(_read_tree(), client, AtOnce(), opcode, head + part * count)
        assert (isinstance(answer, tuple) and answer[0] is TooLong) is is_long


_WHOLE = (KeeperOpCode.LIST_WITH_STAT_AND_DATA, pack_string("/a") + bytes([True, 0, True, True]))


_LARGE = _multi(*[(OpCode.GET_DATA, _watch("/a/d", True))] * 8)


@pytest.mark.parametrize(
    ("opcode", "body", "keeper"),
    [
        (OpCode.MULTI_READ, _LARGE, False),
        (OpCode.MULTI_READ, _LARGE, True),
        (OpCode.MULTI_READ, _multi(_WHOLE), True),
        (*_WHOLE, True),
    ],
)
def test_a_large_reply_is_made_with_pauses(opcode: int, body: bytes, keeper: bool) -> None:
    world = _read_tree()
    for path in ("/a/b", "/a/d", "/a/e"):
        world.do(SetData(path, bytes(2_000_000)))
    client = Client(knows_keeper=keeper)
    answer = _answer(world, client, AtOnce(), opcode, body)
    assert isinstance(answer, tuple)
    assert answer[0] is TooLong
    assert not world.watches
    pause = Counting(512)
    answer = _answer(world, client, pause, opcode, body)
    assert isinstance(answer, bytes)
    assert pause.calls >= len(answer) // (2 * 512 * BYTES_PER_STEP)


@pytest.mark.parametrize("elsewhere", [300, 3000])
def test_nodes_that_are_only_looked_at_count_before_they_are(elsewhere: int) -> None:
    """Where a walk is short, and where a scan of the tree finds nothing for long."""
    world = _read_tree()
    world.do(*(Create(f"/a/b/{number}") for number in range(300)))
    world.do(*(Create(f"/none-{number}") for number in range(elsewhere)))
    short = AtOnce(Lengths(every=64, at_once=100))
    answer = _answer(world, Client(), short, OpCode.GET_ALL_CHILDREN_NUMBER, pack_string("/a/b"))
    assert isinstance(answer, tuple)
    assert answer[0] is TooLong


def test_many_lists_of_zookeepers_multi_read_are_long_together() -> None:
    world = _read_tree()
    children = [Create(f"/a/d/{number}") for number in range(400)]
    world.do(*children)
    part = OpCode.GET_CHILDREN, _watch("/a/d", False)
    answer = _answer(world, Client(), AtOnce(), OpCode.MULTI_READ, _multi(*[part] * 60))
    assert isinstance(answer, tuple)
    assert answer[0] is TooLong
    assert isinstance(_answer(world, Client(), AtOnce(), OpCode.MULTI_READ, _multi(part)), bytes)


_SHORT_AND_LONG = st.text(max_size=3) | st.text("ab", min_size=126, max_size=129)


@given(st.lists(_SHORT_AND_LONG, max_size=9))
def test_names_are_packed_with_pauses(names: list[str]) -> None:
    assert pack_names(names, Counting()) == pack_strings(names)


def test_names_below_a_long_path_cost_what_they_are_long() -> None:
    parent = "/" + "p" * 20_000 + "/"
    children = [f"{parent}{number:04}" for number in range(1024)]
    tracemalloc.start()
    try:
        packed = pack_children(children, Counting(512))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert packed == pack_strings([child[len(parent) :] for child in children])
    assert most < 10 * len(parent)  # of 20 MB of paths


_LONG_NAMES = [
    (OpCode.GET_CHILDREN, _watch("/a/b", True)),
    (OpCode.GET_CHILDREN2, _watch("/a/b", True)),
    (OpCode.GET_EPHEMERALS, pack_string("/")),
    (OpCode.MULTI_READ, _multi((OpCode.GET_CHILDREN, _watch("/a/b", True)))),
    *((KeeperOpCode.FILTERED_LIST, pack_string("/a/b") + bytes((True, kind))) for kind in (0, 2)),
    (KeeperOpCode.LIST_WITH_STAT_AND_DATA, pack_string("/a/b") + bytes([True, 0, True, True])),
    (KeeperOpCode.LIST_RECURSIVE, pack_string("/a/b") + INT.pack(1000)),
]


def _with_long_names() -> World:
    """60 children with names of 20,000 characters: few, and 1.2 MB."""
    world = _read_tree()
    for number in range(60):
        world.do(Create(f"/a/b/{number:02}{'n' * 20_000}", flags=CreateMode.EPHEMERAL))
    return world


@one_by_one("keeper", [False, True])
@one_by_one(("opcode", "body"), _LONG_NAMES)
def test_long_names_count_by_their_bytes(opcode: int, body: bytes, keeper: bool) -> None:
    world, client = _with_long_names(), Client(knows_keeper=keeper)
    answer = _answer(world, client, AtOnce(Lengths(at_once=250)), opcode, body)
    assert isinstance(answer, tuple)
    assert answer[0] is TooLong
    assert not world.watches
    count = EXTENDED.reads[opcode].steps
    assert count is not None
    assert count(world.reading, client, b"head" + body, 4) > 250
    pause = Counting(100)
    assert isinstance(_answer(world, client, pause, opcode, body), bytes)
    assert pause.calls >= 1_200_000 // (100 * BYTES_PER_STEP)


@pytest.mark.parametrize(("opcode", "body"), _LONG_NAMES)
def test_names_that_are_too_many_for_one_reply_are_refused(
    opcode: int, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.state.bounded.MOST", 1 << 20)
    world, client = _with_long_names(), Client(knows_keeper=True)
    answer = _answer(world, client, Counting(100), opcode, body)
    if opcode == OpCode.MULTI_READ:  # the answer of a part
        assert isinstance(answer, bytes)
        assert len(answer) < 100
    else:
        assert isinstance(answer, tuple)
        assert answer[1] is ErrorCode.BAD_ARGUMENTS
    assert not world.watches


@pytest.mark.parametrize("character", ["n", "\u00e9", "\u20ac", "\U0001f600"])
def test_too_many_bytes_of_names_are_refused_before_a_watch_is_set(
    character: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{number:03}{character * (number % 9)}" for number in range(200)]
    packed, watches = pack_strings(names), Counting()
    paths = [f"/{character}/{name}" for name in names]
    monkeypatch.setattr("proxy.state.bounded.MOST", len(packed) - 1)
    with pytest.raises(Refusal):
        pack_children(paths, Counting(), watches)
    assert watches.calls == 0
    monkeypatch.setattr("proxy.state.bounded.MOST", len(packed))
    assert pack_children(paths, Counting(), watches) == packed
    assert watches.calls == 1


def test_a_tree_is_freed_with_pauses() -> None:
    pause = Counting(4)
    nodes: dict[str, Node] = {str(number): FullNode(b"", (), *[0] * 9) for number in range(20)}
    full_node(nodes, "3").children = dict.fromkeys(map(str, range(20)))
    free(nodes, pause)
    assert nodes == {}
    assert pause.calls >= 8
