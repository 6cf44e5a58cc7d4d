"""Writes that go ahead of waiting reads: which may, and that nobody can tell."""

import random
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from codec.constants import ErrorCode, OpCode
from codec.jute import pack_string
from codec.packets import STAT
from proxy.batch import Request
from proxy.ops import WRITES
from proxy.ops.reads import get_data
from proxy.overtaking import Overtaking, fires, paths_read, write_touches
from proxy.queued import Reads
from proxy.watches import HeldWatches, WatchTable
from tests.proxy import packets
from tests.proxy.packets import Reply
from tests.proxy.paper import Client, PaperHost, established

BODY = 8  # where a request's body begins
_READS = (OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2)


# -- which may -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opcode", _READS)
def test_the_paths_of_plain_reads(opcode: OpCode) -> None:
    calls = [(xid, packets.read(xid, opcode, path)[4:]) for xid, path in enumerate(("/a", "/a/ä", "/"))]
    calls.append((4, packets.read(4, opcode, "/b", watch=True)[4:]))
    assert paths_read(opcode, calls, BODY) == [b"/a", "/a/ä".encode(), b"/", b"/b"]


@pytest.mark.parametrize(
    "packet",
    [
        packets.get(1, ""),
        packets.get(1, "/zookeeper/quota/a/zookeeper_stats"),
        packets.request(1, OpCode.GET_DATA, b"\xff\xff\xff\xff\0"),
        packets.request(1, OpCode.GET_DATA, pack_string("/a") + b"\0\0"),
        packets.request(1, OpCode.GET_DATA, pack_string("/a")),
        packets.request(1, OpCode.GET_DATA, b"\0\0"),
        packets.request(1, OpCode.GET_DATA),
        packets.request(1, OpCode.GET_ACL, pack_string("/a")),
    ],
)
def test_reads_that_are_not_plain(packet: bytes) -> None:
    opcode = struct.unpack_from(">i", packet, 8)[0]
    assert paths_read(opcode, [(1, packets.get(1, "/a")[4:]), (2, packet[4:])], BODY) is None


@pytest.mark.parametrize(
    ("packet", "touched"),
    [
        (packets.put(1, "/a/b", b"data"), (b"/a/b",)),
        (packets.set_acl(1, "/a/b", ()), (b"/a/b",)),
        (packets.delete(1, "/a/b"), (b"/a/b", b"/a")),
        (packets.delete(1, "/a"), (b"/a", b"/")),
        (packets.create(1, "/a/b"), (b"/a/b", b"/a")),
        (packets.create(1, "/a/b", flags=1), (b"/a/b", b"/a")),
        (packets.create(1, "/a/b", flags=2), None),
        (packets.create(1, "/a/b", flags=3), None),
        (packets.create(1, "/a/b", flags=4), None),
        (packets.request(1, OpCode.CREATE, pack_string("/a/b")), None),
        (packets.request(1, OpCode.DELETE, pack_string("")), None),
        (packets.request(1, OpCode.DELETE, b"\0"), None),
        (packets.request(1, OpCode.DELETE, b"\0\0\0\x09/a"), None),
        (packets.request(1, OpCode.SET_DATA, pack_string("odd")), None),
        (packets.put(1, "odd/a", b"data"), None),
        (packets.create(1, "odd/a"), None),
        (packets.request(1, OpCode.SYNC, pack_string("/a")), None),
        (packets.request(1, OpCode.MULTI), None),
    ],
)
def test_what_a_write_touches(packet: bytes, touched: tuple[bytes, ...] | None) -> None:
    opcode = struct.unpack_from(">i", packet, 8)[0]
    assert write_touches(opcode, WRITES, packet[4:], BODY) == touched


