"""The requests of one connection: which wait for which, and in which order they are answered."""

import struct
from collections.abc import Iterable

import pytest

from codec.constants import ErrorCode, EventType, OpCode
from codec.jute import INT, NULL, OPEN_TO_ALL, pack_string
from lab.client import packets
from lab.client.requests import Reply
from lab.fakes.connection import INCARNATION, SESSION, Client, established
from proxy.frontend.replies import LIMITS
from proxy.state.outcome import SessionChange

_NO_PATH = b"\xff" * 4
_FEW = LIMITS._replace(forced=50_000)


@pytest.fixture
def client() -> Client:
    """A client with a session and the nodes /a (data "old") and /b."""
    return established()


def _puts(xids: Iterable[int]) -> bytes:
    return b"".join(packets.put(xid, "/a", b"%d" % xid) for xid in xids)


def _gets(xids: Iterable[int], path: str = "/a") -> bytes:
    return b"".join(packets.get(xid, path) for xid in xids)


def _mixed(count: int, read: bytes | None = None) -> bytes:
    """A write, so many reads, another write with xid 9999."""
    return _puts([0]) + (read or packets.get(1, "/b")) * count + packets.put(9999, "/a", b"2")


def test_reads_of_a_chunk_are_answered_at_once_in_one_write(client: Client) -> None:
    before = len(client.transport.writes)
    client.send(_gets(range(50)))
    assert len(client.transport.writes) == before + 1
    assert [(reply.xid, reply.data) for reply in client.replies()] == [(xid, b"old") for xid in range(50)]


def test_a_read_between_two_writes_sees_the_first_alone(client: Client) -> None:
    client.send(_puts([1]) + packets.get(2, "/a", watch=True) + _puts([3]))
    assert len(client.host.pending) == 2  # the second write does not wait for the read
    client.commit()
    first, second, event, third = client.replies()
    assert (first.xid, second.xid, second.data) == (1, 2, b"1")
    assert first.zxid == second.zxid == third.zxid - 1
    assert (event.xid, event.event) == (-1, (EventType.NODE_DATA_CHANGED, "/a"))
    assert (third.xid, third.err) == (3, 0)


def test_a_write_that_is_cut_is_refused_without_the_log_and_one_with_nulls_by_it(client: Client) -> None:
    acl = INT.pack(1) + INT.pack(31) + pack_string("ip") + NULL
    before = client.host.machine.zxid
    client.send(packets.request(1, OpCode.CREATE, pack_string("/x") + NULL + acl + b"\0\0\0"))
    assert client.host.pending == []
    assert client.outcomes() == [(1, ErrorCode.MARSHALLING_ERROR)]
    client.send(
        packets.request(2, OpCode.CREATE, pack_string("/x") + NULL + acl + INT.pack(0)),
        packets.request(3, OpCode.SET_DATA, _NO_PATH + bytes(8)),
        packets.request(4, OpCode.DELETE, _NO_PATH + bytes(4)),
        packets.request(5, OpCode.DELETE, b"\0\0"),
    )
    client.commit()
    assert [(reply.xid, reply.zxid - before, reply.err) for reply in client.replies()] == [
        (2, 1, ErrorCode.MARSHALLING_ERROR),
        (3, 2, ErrorCode.BAD_ARGUMENTS),
        (4, 3, ErrorCode.MARSHALLING_ERROR),
        (5, 3, ErrorCode.MARSHALLING_ERROR),
    ]


@pytest.mark.parametrize("opcode", [OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.SET_WATCHES])
def test_a_malformed_read_is_refused_alone(client: Client, opcode: OpCode) -> None:
    client.send(packets.request(5, opcode, b"\0\0\0\x05/a"), packets.get(6, "/a"))
    assert client.outcomes() == [(5, ErrorCode.MARSHALLING_ERROR), (6, 0)]


@pytest.mark.parametrize("opcode", [77, OpCode.CREATE_SESSION, 0, -1])
@pytest.mark.parametrize("is_idle", [True, False])
def test_an_unknown_request_ends_the_connection_behind_what_came_before(
    client: Client, opcode: int, is_idle: bool
) -> None:
    """Also 0, which was taken for the opcode of the read before it."""
    if not is_idle:
        client.send(_puts([1]))
    client.send(packets.request(2, opcode) + _gets([3]) + _puts([4]))
    assert client.transport.is_closed() is is_idle
    client.commit()
    assert client.outcomes() == [(1, 0)] * (not is_idle) + [(2, ErrorCode.UNIMPLEMENTED)]
    assert client.transport.is_closed()
    client.lose()
    assert client.host.pending == []


