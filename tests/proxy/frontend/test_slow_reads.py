"""Slow reads of several clients: when each is answered, and how long the log waits.

What one client sees of it is in `order.txt`.
"""

import asyncio
from functools import partial
from itertools import cycle
from typing import cast

import pytest

from codec.client import framed
from codec.constants import ErrorCode, KeeperOpCode, ListFilter, OpCode
from codec.jute import INT, LONG, OPEN_ACL, pack_acls, pack_buffer, pack_string, pack_strings
from codec.packets import MULTI_HEADER
from lab.fakes.clock import FakeClock
from lab.fakes.connection import Client, FakeLoop, connected, established
from proxy.frontend.client_info import ClientInfo
from proxy.frontend.order import SlowRead
from proxy.frontend.turns import StateGate
from proxy.log.slices import StateWorker
from proxy.state import node
from proxy.state.operation import Sees
from proxy.state.pause import Lengths, Pause, TooMuch

CLIENT = ClientInfo("10.0.0.1", 1)
SLOW, URGENT = SlowRead(is_urgent=False), SlowRead(is_urgent=True)
_LIST = framed(1, OpCode.GET_CHILDREN, pack_string("/") + b"\0")


@pytest.fixture
def client() -> Client:
    """A client whose listings take long: they pause at each name."""
    return slowed(1 << 20)


def slowed(longest: int) -> Client:
    """As `client`. The log waits for a read for so many steps at most."""
    client = established(lengths=Lengths(every=1, longest=longest))
    client.host.reading.pause.lengths = Lengths(every=1, at_once=-1)
    return client


def test_a_turn_has_one_slice_however_many_slow_reads_come_at_once() -> None:
    loop, clock = FakeLoop(), FakeClock(step=1.0)  # each look at the clock ends a slice
    gate = StateGate(StateWorker(clock), cast(asyncio.AbstractEventLoop, loop), clock=clock)
    steps: list[str] = []

    def answer(name: str, pause: Pause) -> None:
        for _ in range(2):
            steps.append(name)
            pause()

    for name in ("first", "second"):
        gate.read_slowly(SLOW, CLIENT, partial(answer, name), lambda: True)
    for count in (1, 2):
        loop.turn()
        assert steps == ["first"] * count
    loop.run()
    assert steps == ["first"] * 2, "the log is first"
    clock.now += 60
    loop.wait(60)
    assert steps == ["first"] * 2 + ["second"] * 2


def test_after_a_long_read_all_else_has_as_much_time_before_the_next() -> None:
    loop, clock = FakeLoop(), FakeClock()
    gate = StateGate(StateWorker(clock), cast(asyncio.AbstractEventLoop, loop), clock=clock)
    answered: list[str] = []

    def answer(name: str, seconds: float, _pause: Pause) -> None:
        answered.append(name)
        clock.now += seconds

    for name, seconds in (("short", 0.001), ("long", 0.2), ("other", 0.2)):
        gate.read_slowly(SLOW, CLIENT, partial(answer, name, seconds), lambda: True)
    loop.run()
    assert answered == ["short", "long"]
    gate.read_slowly(URGENT, CLIENT, partial(answer, "held by the log", 0), lambda: True)
    loop.run()
    assert answered == ["short", "long", "held by the log"]
    clock.now += 0.199
    loop.wait(0.199)
    assert answered[3:] == []
    clock.now += 0.001
    loop.wait(0.001)
    assert answered[3:] == ["other"]


def test_an_urgent_read_takes_nothing_of_the_time_that_all_else_has_after_a_long_one() -> None:
    """One client that mixed the two held the log for 97 % of the time."""
    loop, clock = FakeLoop(), FakeClock()
    gate = StateGate(StateWorker(clock), cast(asyncio.AbstractEventLoop, loop), clock=clock)
    answered: list[str] = []

    def ask(name: str, seconds: float, is_urgent: bool = False) -> None:
        def answer(_pause: Pause) -> None:
            answered.append(name)
            clock.now += seconds

        gate.read_slowly(SlowRead(is_urgent), CLIENT, answer, lambda: True)
        loop.run()

    def wait(seconds: float) -> None:
        clock.now += seconds
        loop.wait(seconds)

    ask("long", 0.2)
    wait(0.1)
    ask("urgent", 0.003, is_urgent=True)
    ask("other", 0.2)
    wait(0.099)
    assert answered == ["long", "urgent"]
    wait(0.002)
    assert answered == ["long", "urgent", "other"]
    wait(0.1)
    ask("urgent and long", 0.2, is_urgent=True)
    ask("last", 0)
    wait(0.299)
    assert answered[3:] == ["urgent and long"]
    wait(0.002)
    assert answered[3:] == ["urgent and long", "last"]