def test_watches_that_a_write_may_fire() -> None:
    data = HeldWatches({"/a"}, (), (), ())
    children = HeldWatches((), {"/a"}, (), ())
    below = HeldWatches((), (), (), {"/"})
    for opcode, path, fired in (
        (OpCode.SET_DATA, b"/a", (True, False, True)),
        (OpCode.SET_ACL, b"/a", (False, False, False)),
        (OpCode.DELETE, b"/a", (True, True, True)),
        (OpCode.CREATE, b"/a/b", (False, True, True)),
        (OpCode.CREATE2, b"/c", (False, False, True)),
    ):
        assert tuple(fires(opcode, path, held) for held in (data, children, below)) == fired


def test_paths_of_reads_that_are_answered_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.overtaking._MAX_PATHS", 3)
    overtaking = Overtaking(WatchTable(), established().connection)
    overtaking.body, overtaking.writes = BODY, WRITES
    write = packets.put(1, "/a", b"")[4:]
    runs = [Reads(OpCode.GET_DATA, get_data, 0) for _ in range(20)]
    for number, run in enumerate(runs):
        run.calls.append((number, packets.get(number, f"/{number}")[4:]))
        overtaking.queued(run)
        assert overtaking.allows(OpCode.SET_DATA, write)
        assert overtaking.pass_by() == [b"/%d" % number]
        assert run.overtaken
        if number:  # two wait at a time, so that it never comes to an end
            assert not overtaking.allows(OpCode.SET_DATA, packets.put(1, f"/{number - 1}", b"")[4:])
            overtaking.answered(runs[number - 1])
            assert overtaking.allows(OpCode.SET_DATA, packets.put(1, f"/{number - 1}", b"")[4:])
        assert len(overtaking._read_in) <= 4


# -- when they do --------------------------------------------------------------------------------------------


def _pending(*chunks: bytes) -> int:
    """How many of these requests, sent at once, go to the committer before anything is answered."""
    client = established()
    client.send(b"".join(chunks))
    return len(client.host.pending)


def test_a_write_goes_ahead_of_reads_of_other_nodes() -> None:
    client = established()
    client.send(
        packets.put(1, "/a", b"1") + packets.get(2, "/a") + packets.get(3, "/") + packets.put(4, "/b", b"4")
    )
    assert [request.reads for request in client.host.pending] == [None, [b"/a", b"/"]]
    client.commit()
    assert [(reply.xid, reply.err) for reply in client.replies()] == [(1, 0), (2, 0), (3, 0), (4, 0)]


def test_a_write_waits_for_what_could_tell() -> None:
    first, last = packets.put(1, "/a", b"1"), packets.put(9, "/b", b"9")
    assert _pending(first, packets.get(2, "/a"), last) == 2
    assert _pending(first, packets.get(2, "/b"), last) == 1
    assert _pending(first, packets.get(2, "/a", watch=True), last) == 2
    assert _pending(first, packets.get(2, "/b", watch=True), last) == 1
    assert _pending(first, packets.read(2, OpCode.GET_CHILDREN, "/"), last) == 2
    assert _pending(first, packets.read(2, OpCode.GET_CHILDREN, "/"), packets.create(9, "/c")) == 1
    assert _pending(first, packets.read(2, OpCode.EXISTS, "/c"), packets.create(9, "/c")) == 1
    assert _pending(first, packets.read(2, OpCode.EXISTS, "/c"), packets.create(9, "/a/c")) == 2
    assert _pending(first, packets.ping(), last) == 1
    assert _pending(first, packets.get(2, "/a"), packets.close(9)) == 1
    # Nor does anything overtake a write, or what waits because of one.
    rest = (packets.get(4, "/a"), packets.put(5, "/c", b""))
    assert _pending(first, packets.get(2, "/b"), last, *rest) == 1