def test_the_end_of_a_session(client: Client) -> None:
    """As in ZooKeeper, writes behind it spend a zxid each."""
    before = client.host.machine.zxid
    client.send(
        packets.create(1, "/e", flags=1) + packets.close(2) + packets.create(3, "/late") + packets.ping()
    )
    assert len(client.host.pending) == 3
    client.commit()
    assert client.outcomes() == [(1, 0), (2, 0)]
    assert client.transport.is_closed()
    assert client.host.changes[-1] == SessionChange(SESSION, INCARNATION, None)
    client.lose()
    assert not {"/e", "/late"} & client.host.machine.tree.nodes.keys()
    assert client.host.machine.zxid == before + 3


def test_a_session_that_could_not_be_ended_goes_on(client: Client) -> None:
    client.send(packets.close(1) + packets.get(2, "/a"))
    (request,) = client.host.pending
    client.host.outbox.queue.clear()
    request.applied(9, ErrorCode.SYSTEM_ERROR, b"")
    client.loop.run()
    assert client.outcomes() == [(1, ErrorCode.SYSTEM_ERROR), (2, 0)]
    assert not client.transport.is_closed()


@pytest.mark.parametrize(
    ("code", "is_told"),
    [(ErrorCode.SESSION_EXPIRED, True), (ErrorCode.SESSION_MOVED, False), (ErrorCode.CONNECTION_LOSS, False)],
)
def test_a_session_that_is_lost_ends_the_connection(client: Client, code: ErrorCode, is_told: bool) -> None:
    """As in ZooKeeper, which closes the connection of a session that has moved, and says nothing."""
    client.send(_puts([1]) + _gets([2]) + _puts([3]))
    first, second = client.host.pending
    first.applied(77, code, b"")
    second.applied(78, code, b"")
    client.loop.run()
    assert [(reply.xid, reply.zxid, reply.err) for reply in client.replies()] == [(1, 77, code)] * is_told
    assert client.transport.is_closed()


def test_a_lost_connection_leaves_its_writes_and_nothing_else(client: Client) -> None:
    client.send(_puts([1]) + packets.get(2, "/a", watch=True) + packets.create(3, "/a/s", flags=2))
    client.lose()
    while client.host.pending:
        client.commit(1)
    assert client.host.machine.tree.nodes["/a"].children == {"/a/s0000000000"}
    assert client.host.watches.total() == 0
    assert client.replies() == []
    assert client.host.connections == 0
    assert client.session.connection is None


def test_the_writes_of_a_connection_that_is_closed_go_on_before_those_of_the_next(client: Client) -> None:
    client.send(_puts([1]) + packets.auth("digest", b"a:b") + _puts([3]))
    assert len(client.host.pending) == 1
    client.connection.close()  # the next connection's ATTACH comes right behind
    assert len(client.host.pending) == 2
    client.lose()
    client.commit()
    assert client.host.machine.tree.nodes["/a"].data == b"3"
    assert client.host.pending == []


def test_heavy_reads_of_a_client_take_turns_with_other_clients() -> None:
    client = established(limits=LIMITS._replace(stretch=0))
    number = (packets.request(xid, OpCode.GET_ALL_CHILDREN_NUMBER, pack_string("/")) for xid in range(3))
    client.connection.data_received(b"".join((*number, _gets([3]), _puts([4]), _gets([5]))))
    for waiting in (5, 4, 2):
        assert client.connection.outstanding == waiting
        client.loop.turn()
    client.loop.run()
    client.commit()
    assert client.xids() == list(range(6))


def test_sasl_gets_no_token_and_the_connection_lives_on(client: Client) -> None:
    client.send(_puts([1]) + packets.sasl(b"token") + _gets([2]))
    client.commit()
    first, token, last = client.replies()
    assert (first.xid, last.xid, last.data) == (1, 2, b"1")
    assert token == Reply(7, 0, 0, b"\xff\xff\xff\xff")


def test_an_error_may_have_a_body(client: Client) -> None:
    null_path = struct.pack(">i?i", OpCode.GET_DATA, False, -1) + b"\xff\xff\xff\xff\0"
    end = struct.pack(">i?i", -1, True, -1)
    client.send(packets.request(1, OpCode.MULTI_READ, null_path + end))
    (reply,) = client.replies()
    assert (reply.err, reply.body) == (ErrorCode.MARSHALLING_ERROR, end)