@pytest.mark.parametrize("last", [[""], [*"12345678"]], ids=["one address", "one host of IPv6"])
def test_who_always_asks_does_not_keep_others_from_being_answered(last: list[str]) -> None:
    """A client that came back with its watches waited for one read of each of thirty others."""
    own = (f"2001:db8:0:0:0:0:0:{each}" if each else "10.0.0.1" for each in cycle(last))
    loop, clock = FakeLoop(), FakeClock()
    gate = StateGate(StateWorker(clock), cast(asyncio.AbstractEventLoop, loop), clock=clock)
    answered: list[str] = []

    def answer(name: str, _pause: Pause) -> None:
        answered.append(name)
        clock.now += 1

    def ask(name: str, address: str = "") -> None:
        client = ClientInfo(address or next(own), hash(name))
        gate.read_slowly(SLOW, client, partial(answer, name), lambda: True)

    def go_on() -> None:
        loop.run()
        clock.now += 1
        loop.wait(1)

    for name in "abcdef":
        ask(name)
    for _ in range(6):
        go_on()
    assert answered == [*"abcdef"]
    for name in "abcdef":
        ask(name)
    ask("new")
    ask("elsewhere", "10.0.0.2")
    ask("also new")
    for _ in range(9):
        go_on()
    assert answered[6:] == ["elsewhere", "a", "new", "b", "also new", "c", "d", "e", "f"]
    clock.now += 60
    ask("a")
    ask("elsewhere", "10.0.0.2")
    for _ in range(2):
        go_on()
    assert answered[15:] == ["a", "elsewhere"], "it is forgotten after a minute"


def test_urgent_reads_have_a_share_together() -> None:
    """For each of them the log waits: twelve of a second closed all connections."""
    loop, clock = FakeLoop(), FakeClock()
    lengths = Lengths(every=1, at_once=2, longest=80)
    worker = StateWorker(clock)
    gate = StateGate(worker, cast(asyncio.AbstractEventLoop, loop), clock=clock, lengths=lengths)
    ended: list[tuple[int, ErrorCode | None]] = []

    def answer(steps: int, pause: Pause) -> None:
        done = 0
        try:
            while done < steps:
                pause()
                done += 1
        except TooMuch as error:
            ended.append((done, error.code))
        else:
            ended.append((done, None))

    def ask(steps: int, *, is_urgent: bool = True) -> None:
        gate.read_slowly(SlowRead(is_urgent), CLIENT, partial(answer, steps), lambda: True)
        loop.run()

    ask(81)
    for _ in range(2):
        ask(60)
    assert ended == [
        (80, ErrorCode.BAD_ARGUMENTS),
        (2, ErrorCode.CONNECTION_LOSS),
        (2, ErrorCode.CONNECTION_LOSS),
    ]
    clock.now += 2
    ask(30)
    ask(30, is_urgent=False)
    ask(30)
    assert ended[3:5] == [(30, None), (30, None)]
    assert ended[5][1] == ErrorCode.CONNECTION_LOSS
    clock.now += 60
    ask(80)
    assert ended[6:] == [(80, None)]


def test_urgent_reads_of_clients_that_are_gone_use_no_share() -> None:
    """Each of them was charged with the steps of the read before it."""
    loop, clock = FakeLoop(), FakeClock()
    lengths = Lengths(every=1, at_once=2, longest=80)
    gate = StateGate(StateWorker(clock), cast(asyncio.AbstractEventLoop, loop), clock=clock, lengths=lengths)
    done: list[int] = []

    def answer(pause: Pause) -> None:
        for _ in range(30):
            pause()
        done.append(30)

    for is_wanted in (True, False, False, True):
        gate.read_slowly(URGENT, CLIENT, answer, partial(bool, is_wanted))
        loop.run()
    assert done == [30, 30]


def test_set_watches_waits_for_no_other_kind_of_read() -> None:
    loop, clock = FakeLoop(), FakeClock(step=1.0)
    gate = StateGate(StateWorker(clock), cast(asyncio.AbstractEventLoop, loop), clock=clock)
    steps: list[str] = []

    def answer(name: str, pause: Pause) -> None:
        for _ in range(3):
            steps.append(name)
            pause()

    for name in ("list", "watches"):
        sees = Sees.PIECES if name == "watches" else Sees.ONE_STATE
        gate.read_slowly(SlowRead(is_urgent=False, sees=sees), CLIENT, partial(answer, name), lambda: True)
    loop.run()
    assert steps == ["list", "watches"] * 3


