"""One connection on a transport of paper: what goes in, what comes out, and in which order."""

import asyncio
import struct
from collections.abc import Callable
from typing import Any, cast

import pytest

from codec.constants import ErrorCode, EventType, OpCode
from codec.jute import Acl, pack_acls, pack_string
from codec.packets import ConnectRequest
from proxy.auth.digest import digest_identity
from proxy.auth.schemes import Offer
from proxy.batch import Request
from proxy.connection import Connection
from proxy.counters import Counters
from proxy.latency import Latency
from proxy.load import Load
from proxy.operation import Operations, Reading
from proxy.ops import EXTENDED
from proxy.sessions import Session
from tests.proxy import packets
from tests.proxy.packets import Reply
from tests.proxy.world import Proxy, Store

SESSION = 1
PASSWORD = b"sixteen bytes ok"
MAX_FRAME = 1000


class PaperTimer:
    """A callback that is due at some time."""

    def __init__(self, due: float, callback: Callable[[], object]) -> None:
        self.due = due
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class PaperLoop:
    """Runs what was called soon when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0
        self._soon: list[Callable[[], object]] = []
        self.timers: list[PaperTimer] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Any, *_args: Any, context: Any = None) -> Any:
        self._soon.append(callback)

    def call_later(self, delay: float, callback: Any, *_args: Any, context: Any = None) -> "PaperTimer":
        timer = PaperTimer(self.now + delay, callback)
        self.timers.append(timer)
        return timer

    def wait(self, seconds: float) -> None:
        self.now += seconds
        for timer in self.timers:
            if timer.due <= self.now and not timer.cancelled:
                timer.callback()
        self.run()

    def run(self) -> None:
        while self._soon:
            self.turn()

    def turn(self) -> None:
        """Run what has been called soon, but not what that calls."""
        soon, self._soon = self._soon, []
        for callback in soon:
            callback()


class PaperTransport(asyncio.Transport):
    """Notes what is written; each write by itself."""

    def __init__(self, peer: tuple[str, int] | None = ("10.0.0.7", 4711)) -> None:
        super().__init__({"peername": peer})
        self.writes: list[bytes] = []
        self.closed = False
        self.reading = True
        self.room = 10_000_000  # bytes until the protocol is paused
        self.protocol: Connection | None = None

    def is_closed(self) -> bool:
        return self.closed

    def is_read(self) -> bool:
        return self.reading

    def write(self, data: Any) -> None:
        assert not self.closed
        self.writes.append(bytes(data))
        self.room -= len(data)
        if self.room < 0 and self.protocol is not None:
            self.protocol.pause_writing()

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True


class PaperHost:
    """A server whose commits happen when the test says so."""

    def __init__(self, operations: Operations = EXTENDED) -> None:
        self.proxy = Proxy(Store([SESSION]))
        self.reading = Reading(self.proxy.mirror.tree, self.proxy.watches)
        self.auth = Offer()
        self.operations = operations
        self.latency = Latency((*operations.reads, *operations.writes))
        self.counters = Counters()
        self.load = Load(100_000)
        self.pending: list[Request] = []
        self.attached: list[ConnectRequest] = []
        self.ended: list[int] = []
        self.full = False
        self.connections = 0

    @property
    def zxid(self) -> int:
        return self.proxy.mirror.zxid

    def submit(self, request: Request) -> None:
        self.pending.append(request)

    def attach(self, connection: Connection, request: ConnectRequest) -> None:
        self.attached.append(request)

    def session_ended(self, session: Session, _closer: object) -> None:
        self.ended.append(session.id)

    def four_letter_word(self, word: bytes, rest: bytes) -> bytes | None:
        return b"imok" + rest if word == b"ruok" else None

    def opened(self, connection: Connection) -> bool:
        self.connections += 1
        return not self.full

    def gone(self, connection: Connection) -> None:
        self.connections -= 1

    def commit(self, count: int | None = None) -> None:
        """Commit the first `count` pending writes, or all, in as few batches as may be, and answer them."""
        taken, self.pending = self.pending[:count], self.pending[count:] if count is not None else []
        while taken:
            batch = self.proxy.batch(1)
            for request in taken:
                if not batch.add(request):
                    break
            taken = taken[len(batch.requests) :]
            revision = self.proxy.commit(batch).revision
            self.proxy.catch_up()
            for request in batch.requests:
                request.done(request, self.proxy.mirror.zxid_of(revision))


class Client:
    """A connection, its host and what it has been sent so far."""

    def __init__(self, operations: Operations = EXTENDED) -> None:
        self.loop = PaperLoop()
        self.host = PaperHost(operations)
        self.transport = PaperTransport()
        self.connection = Connection(self.host, cast(asyncio.AbstractEventLoop, self.loop), MAX_FRAME)
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)
        self.session = Session(SESSION, 4000, self.loop.now)
        self._read = 0

    def establish(self) -> None:
        """Answer the connect request with the session."""
        self.connection.established(self.session, PASSWORD)

    def send(self, *chunks: bytes) -> None:
        """Send each chunk by itself."""
        for chunk in chunks:
            self.connection.data_received(chunk)
        self.loop.run()

    def commit(self, count: int | None = None) -> None:
        """See PaperHost.commit."""
        self.host.commit(count)
        self.loop.run()

    def received(self) -> list[bytes]:
        """The packets since the last call."""
        raw = b"".join(self.transport.writes)[self._read :]
        self._read += len(raw)
        return packets.take_apart(raw)

    def replies(self) -> list[Reply]:
        """The replies and events since the last call."""
        return packets.replies(self.received())

    def lose(self) -> None:
        """The client is gone."""
        self.connection.connection_lost(None)
        self.loop.run()


@pytest.fixture
def client() -> Client:
    """A client with a session and the nodes /a (data "old") and /b."""
    client = Client()
    client.send(packets.connect())
    client.establish()
    client.send(packets.create(1, "/a", b"old"), packets.create(2, "/b"))
    client.commit()
    client.received()
    return client


def test_the_handshake() -> None:
    client = Client()
    client.send(packets.connect(timeout_ms=9000, last_zxid=3))
    assert client.host.attached == [ConnectRequest(0, 3, 9000, 0, bytes(16), False)]
    assert client.received() == []
    client.establish()
    (payload,) = client.received()
    assert packets.connect_reply(payload) == (4000, SESSION, PASSWORD)
    assert payload.endswith(b"\0")
    assert client.connection.session_id == SESSION


def test_an_old_client_gets_an_answer_without_the_read_only_byte() -> None:
    client = Client()
    client.send(packets.framed(packets.connect()[4:-1]))
    client.establish()
    (payload,) = client.received()
    assert len(payload) == 36


def test_a_client_that_never_asks_for_a_session_is_let_go() -> None:
    client = Client()
    client.loop.wait(9.9)
    assert not client.transport.closed
    client.loop.wait(0.1)
    assert client.transport.closed


def test_a_client_that_waits_for_its_session_is_not_read_but_not_let_go_either() -> None:
    client = Client()
    client.send(packets.connect())
    assert not client.transport.reading
    client.loop.wait(60)
    assert not client.transport.closed
    client.establish()
    assert client.transport.reading


def test_a_refused_client_is_told_so_and_let_go() -> None:
    client = Client()
    client.send(packets.connect(session_id=77))
    client.connection.refuse()
    (payload,) = client.received()
    assert packets.connect_reply(payload) == (0, 0, bytes(16))
    assert client.transport.is_closed()


@pytest.mark.parametrize("size", [0, 1, 20, 43])
def test_a_connect_request_cut_short_closes(size: int) -> None:
    client = Client()
    client.send(packets.framed(packets.connect()[4 : 4 + size]))
    assert client.transport.is_closed()
    assert client.host.attached == []


def test_one_connection_too_many_is_closed() -> None:
    client = Client.__new__(Client)
    client.loop, client.host, client.transport = PaperLoop(), PaperHost(), PaperTransport()
    client.host.full = True
    connection = Connection(client.host, cast(asyncio.AbstractEventLoop, client.loop), MAX_FRAME)
    connection.connection_made(client.transport)
    client.loop.run()
    assert client.transport.is_closed()
    connection.data_received(packets.connect())
    assert client.host.attached == []


_SCRIPT = (
    packets.create(1, "/c", b"one")
    + packets.get(2, "/c")
    + packets.ping()
    + packets.put(3, "/c", b"two")
    + packets.get(4, "/c", watch=True)
    + packets.put(5, "/c", b"three")
    + packets.delete(6, "/c")
    + packets.get(7, "/c")
)


def _after(script: list[bytes]) -> bytes:
    """All that a client is sent after these chunks, with every write committed as soon as it is there."""
    client = Client()
    client.send(packets.connect())
    client.establish()
    for chunk in script:
        client.send(chunk)
    while client.host.pending:
        client.commit(1)
    return b"".join(client.transport.writes)


def test_a_client_that_is_gone_before_it_is_looked_at_is_closed() -> None:
    client = Client()
    transport = PaperTransport(peer=None)
    connection = Connection(client.host, cast(asyncio.AbstractEventLoop, client.loop), MAX_FRAME)
    connection.connection_made(transport)
    client.loop.run()
    assert transport.is_closed()
    connection.connection_lost(None)
    assert client.host.connections == 1


def test_frames_may_be_cut_at_every_byte() -> None:
    whole = _after([_SCRIPT])
    assert [reply.xid for reply in packets.replies(packets.take_apart(whole)[1:])] == [
        1,
        2,
        -2,
        3,
        4,
        -1,
        5,
        6,
        7,
    ]
    for place in range(len(_SCRIPT)):
        assert _after([_SCRIPT[:place], _SCRIPT[place:]]) == whole
    assert _after([bytes((byte,)) for byte in _SCRIPT]) == whole


def test_what_comes_with_the_connect_request_waits_for_the_session() -> None:
    client = Client()
    client.send(packets.connect() + packets.get(1, "/"), packets.get(2, "/"), packets.get(3, "/")[:5])
    assert client.received() == []
    client.establish()
    _, *rest = client.received()
    assert [reply.xid for reply in packets.replies(rest)] == [1, 2]
    client.send(packets.get(3, "/")[5:])
    assert [reply.xid for reply in client.replies()] == [3]


def test_reads_of_a_chunk_are_answered_at_once_in_one_write(client: Client) -> None:
    before = len(client.transport.writes)
    client.send(b"".join(packets.get(xid, "/a") for xid in range(50)))
    assert len(client.transport.writes) == before + 1
    assert [(reply.xid, reply.data) for reply in client.replies()] == [(xid, b"old") for xid in range(50)]


def test_writes_of_one_chunk_go_out_together(client: Client) -> None:
    client.send(packets.put(1, "/a", b"1") + packets.put(2, "/a", b"2") + packets.put(3, "/b", b"3"))
    assert len(client.host.pending) == 3
    assert client.received() == []
    client.commit()
    assert [(reply.xid, reply.err) for reply in client.replies()] == [(1, 0), (2, 0), (3, 0)]


def test_a_read_between_two_writes_sees_the_first_alone(client: Client) -> None:
    client.send(packets.put(1, "/a", b"1") + packets.get(2, "/a", watch=True) + packets.put(3, "/a", b"2"))
    assert len(client.host.pending) == 1  # the second write waits for the read
    client.commit()
    first, second = client.replies()
    assert (first.xid, second.xid, second.data) == (1, 2, b"1")
    client.commit()
    event, third = client.replies()
    assert event.xid == -1
    assert event.event == (EventType.NODE_DATA_CHANGED, "/a")
    assert (third.xid, third.err) == (3, 0)


def test_nothing_overtakes_a_write(client: Client) -> None:
    client.send(packets.put(1, "/a", b"1") + packets.get(2, "/b") + packets.ping(), packets.get(4, "/b"))
    assert client.received() == []
    client.commit()
    assert [reply.xid for reply in client.replies()] == [1, 2, -2, 4]


def test_a_write_that_cannot_be_read_keeps_its_place(client: Client) -> None:
    broken = packets.request(2, OpCode.CREATE, b"\0\0")
    client.send(packets.put(1, "/a", b"1") + broken + packets.put(3, "/a", b"3"))
    client.commit()
    assert [(reply.xid, reply.err) for reply in client.replies()] == [
        (1, 0),
        (2, ErrorCode.MARSHALLING_ERROR),
        (3, 0),
    ]
    client.send(packets.request(4, OpCode.CREATE, b"\0\0"))
    assert [(reply.xid, reply.err) for reply in client.replies()] == [(4, ErrorCode.MARSHALLING_ERROR)]
    assert not client.transport.is_closed()


@pytest.mark.parametrize("opcode", [OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.SET_WATCHES])
def test_a_read_that_cannot_be_read_is_told_so(client: Client, opcode: OpCode) -> None:
    client.send(packets.request(5, opcode, b"\0\0\0\x05/a"), packets.get(6, "/a"))
    assert [(reply.xid, reply.err) for reply in client.replies()] == [
        (5, ErrorCode.MARSHALLING_ERROR),
        (6, 0),
    ]


@pytest.mark.parametrize("opcode", [77, OpCode.CREATE_SESSION])
def test_an_unknown_request_ends_the_connection_behind_what_came_before(client: Client, opcode: int) -> None:
    client.send(
        packets.put(1, "/a", b"1")
        + packets.request(2, opcode)
        + packets.get(3, "/a")
        + packets.put(4, "/a", b"4")
    )
    assert not client.transport.is_closed()
    client.commit()
    assert [(reply.xid, reply.err) for reply in client.replies()] == [(1, 0), (2, ErrorCode.UNIMPLEMENTED)]
    assert client.transport.is_closed()
    client.lose()
    assert client.host.pending == []


def test_a_packet_without_a_header_ends_the_connection(client: Client) -> None:
    client.send(packets.get(1, "/a") + packets.framed(b"\0\0\0\1\0\0\0") + packets.get(3, "/a"))
    assert [reply.xid for reply in client.replies()] == [1]
    assert client.transport.is_closed()


@pytest.mark.parametrize("length", [-1, MAX_FRAME + 1, 0x7FFFFFFF, -0x80000000])
def test_a_bad_length_ends_the_connection_behind_what_came_before(client: Client, length: int) -> None:
    client.send(packets.get(1, "/a") + struct.pack(">i", length))
    assert [reply.xid for reply in client.replies()] == [1]
    assert client.transport.is_closed()


def test_a_frame_of_the_limit_is_taken(client: Client) -> None:
    empty = len(packets.put(1, "/a", b"")) - 4
    client.send(packets.put(1, "/a", bytes(MAX_FRAME - empty)))
    client.commit()
    assert [reply.err for reply in client.replies()] == [0]


def test_four_letter_words() -> None:
    for chunks in ([b"ruok"], [b"r", b"uo", b"k"], [b"ruok\n"]):
        client = Client()
        client.send(*chunks)
        assert client.transport.writes == [b"imok" + chunks[-1][4:]]  # what follows a word is handed on
        assert client.transport.is_closed()


def test_an_unknown_word_closes_silently() -> None:
    client = Client()
    client.send(b"none")
    assert client.transport.writes == []
    assert client.transport.is_closed()


def test_a_word_behind_the_handshake_is_no_word(client: Client) -> None:
    client.send(b"ruok")
    assert client.replies() == []
    assert client.transport.is_closed()


def test_the_end_of_a_session(client: Client) -> None:
    client.send(
        packets.create(1, "/e", flags=1) + packets.close(2) + packets.create(3, "/late") + packets.ping()
    )
    assert client.session.ending
    client.commit()
    assert [(reply.xid, reply.err) for reply in client.replies()] == [(1, 0), (2, 0)]
    assert client.transport.is_closed()
    assert client.host.ended == [SESSION]
    client.lose()
    assert not {"/e", "/late"} & client.host.proxy.mirror.tree.nodes.keys()


@pytest.mark.parametrize(
    "code", [ErrorCode.SESSION_EXPIRED, ErrorCode.SESSION_MOVED, ErrorCode.CONNECTION_LOSS]
)
def test_a_session_that_is_lost_ends_the_connection(client: Client, code: ErrorCode) -> None:
    client.send(packets.put(1, "/a", b"1"))
    (request,) = client.host.pending
    request.refusal = code
    request.done(request, 0)
    client.loop.run()
    assert [(reply.xid, reply.err) for reply in client.replies()] == [(1, code)]
    assert client.transport.is_closed()


def test_a_lost_connection_still_runs_each_write_once(client: Client) -> None:
    client.send(
        packets.create(1, "/a/s", flags=2)
        + packets.get(2, "/a", watch=True)
        + packets.create(3, "/a/s", flags=2)
    )
    client.lose()
    while client.host.pending:
        client.commit(1)
    tree = client.host.proxy.mirror.tree
    assert tree.nodes["/a"].children == {"s0000000000", "s0000000001"}
    assert client.host.proxy.watches.total() == 0
    assert client.replies() == []
    assert client.host.connections == 0
    assert client.session.connection is None


def test_the_writes_of_a_connection_that_is_closed_go_on_before_those_of_the_next(client: Client) -> None:
    client.send(packets.put(1, "/a", b"1") + packets.get(2, "/a") + packets.put(3, "/a", b"3"))
    assert len(client.host.pending) == 1
    client.connection.close()  # the next connection's wish to take over comes right behind
    assert len(client.host.pending) == 2
    client.lose()
    client.commit()
    assert client.host.proxy.mirror.tree.nodes["/a"].data == b"3"
    assert client.host.pending == []


def test_a_lost_connection_leaves_a_newer_one_its_session(client: Client) -> None:
    newer = Client()
    newer.send(packets.connect())
    newer.connection.established(client.session, PASSWORD)
    client.lose()
    assert client.session.connection is newer.connection


def test_a_lost_connection_forgets_its_watches(client: Client) -> None:
    client.send(packets.get(1, "/a", watch=True) + packets.read(2, OpCode.GET_CHILDREN, "/a", watch=True))
    assert client.host.proxy.watches.total() == 2
    client.lose()
    assert client.host.proxy.watches.total() == 0


def test_a_client_with_many_requests_waiting_is_not_read_from(client: Client) -> None:
    client.send(b"".join(packets.put(xid, "/a", b"") for xid in range(1500)))
    assert not client.transport.is_read()
    client.commit(900)
    assert not client.transport.is_read()
    client.commit(200)
    assert client.transport.is_read()
    client.commit()
    assert [reply.xid for reply in client.replies()] == list(range(1500))


def test_a_client_that_does_not_read_is_not_read_from(client: Client) -> None:
    client.connection.pause_writing()
    assert not client.transport.is_read()
    client.connection.resume_writing()
    assert client.transport.is_read()


def test_a_client_that_asks_for_much_and_does_not_read_is_not_answered(client: Client) -> None:
    client.host.proxy.mirror.tree.nodes["/a"].data = bytes(10_000)
    client.received()
    client.transport.room = 50_000
    client.send(b"".join(packets.get(xid, "/a") for xid in range(100)) + packets.put(100, "/a", b""))
    assert sum(map(len, client.transport.writes)) < 80_000
    answered = len(client.replies())
    client.commit()
    assert client.replies() == []
    client.transport.room = 10_000_000
    client.connection.resume_writing()
    client.loop.run()
    client.commit()
    assert [reply.xid for reply in client.replies()] == list(range(answered, 101))


def test_others_have_their_turn_between_one_clients_laborious_reads(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.connection._AT_A_STRETCH", 0)
    number = (packets.request(xid, OpCode.GET_ALL_CHILDREN_NUMBER, pack_string("/")) for xid in range(3))
    rest = (packets.get(3, "/a"), packets.put(4, "/a", b"new"), packets.get(5, "/a"))
    client.connection.data_received(b"".join((*number, *rest)))
    for waiting in (6, 5, 4):
        assert client.connection.outstanding == waiting
        client.loop.turn()
    client.loop.run()
    client.commit()
    assert [reply.xid for reply in client.replies()] == list(range(6))


def test_laborious_reads_that_wait_when_the_client_goes(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.connection._AT_A_STRETCH", 0)
    number = packets.request(1, OpCode.GET_ALL_CHILDREN_NUMBER, pack_string("/"))
    client.connection.data_received(number * 3 + packets.put(4, "/a", b"new"))
    client.connection.connection_lost(None)
    client.loop.run()
    client.commit()
    assert client.host.proxy.mirror.tree.nodes["/a"].data == b"new"


def test_a_queue_that_drains_does_not_wake_a_client_that_does_not_read(client: Client) -> None:
    client.send(b"".join(packets.put(xid, "/a", b"") for xid in range(1000)))
    client.connection.pause_writing()
    client.commit()
    assert not client.transport.is_read()
    client.connection.resume_writing()
    assert client.transport.is_read()


def test_a_client_that_reads_again_is_not_read_from_while_its_queue_is_full(client: Client) -> None:
    client.connection.pause_writing()
    client.send(b"".join(packets.put(xid, "/a", b"") for xid in range(1000)))
    client.connection.resume_writing()
    assert not client.transport.is_read()
    client.commit()
    assert client.transport.is_read()


def _elsewhere(client: Client, requests: int, size: int = 0) -> None:
    """So much more, or less, waits on other connections."""
    client.host.load.requests += requests
    client.host.load.size += size


@pytest.mark.parametrize(("requests", "size"), [(100_000, 0), (0, 1 << 28)])
def test_when_much_waits_in_all_who_waits_is_not_read_from(client: Client, requests: int, size: int) -> None:
    _elsewhere(client, requests, size)
    client.send(packets.get(1, "/a"))
    assert client.transport.is_read()  # who waits for nothing may go on
    client.send(packets.put(2, "/a", b""), packets.put(3, "/a", b""))
    assert not client.transport.is_read()
    client.commit(1)
    assert not client.transport.is_read()
    client.commit()
    assert client.transport.is_read()
    assert [reply.xid for reply in client.replies()] == [1, 2, 3]


def test_when_less_waits_in_all_the_next_answer_wakes_who_waits(client: Client) -> None:
    _elsewhere(client, 100_000)
    client.send(packets.put(1, "/a", b"") + packets.put(2, "/a", b""))
    assert not client.transport.is_read()
    _elsewhere(client, -100_000)
    client.commit(1)
    assert client.transport.is_read()
    client.commit()


def test_the_load_is_what_waits(client: Client) -> None:
    load = client.host.load
    request = packets.put(1, "/a", b"")
    client.send(request + packets.get(2, "/a"), request + packets.framed(b"\0\0\0\4\0\0\0\5"))
    assert load.requests == 4
    assert load.size > len(request)
    client.connection.pause_writing()  # a client that does not take its answers holds nobody up
    assert load.requests == 0
    client.connection.resume_writing()
    assert load.requests == 4
    client.commit()
    client.loop.run()
    client.commit()
    assert (load.requests, load.size) == (0, 0)


@pytest.mark.parametrize("how", ["lost", "closed", "auth failed"])
def test_a_connection_that_ends_is_no_load_any_more(client: Client, how: str) -> None:
    client.send(packets.put(1, "/a", b"") + packets.get(2, "/a"))
    if how == "closed":
        client.connection.close()
    if how == "auth failed":
        client.send(packets.auth("nonsense", b""), packets.get(3, "/a"))
        client.commit()
    client.lose()
    assert (client.host.load.requests, client.host.load.size) == (0, 0)


def test_draining_answers_what_is_here_and_closes(client: Client) -> None:
    client.send(packets.put(1, "/a", b"1") + packets.get(2, "/a"))
    client.connection.drain()
    client.loop.run()
    assert not client.transport.is_closed()
    assert not client.transport.is_read()
    client.commit()
    assert [reply.xid for reply in client.replies()] == [1, 2]
    assert client.transport.is_closed()


def test_draining_an_idle_connection_closes_it(client: Client) -> None:
    client.connection.drain()
    assert client.transport.is_closed()
    assert client.connection.is_closed


def test_a_client_proves_who_it_is(client: Client) -> None:
    acl = (Acl(31, *digest_identity(b"user:word")),)
    client.send(packets.set_acl(1, "/a", acl))
    client.commit()
    client.send(packets.get(2, "/a"), packets.auth("digest", b"user:word") + packets.get(3, "/a"))
    client.send(packets.auth("digest", b"user:word"))
    assert [(reply.xid, reply.err) for reply in client.replies()] == [
        (1, 0),
        (2, ErrorCode.NO_AUTH),
        (-4, 0),
        (3, 0),
        (-4, 0),
    ]
    assert len(client.connection.identities) == 2


def test_sasl_gets_no_token_and_the_connection_lives_on(client: Client) -> None:
    client.send(packets.put(1, "/a", b"1") + packets.sasl(b"token") + packets.get(2, "/a"))
    client.commit()
    first, token, last = client.replies()
    assert (first.xid, last.xid, last.data) == (1, 2, b"1")
    assert token == Reply(7, 0, 0, b"\xff\xff\xff\xff")


@pytest.mark.parametrize("token", [None, b"cut"])
def test_sasl_without_a_token_ends_the_connection(client: Client, token: bytes | None) -> None:
    whole = packets.sasl(token)
    client.send(whole if token is None else packets.framed(whole[4:-1]))
    client.send(packets.get(2, "/a"))
    assert client.replies() == []
    assert client.transport.is_closed()


@pytest.mark.parametrize("token", [None, b"token"])
def test_what_follows_sasl_on_a_lost_connection(client: Client, token: bytes | None) -> None:
    client.send(packets.put(1, "/a", b"1") + packets.sasl(token) + packets.put(2, "/a", b"2"))
    client.lose()
    assert len(client.host.pending) == (1 if token is None else 2)


def test_an_error_may_have_a_body(client: Client) -> None:
    null_path = struct.pack(">i?i", OpCode.GET_DATA, False, -1) + b"\xff\xff\xff\xff\0"
    end = struct.pack(">i?i", -1, True, -1)
    client.send(packets.request(1, OpCode.MULTI_READ, null_path + end))
    (reply,) = client.replies()
    assert (reply.err, reply.body) == (ErrorCode.MARSHALLING_ERROR, end)


def test_writes_behind_an_auth_are_those_of_the_new_identity(client: Client) -> None:
    client.send(
        packets.put(1, "/a", b"1") + packets.auth("digest", b"user:word") + packets.put(2, "/a", b"2")
    )
    client.commit()
    (request,) = client.host.pending
    assert digest_identity(b"user:word") in request.caller.identities


def test_a_failed_proof_ends_the_connection(client: Client) -> None:
    client.send(packets.put(1, "/a", b"1") + packets.auth("nonsense", b"") + packets.put(2, "/a", b"2"))
    client.commit()
    assert [(reply.xid, reply.err) for reply in client.replies()] == [(1, 0), (-4, ErrorCode.AUTH_FAILED)]
    assert client.transport.is_closed()
    client.lose()
    assert client.host.pending == []


def test_events_are_withheld_from_those_who_may_not_read(client: Client) -> None:
    client.connection.notify(EventType.NODE_DELETED, "/a", 9, (Acl(30, "world", "anyone"),))
    client.connection.notify(EventType.NODE_DELETED, "/b", 9, (Acl(1, "ip", "10.0.0.0/8"),))
    client.loop.run()
    assert [reply.event for reply in client.replies()] == [(EventType.NODE_DELETED, "/b")]


def test_whatever_a_client_sends_counts_as_a_sign_of_life(client: Client) -> None:
    client.loop.now = 200.0
    client.send(packets.ping())
    assert client.session.heard == 200.0
    assert client.connection.received == 4
    assert client.connection.sent == 4


def test_acls_are_sent_as_they_are_to_those_who_may_see_them(client: Client) -> None:
    client.send(packets.request(1, OpCode.GET_ACL, pack_string("/a")))
    (reply,) = client.replies()
    assert reply.body.startswith(pack_acls([Acl(31, "world", "anyone")]))


def _counts(client: Client) -> dict[int, int]:
    by_opcode = client.host.latency.by_opcode
    return {opcode: histogram.count for opcode, histogram in by_opcode.items() if histogram.count}


def test_the_requests_of_a_chunk_are_counted_by_their_operation(client: Client) -> None:
    before = _counts(client)
    client.send(
        packets.get(1, "/a")
        + packets.get(2, "/missing")
        + packets.read(3, OpCode.EXISTS, "/a")
        + packets.get(4, "/a")
        + packets.ping()
        + packets.get(5, "/a")
        + packets.put(6, "/a", b"")
        + packets.get(7, "/a")  # waits for the write
        + packets.ping()
    )
    client.commit()
    assert len(client.received()) == 9
    after = _counts(client)
    assert {opcode: count - before.get(opcode, 0) for opcode, count in after.items()} == {
        OpCode.CREATE: 0,
        OpCode.CREATE_SESSION: 0,
        OpCode.GET_DATA: 5,
        OpCode.EXISTS: 1,
        OpCode.SET_DATA: 1,
        OpCode.PING: 2,
    }
    assert client.connection.latency.count == sum(after.values())
    assert client.connection.latency.last_xid == 7
    assert client.connection.latency.last[0] == OpCode.PING


def test_a_run_of_reads_is_counted_though_something_else_ends_it(client: Client) -> None:
    for end in (packets.ping(), packets.put(9, "/a", b"")):
        before = _counts(client).get(OpCode.GET_DATA, 0)
        client.send(packets.get(1, "/a") + packets.get(2, "/a") + end)
        client.commit()
        assert _counts(client)[OpCode.GET_DATA] - before == 2
    assert client.connection.latency.last[0] == OpCode.SET_DATA
    client.send(packets.get(3, "/a"))
    assert client.connection.latency.last[:2] == (OpCode.GET_DATA, client.host.zxid)