def test_the_requests_of_a_chunk_are_counted_by_their_operation(client: Client) -> None:
    histograms = client.host.latency.by_opcode
    before = {opcode: histogram.count for opcode, histogram in histograms.items()}
    exists = packets.read(3, OpCode.EXISTS, "/a")
    client.send(
        _gets([1])
        + packets.get(2, "/missing")
        + exists
        + _gets([4])
        + packets.ping()
        + _gets([5])
        # The last read waits for the write.
        + _puts([6])
        + _gets([7])
        + packets.ping()
    )
    client.commit()
    assert len(client.received()) == 9
    counted = {opcode: histogram.count - before[opcode] for opcode, histogram in histograms.items()}
    assert {opcode: count for opcode, count in counted.items() if count} == {
        OpCode.GET_DATA: 5,
        OpCode.EXISTS: 1,
        OpCode.SET_DATA: 1,
        OpCode.PING: 2,
    }
    latency = client.connection.latency
    assert latency.count == sum(histogram.count for histogram in histograms.values())
    assert (latency.last_xid, latency.last[0]) == (7, OpCode.PING)


def test_all_writes_of_a_mixed_load_go_out_together(client: Client) -> None:
    """As a ClickHouse server sends it: reads and multis of many threads on one session."""
    chunk = []
    for xid in range(0, 32, 2):
        chunk += [packets.create(xid, "/a/s", flags=2), packets.read(xid + 1, OpCode.GET_CHILDREN2, "/a")]
    client.send(b"".join(chunk))
    assert len(client.host.pending) == 16
    client.commit()
    replies = client.replies()
    assert [reply.xid for reply in replies] == list(range(32))
    for number, reply in enumerate(replies[1::2], 1):
        assert reply.body.startswith(struct.pack(">i", number))  # sees the creates before it, and no more
    assert [reply.zxid for reply in replies[::2]] == [reply.zxid for reply in replies[1::2]]
    assert len({reply.zxid for reply in replies}) == 16


_GET_ACL = packets.request(1, OpCode.GET_ACL, pack_string("/b"))


@pytest.mark.parametrize(
    ("count", "read", "is_held"),
    [(128, None, False), (129, None, True), (4, _GET_ACL, False), (5, _GET_ACL, True)],
)
def test_a_write_behind_many_reads_waits_for_them(
    client: Client, count: int, read: bytes | None, is_held: bool
) -> None:
    """Else all of them would have to be answered in one go, however long that takes and whoever waits."""
    client.send(_mixed(count, read))
    assert len(client.host.pending) == (1 if is_held else 2)
    client.commit()
    client.commit()
    assert client.xids() == [0] + [1] * count + [9999]


def test_operators_see_what_waits_for_what(client: Client) -> None:
    connection = client.connection
    assert connection.waiting(5) == []
    client.send(_puts([1]) + packets.get(2, "/b") + packets.ping() + packets.put(4, "/b", b"2"))
    waiting = connection.waiting(5)
    assert [(each.opcode, each.path, each.in_log) for each in waiting[:2]] == [
        (OpCode.SET_DATA, "/a", True),
        (OpCode.GET_DATA, None, False),
    ]
    assert (len(waiting), len(connection.waiting(1))) == (4, 1)
    client.commit()
    assert connection.waiting(5) == []


# -- clients that are not read from ------------------------------------------------------------------------


def test_a_client_with_many_requests_waiting_is_not_read_from(client: Client) -> None:
    client.send(_puts(range(1500)))
    for count, is_read in ((900, False), (200, True), (400, True)):
        assert client.transport.is_read() is (count == 400)
        client.commit(count)
        assert client.transport.is_read() is is_read
    assert client.xids() == list(range(1500))


@pytest.mark.parametrize("is_drained_first", [True, False])
def test_a_client_is_read_from_once_it_reads_and_its_queue_has_drained(
    client: Client, is_drained_first: bool
) -> None:
    client.connection.pause_writing()
    client.send(_puts(range(1000)))
    steps = [client.commit, client.connection.resume_writing]
    for step in steps if is_drained_first else reversed(steps):
        assert not client.transport.is_read()
        step()
        client.loop.run()
    assert client.transport.is_read()


@pytest.mark.parametrize(("requests", "size"), [(100_000, 0), (0, 1 << 28)])
def test_when_much_waits_in_all_who_waits_is_not_read_from(client: Client, requests: int, size: int) -> None:
    load = client.host.load
    load.requests += requests  # of other connections
    load.size += size
    client.send(packets.get(1, "/a"))
    assert client.transport.is_read()  # who waits for nothing may go on
    client.send(_puts([2]), _puts([3]), _puts([4]))
    assert not client.transport.is_read()
    client.commit(1)
    assert not client.transport.is_read()
    load.requests -= requests  # now the next answer wakes it
    load.size -= size
    client.commit(1)
    assert client.transport.is_read()
    client.commit()
    assert client.xids() == [1, 2, 3, 4]