def test_set_watches_does_not_keep_the_log_from_being_applied(client: Client) -> None:
    """Each path is compared with the state of its moment, and watched from then on."""
    other = connected(client.host)
    paths = [f"/n{number}" for number in range(100)]
    body = LONG.pack(0) + pack_strings([]) + pack_strings(paths) + pack_strings([])
    client.connection.data_received(framed(-8, OpCode.SET_WATCHES, body))
    watches = client.host.watches.data.by_path
    while "/n10" not in watches:
        client.loop.turn()
        assert client.host.holds == 0
    for xid, path in enumerate(("/n5", "/n90")):
        other.connection.data_received(_create(xid, path))
    while len(client.host.pending) < 2:  # on a slow host the turn is over, and the second one waits
        client.loop.turn()
    client.host.commit()
    assert "/n90" not in watches
    client.loop.run()
    events = [reply.body for reply in client.replies() if reply.xid == -1]
    assert [pack_string(path) in event for path, event in zip(("/n5", "/n90"), events, strict=True)]
    assert len(watches) == len(paths) - 2


def _create(xid: int, path: str) -> bytes:
    return framed(
        xid, OpCode.CREATE, pack_string(path) + pack_buffer(b"") + pack_acls(OPEN_ACL) + INT.pack(0)
    )


@pytest.fixture
def listing(client: Client) -> Client:
    """A client that may list very many children of the root."""
    return _with_names(client)


def _with_names(client: Client) -> Client:
    nodes = client.host.machine.tree.nodes
    node.full_node(nodes, "/").children = dict.fromkeys(f"/n{number:04}" for number in range(1000))
    return client


@pytest.mark.parametrize(
    ("opcode", "body"),
    [
        (OpCode.GET_CHILDREN, pack_string("/") + b"\1"),
        (OpCode.GET_CHILDREN2, pack_string("/") + b"\1"),
        (KeeperOpCode.FILTERED_LIST, pack_string("/") + b"\1" + bytes([ListFilter.ALL])),
    ],
)
def test_the_log_is_applied_while_very_many_names_are_packed(
    listing: Client, opcode: int, body: bytes
) -> None:
    """The reply shows the state as of one moment, and the events of what came later follow it."""
    root = listing.host.machine.tree.nodes["/"]
    other = connected(listing.host)
    as_of, stat = listing.host.machine.zxid, root.stat()
    listing.connection.data_received(framed(7, opcode, body))
    held = 0
    while "/" not in listing.host.watches.children.by_path or listing.host.holds:
        listing.loop.turn()
        held += listing.host.holds
    other.connection.data_received(_create(1, "/late"))
    while not listing.host.pending:
        listing.loop.turn()
    other.host.commit()
    turns = 0
    while not (replies := listing.replies()):
        listing.loop.turn()
        turns += 1
    assert held > 1000 / 16, "the names are copied in pieces"
    assert turns > 10 * held, "the log does not wait"
    assert turns > 1000 / 2 + 900, "they are freed in pieces, too"
    assert other.xids() == [1]
    assert [(reply.xid, reply.zxid) for reply in replies] == [(7, as_of), (-1, as_of + 1)]
    names = pack_strings([f"n{number:04}" for number in range(1000)])
    assert replies[0].body == names + (b"" if opcode == OpCode.GET_CHILDREN else stat)
    assert b"n0999" in root.names()
    assert b"late" in root.names(), "the former names are not kept"


def test_names_are_packed_while_a_long_write_is_applied(listing: Client) -> None:
    """Else long writes, one after another, leave a slice of each to a list, whose client waits too long."""
    listing.connection.data_received(_LIST)
    while not listing.host.holds:
        listing.loop.turn()
    while listing.host.holds:
        listing.loop.turn()
    listing.host.begin_long_write()
    (read,) = listing.host.state_gate.reads
    for _ in range(2000):
        listing.loop.turn()
    assert read.sees is Sees.PIECES, "it is packed"
    listing.loop.run()
    assert listing.replies() == [], "the rest looks at the state"
    listing.host.end_long_write()
    listing.loop.run()
    assert listing.xids() == [1]