def test_behind_an_answer_as_many_go_as_may() -> None:
    client = established()
    client.send(
        packets.put(1, "/a", b"1")
        + packets.get(2, "/b")
        + packets.put(3, "/b", b"3")
        + packets.get(4, "/a")
        + packets.put(5, "/b", b"5")
        + packets.get(6, "/b", watch=True)
        + packets.ping()
        + packets.put(7, "/a", b"7")
        + packets.get(8, "/b")
    )
    assert len(client.host.pending) == 1
    client.commit()
    assert [request.fields[1] for request in client.host.pending] == [b"3", b"5"]
    client.send(packets.put(9, "/b", b"9"), packets.put(10, "/c", b"10"))
    client.commit()
    assert [request.fields[1] for request in client.host.pending] == [b"7"]
    client.commit()
    client.commit()
    kinds = [
        (reply.xid, reply.data if reply.xid in (2, 4, 6, 8) else reply.err) for reply in client.replies()
    ]
    assert kinds == [
        (1, 0),
        (2, b""),
        (3, 0),
        (4, b"1"),
        (5, 0),
        (6, b"5"),
        (-2, 0),
        (7, 0),
        (8, b"5"),
        (-1, 0),
        (9, 0),
        (10, ErrorCode.NO_NODE),
    ]


def test_a_write_that_may_fire_a_watch_of_the_client_waits() -> None:
    client = established()
    client.send(packets.get(1, "/b", watch=True))
    client.send(packets.put(2, "/a", b"2") + packets.get(3, "/a") + packets.put(4, "/b", b"4"))
    assert len(client.host.pending) == 1
    client.commit()
    client.commit()
    assert [reply.xid for reply in client.replies()] == [1, 2, 3, -1, 4]


def test_an_odd_path_is_refused_whatever_the_client_watches() -> None:
    client = established()
    client.send(packets.request(1, OpCode.ADD_WATCH, pack_string("/") + b"\0\0\0\1"))
    client.send(packets.put(2, "/a", b"2") + packets.get(3, "/a") + packets.put(4, "odd/b", b"4"))
    client.commit()
    client.commit()
    assert [(reply.xid, reply.err) for reply in client.replies() if reply.xid > 0][-2:] == [
        (3, 0),
        (4, ErrorCode.BAD_ARGUMENTS),
    ]


def test_a_client_that_does_not_read_gets_what_was_overtaken_all_the_same() -> None:
    client = established()
    client.send(
        packets.put(1, "/a", b"1")
        + packets.get(2, "/a")
        + packets.put(3, "/b", b"3")
        + packets.get(4, "/a")
        + packets.get(5, "/b")
    )
    client.connection.pause_writing()
    client.commit()
    assert [reply.xid for reply in client.replies()] == [1, 2, 3]
    client.send(packets.put(6, "/b", b"6"))
    assert len(client.host.pending) == 0  # nothing goes ahead while the client does not read
    client.connection.resume_writing()
    client.loop.run()
    client.commit()
    assert [reply.xid for reply in client.replies()] == [4, 5, 6]