def test_the_load_is_what_waits(client: Client) -> None:
    load = client.host.load
    request = _puts([1])
    client.send(request + packets.get(2, "/a"), request + packets.framed(b"\0\0\0\4\0\0\0\5"))
    assert load.requests == 4
    assert load.size > len(request)
    client.connection.pause_writing()  # a client that does not take its answers holds nobody up
    assert load.requests == 0
    client.connection.resume_writing()
    client.loop.run()
    assert load.requests == 4
    client.commit()
    client.loop.run()
    client.commit()
    assert (load.requests, load.size) == (0, 0)


@pytest.mark.parametrize("how", ["lost", "closed", "auth failed"])
def test_a_connection_that_ends_is_no_load_any_more(client: Client, how: str) -> None:
    client.send(_puts([1]) + _gets([2]))
    if how == "closed":
        client.connection.close()
    if how == "auth failed":
        client.send(packets.auth("nonsense", b""), _gets([3]))
        client.commit()
    client.lose()
    assert (client.host.load.requests, client.host.load.size) == (0, 0)


# -- clients that do not read ------------------------------------------------------------------------------


def test_a_client_that_asks_for_much_and_does_not_read_is_not_answered() -> None:
    client = established(large=10_000)
    client.transport.room = 50_000
    client.send(_gets(range(100), "/b") + _puts([100]))
    assert sum(map(len, client.transport.writes)) < 80_000
    answered = len(client.replies())
    client.commit()
    assert client.replies() == []
    client.transport.room = 10_000_000
    client.connection.resume_writing()
    client.loop.run()
    client.commit()
    assert client.xids() == list(range(answered, 101))


def test_a_ping_behind_a_write_waits_for_a_client_that_does_not_read(client: Client) -> None:
    client.send(_puts([1]) + packets.ping())
    client.connection.pause_writing()
    client.commit()
    assert client.xids() == [1]
    client.connection.resume_writing()
    client.loop.run()
    assert client.xids() == [-2]


def test_too_much_for_a_client_that_does_not_read_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    client = established(_FEW, large=10_000)
    client.send(_mixed(4))
    client.commit()
    assert len(client.replies()) == 6
    client.connection.pause_writing()
    client.connection.resume_writing()
    client.send(_mixed(6) + packets.auth("digest", b"a:b") + packets.put(5, "/a", b"last"))
    client.connection.pause_writing()
    client.commit()
    client.commit()
    assert client.transport.is_closed()
    assert "more than 50000 bytes of replies and events wait" in caplog.text
    assert client.host.machine.tree.nodes["/a"].data == b"last"  # writes that were taken go on
    client.lose()
    assert (client.host.load.requests, client.host.load.size) == (0, 0)


def test_so_does_too_much_that_single_reads_between_writes_have_asked_for() -> None:
    client = established(_FEW, large=10_000)
    client.send(b"".join(_puts([xid]) + packets.get(xid, "/b") for xid in range(20)))
    client.connection.pause_writing()
    client.commit()
    assert client.transport.is_closed()
    assert len(client.replies()) < 15
    assert client.host.machine.tree.nodes["/a"].data == b"19"


@pytest.mark.parametrize("reads", [True, False])
def test_watch_events_for_a_client_that_does_not_read_are_bounded(reads: bool) -> None:
    client = established(limits=LIMITS._replace(forced=1_000))
    if not reads:
        client.connection.pause_writing()
    for number in range(40):
        client.connection.notify(EventType.NODE_CREATED, f"/{number:050d}", number, OPEN_TO_ALL)
    client.loop.run()
    assert client.transport.is_closed() is not reads
    assert len(client.replies()) == (40 if reads else 12)


def test_a_client_that_reads_may_always_have_writes_and_large_reads_on_their_way() -> None:
    client = established(_FEW, large=10_000)
    client.send(_puts([1]))
    for _ in range(20):
        client.send(packets.get(2, "/b") + _puts([1]))  # the queue is never empty
        client.commit(1)
        assert client.xids() == [1, 2]
    assert not client.transport.is_closed()


def test_large_replies_are_sent_before_more_of_them_are_made() -> None:
    client = established(large=30_000)
    client.connection.data_received(_gets(range(10), "/b"))
    assert client.connection.outstanding == 7  # three are more than 64 KiB
    client.loop.turn()
    assert client.connection.outstanding == 4
    client.loop.run()
    assert client.xids() == list(range(10))
    assert max(map(len, client.transport.writes)) < 100_000