@pytest.mark.parametrize("opcode", [OpCode.GET_CHILDREN, KeeperOpCode.FILTERED_LIST])
def test_the_log_waits_for_a_multi_read_of_many_names_to_its_end(listing: Client, opcode: int) -> None:
    """All its parts show one state."""
    listing.connection.order._client.knows_keeper = opcode == KeeperOpCode.FILTERED_LIST
    listed = MULTI_HEADER.pack(opcode, False, -1) + pack_string("/") + b"\0"
    if opcode == KeeperOpCode.FILTERED_LIST:
        listed += bytes([ListFilter.ALL])
    body = 2 * listed + MULTI_HEADER.pack(-1, True, -1)
    listing.connection.data_received(framed(7, OpCode.MULTI_READ, body))
    held = []
    while not (replies := listing.replies()):
        held.append(listing.host.holds)
        listing.loop.turn()
    names = pack_strings([f"n{number:04}" for number in range(1000)])
    assert replies[0].body.count(names) == 2
    assert held.count(1) > 100
    assert 0 not in held[held.index(1) :]


def test_of_names_that_did_not_change_meanwhile_the_packed_ones_are_kept(listing: Client) -> None:
    listing.connection.data_received(_LIST)
    listing.loop.run()
    listing.received()
    listing.connection.data_received(_LIST)
    assert listing.xids() == [1], "at once"


def test_a_list_that_is_refused_while_it_is_packed_leaves_no_watch() -> None:
    """It takes more steps than were expected of it."""
    listing = _with_names(slowed(200))
    listed = framed(7, OpCode.GET_CHILDREN, pack_string("/") + b"\1")
    listing.connection.data_received(_create(2, "/first") + listed + _create(3, "/late"))
    listing.commit(1)
    assert listing.outcomes() == [(2, ErrorCode.OK), (7, ErrorCode.BAD_ARGUMENTS)]
    assert "/" not in listing.host.watches.children.by_path


@pytest.mark.parametrize("fails", [False, True])
def test_a_slow_read_that_is_refused_or_fails(
    client: Client, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    client.connection.data_received(_LIST)
    if fails:
        monkeypatch.setattr(node, "_pack_many", "a mistake")
    else:
        del client.host.machine.tree.nodes["/"]
    client.loop.run()
    assert client.outcomes() == ([] if fails else [(1, ErrorCode.NO_NODE)])
    assert client.transport.is_closed() is fails
    assert client.host.holds == 0


def _watch_nothing(count: int) -> bytes:
    paths = pack_strings([f"/n{number}" for number in range(count)])
    return framed(2, OpCode.SET_WATCHES, LONG.pack(0) + paths + pack_strings([]) + pack_strings([]))


def _count_ephemerals(*paths: str) -> bytes:
    """Of each node it reads all children, and answers with none."""
    parts = (
        MULTI_HEADER.pack(KeeperOpCode.FILTERED_LIST, False, -1)
        + pack_string(path)
        + bytes([False, ListFilter.EPHEMERAL])
        for path in paths
    )
    return framed(1, OpCode.MULTI_READ, b"".join(parts) + MULTI_HEADER.pack(-1, True, -1))


@pytest.mark.parametrize(
    ("longest", "code"), [(7, ErrorCode.BAD_ARGUMENTS), (24, ErrorCode.BAD_ARGUMENTS), (60, ErrorCode.OK)]
)
def test_a_read_for_which_the_log_would_wait_too_long_is_refused_as_a_whole(
    longest: int, code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    """At 7 steps before it begins, at 24 while it runs."""
    client = slowed(longest)
    client.connection.order._client.knows_keeper = True
    nodes = client.host.machine.tree.nodes
    node.full_node(nodes, "/a").children = dict.fromkeys(["/a", *(f"/z{number}" for number in range(6))])
    nodes.update({f"/z{number}": nodes["/b"] for number in range(6)})
    client.connection.data_received(_count_ephemerals(*["/a"] * 4) + _LIST)
    client.loop.run()
    assert client.outcomes() == [(1, code), (1, ErrorCode.OK)]
    assert client.host.holds == 0
    assert caplog.text.count("is refused: it takes more than") == (code != ErrorCode.OK)


def test_a_request_that_does_not_keep_the_log_waiting_may_take_any_time() -> None:
    client = slowed(5)
    client.connection.data_received(_watch_nothing(100))
    client.loop.run()
    assert client.outcomes()[-1] == (2, ErrorCode.OK)