def _with_too_much_kept(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client be owed a read of /a that a write of /b has overtaken; both are written by then."""
    monkeypatch.setattr("proxy.requests._MAX_KEPT", 10_000)
    client.host.proxy.mirror.tree.nodes["/"].data = bytes(20_000)
    client.send(
        packets.put(1, "/a", b"1")
        + packets.get(2, "/")
        + packets.get(3, "/a")
        + packets.put(4, "/b", b"4")
        + packets.read(5, OpCode.EXISTS, "/missing")
    )
    client.connection.pause_writing()
    client.commit()
    assert [reply.xid for reply in client.replies()] == [1, 2]


def test_what_is_kept_for_a_client_that_does_not_read_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    client = established()
    _with_too_much_kept(client, monkeypatch)
    client.connection.resume_writing()
    client.loop.run()
    assert [reply.xid for reply in client.replies()] == [3, 4, 5]


def test_a_read_that_has_missed_its_moment_is_never_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    for path, lives in (("/b", True), ("/a", False)):
        host = PaperHost(sessions=(1, 2))
        client, other = _clients(host)
        client.send(packets.create(1, "/a"), packets.create(2, "/b"))
        client.commit()
        client.received()
        _with_too_much_kept(client, monkeypatch)
        other.send(packets.put(1, path, b"new"))
        host.commit()
        client.connection.resume_writing()
        client.loop.run()
        assert [reply.xid for reply in client.replies()] == ([3, 4, 5] if lives else [])
        assert client.transport.is_closed() is not lives


# -- nobody can tell -----------------------------------------------------------------------------------------


class _Asked(NamedTuple):
    """One request of a random client."""

    opcode: int
    path: str
    packet: bytes


_PATHS = ("/a", "/b", "/a/x", "/a/y")


def _asked(choice: random.Random, xid: int, *, watches: bool) -> _Asked:
    path = choice.choice(_PATHS)
    watch = watches and choice.random() < 0.15
    kind = choice.randrange(10)
    if kind < 5:
        opcode = choice.choice(_READS)
        return _Asked(opcode, path, packets.read(xid, opcode, path, watch=watch))
    if kind < 8:
        return _Asked(OpCode.SET_DATA, path, packets.put(xid, path, b"%d" % xid))
    if kind == 8:
        return _Asked(OpCode.CREATE, path, packets.create(xid, path, b"%d" % xid))
    return _Asked(OpCode.DELETE, path, packets.delete(xid, path))


def _clients(host: PaperHost, count: int = 2) -> list[Client]:
    """Clients with a session each."""
    clients = [Client(host=host, session_id=number) for number in range(1, count + 1)]
    for client in clients:
        client.send(packets.connect())
        client.establish()
        client.received()
    return clients


def _plain(opcode: int, reply: Reply) -> Any:
    """What a reply tells, without the zxids and times."""
    if reply.err or opcode == OpCode.DELETE:
        return reply.err
    body = reply.body
    if opcode in (OpCode.CREATE, OpCode.GET_CHILDREN):
        return sorted(body) if opcode == OpCode.GET_CHILDREN else body
    stat = STAT.unpack(body[-STAT.size :])
    rest = body[: -STAT.size]
    return rest if opcode == OpCode.GET_DATA else sorted(rest), (*stat[4:7], *stat[8:10])


def _zxids_rise(replies: list[Reply]) -> bool:
    zxids = [reply.zxid for reply in replies]
    return zxids == sorted(zxids)


@pytest.mark.parametrize("seed", range(60))
def test_one_client_sees_what_it_would_see_asking_one_by_one(seed: int) -> None:
    """Replies and events, in order, whatever goes out together; with watches of its own."""
    choice = random.Random(seed)
    asked = [_asked(choice, xid, watches=True) for xid in range(40)]
    opcodes = {xid: one.opcode for xid, one in enumerate(asked)}
    streams = []
    for together in (False, True):
        (client,) = _clients(PaperHost(), 1)
        if together:
            while asked:
                count = choice.randrange(1, 16)
                client.send(b"".join(one.packet for one in asked[:count]))
                asked = asked[count:]
                if choice.random() < 0.7:
                    client.commit(choice.randrange(6))
            while client.host.pending:
                client.commit(choice.randrange(1, 4))
        else:
            for one in asked:
                client.send(one.packet)
                client.commit()
        replies = client.replies()
        assert _zxids_rise(replies)
        streams.append(
            [
                reply.event if reply.xid == -1 else (reply.xid, _plain(opcodes[reply.xid], reply))
                for reply in replies
            ]
        )
    assert streams[0] == streams[1]


class _Tale:
    """What several clients did at once, and in which order their writes took effect."""

    def __init__(self, seed: int) -> None:
        self._choice = choice = random.Random(seed)
        self.host = PaperHost(sessions=(1, 2, 3))
        self.clients = _clients(self.host, 3)
        self.writes: list[Request] = []
        self.overtaken = 0
        self.asked = [[_asked(choice, xid, watches=False) for xid in range(30)] for _ in self.clients]
        rest = [list(asked) for asked in self.asked]
        while any(rest) or self.host.pending:
            for client, left in zip(self.clients, rest, strict=True):
                count = choice.randrange(12)
                if not client.connection.is_closed:
                    client.send(b"".join(one.packet for one in left[:count]))
                del left[:count]
            self._commit()

    def _commit(self) -> None:
        """A Txn with some of what is pending, perhaps told only when another of other sessions is applied."""
        first, sessions = self._apply(set())
        if self._choice.random() < 0.1:
            second, _ = self._apply(sessions)
            self._tell(second)
        self._tell(first)
        for client in self.clients:
            client.loop.run()

    def _apply(self, busy: set[int]) -> tuple[list[tuple[Request, int]], set[int]]:
        host = self.host
        ready = [request for request in host.pending if request.caller.session_id not in busy]
        order = [request.caller.session_id for request in ready]
        if self._choice.random() < 0.5:
            self._choice.shuffle(order)  # of sessions; each one's requests stay in order
        queues = {number: [one for one in ready if one.caller.session_id == number] for number in set(order)}
        taken = [queues[number].pop(0) for number in order][: self._choice.randrange(1, 20)]
        batch, _ = host.batch_of(taken)
        self.overtaken += sum(1 for request in batch.requests if request.reads)
        host.pending = [request for request in host.pending if request not in batch.requests]
        self.writes += batch.requests
        zxid = host.apply(batch) if batch.requests else 0
        return [(request, zxid) for request in batch.requests], {
            request.caller.session_id for request in batch.requests
        }

    def _tell(self, told: list[tuple[Request, int]]) -> None:
        for request, zxid in told:
            request.done(request, zxid)

    def states(self) -> Iterator[dict[tuple[int, str], Any]]:
        """What each read would be answered before the first write, and after each; in order, one by one."""
        host = PaperHost(sessions=(1, 2, 3))
        reader = _clients(host)[1]
        places = [(opcode, path) for opcode in _READS for path in _PATHS]
        for request in (None, *self.writes):
            if request is not None:
                code = request.refusal
                again = Request(request.operation, request.fields, request.caller, 50, lambda *_: None)
                host.pending.append(again)
                host.commit()
                assert again.refusal == code
            reader.send(b"".join(packets.read(xid, *place) for xid, place in enumerate(places)))
            replies = reader.replies()
            yield {place: _plain(place[0], reply) for place, reply in zip(places, replies, strict=True)}


def _check(tale: _Tale) -> int:
    """Each client must have seen states of the tree that were, in their order, and none of its own future.

    Returns how many reads there were.
    """
    states = list(tale.states())
    reads = 0
    for number, (client, asked) in enumerate(zip(tale.clients, tale.asked, strict=True), 1):
        mine = [place for place, one in enumerate(tale.writes, 1) if one.caller.session_id == number]
        replies = client.replies()
        assert _zxids_rise(replies)
        assert [reply.xid for reply in replies] == list(range(len(replies)))
        if not client.connection.is_closed:
            assert len(replies) == len(asked)
        now = 0
        for reply in replies:
            one = asked[reply.xid]
            if one.opcode not in _READS:
                now = mine.pop(0)
                continue
            reads += 1
            answer = _plain(one.opcode, reply)
            end = mine[0] if mine else len(states)
            fitting = (place for place in range(now, end) if states[place][one.opcode, one.path] == answer)
            found = next(fitting, None)
            assert found is not None, (number, one, answer, now, end)
            now = found
    return reads


def test_many_clients_see_one_history() -> None:
    reads = overtaken = closed = 0
    for seed in range(150):
        tale = _Tale(seed)
        reads += _check(tale)
        overtaken += tale.overtaken
        closed += sum(client.connection.is_closed for client in tale.clients)
    assert reads > 5000
    assert overtaken > 500
    assert closed < 100
