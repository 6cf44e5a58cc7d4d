"""One connection: the handshake, the session, how it ends."""

import asyncio
import logging
import math
import struct
from functools import partial
from typing import cast
from unittest import mock

import pytest

from codec.client import PING, auth, connect, create, framed, get, packet, sasl, set_acl, set_data
from codec.constants import ErrorCode, EventType, OpCode, Xid
from codec.jute import Acl, pack_buffer
from lab.client.replies import reply_of
from lab.fakes.connection import (
    MAX_FRAME,
    PASSWORD,
    Client,
    FakeHost,
    FakeLoop,
    FakeTransport,
    connected,
    established,
)
from lab.servers.digest_md5 import respond
from proxy.frontend import opening, turns
from proxy.frontend.connection import Connection
from proxy.frontend.limits import LIMITS, EarlyBytes
from proxy.frontend.opening import SESSIONLESS_TIMEOUT
from proxy.frontend.transport import Outbound
from proxy.log.slices import Slices
from proxy.sasl.digest_md5 import secret
from proxy.sasl.login import Login
from proxy.sasl.options import SaslSettings
from proxy.state.auth.scheme import Identity
from proxy.state.notifications import Notifications
from proxy.state.rights import OPEN


@pytest.fixture
def client() -> Client:
    """A client with a session and the nodes /a (data "old") and /b."""
    return established()


def _connection(host: FakeHost) -> Connection:
    """One that has no transport yet."""
    return Connection(host.services(), cast(asyncio.AbstractEventLoop, host.loop))


@pytest.mark.parametrize("is_lost", [True, False])
def test_what_a_client_sends_before_it_has_a_session_is_counted(is_lost: bool) -> None:
    client = Client()
    early = client.connection.services.early
    client.transport.protocol = client.connection
    client.send(connect(4000)[:20])
    assert early.in_all == 20
    client.send(connect(4000)[20:])
    client.send(PING)
    assert early.in_all == len(connect(4000)) + len(PING)
    if is_lost:
        client.lose()
    else:
        client.establish()
        client.send(PING)
    assert early.in_all == 0


def test_all_addresses_of_a_host_count_together() -> None:
    early = EarlyBytes()
    assert early.keep("2001:db8:0:0:0:0:0:1", 1 << 20)
    assert not early.keep("2001:db8:0:0:0:0:0:2", 1)
    assert early.keep("2001:db8:0:1:0:0:0:2", 1)
    early.release("2001:db8:0:0:0:0:0:2", 1)
    early.release("2001:db8:0:0:0:0:0:1", 1 << 20)
    assert early.keep("2001:db8:0:0:0:0:0:3", 1 << 20)


def test_the_bytes_of_clients_without_a_session_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    first = Client()
    first.send(connect(4000))
    services = first.connection.services
    assert services.early.keep("10.0.0.7", (1 << 20) - len(connect(4000)))
    late = Client(host=first.host)
    late.connection.services = services
    late.send(b"\0")
    assert late.transport.closed
    assert services.counters.rejected == 1
    assert "clients without a session have sent too much: 1048577 bytes in all, 1 of them" in caplog.text
    late.lose()
    assert not first.transport.closed


@pytest.mark.parametrize("is_served", [True, False])
def test_no_timer_keeps_a_connection_that_is_gone(is_served: bool) -> None:
    client = Client()
    client.send(connect(4000))
    client.connection.limit_wait(15.0)
    if is_served:
        client.establish()
    else:
        client.lose()
    assert client.loop.timers
    assert all(timer.cancelled for timer in client.loop.timers)


def test_health_checks_and_port_scanners_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    host = FakeHost(FakeLoop())
    for sent in (b"", b"", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", pack_buffer(b"what")):
        client = Client(host=host)
        client.send(sent)
        if not sent:
            client.loop.wait(SESSIONLESS_TIMEOUT - 1)
            assert not client.transport.is_closed()
            client.loop.wait(1)
        assert client.transport.is_closed()
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    for record, why in zip(caplog.records, ("frame length", "connect request"), strict=True):
        assert record.getMessage().startswith(f"closing 10.0.0.7: {why} ")


@pytest.mark.parametrize("is_full", [True, False])
def test_one_connection_too_many_or_gone_before_it_is_looked_at_is_closed(is_full: bool) -> None:
    host = FakeHost(FakeLoop())
    host.connections.limits.most = int(not is_full)
    connection, transport = _connection(host), FakeTransport(("10.0.0.7", 4711) if is_full else None)
    connection.connection_made(transport)
    host.loop.run()
    assert transport.is_closed()
    connection.data_received(connect(4000))
    assert host.attached == []
    connection.connection_lost(None)
    assert len(host.connections) == 0


@pytest.mark.parametrize("peer", [("10.0.0.7", 4711), None])
def test_a_client_that_the_listener_knows_is_not_looked_up(peer: tuple[str, int] | None) -> None:
    """Else it gave back the place of another: of a load balancer, or of none if the client is gone."""
    connection = _connection(FakeHost(FakeLoop()))
    connection.identity.address, connection.identity.port = ("192.0.2.7", 52000)
    connection.connection_made(FakeTransport(peer))
    assert (connection.identity.address, connection.identity.port) == ("192.0.2.7", 52000)
    assert connection.identities == (Identity("ip", "192.0.2.7"),)


def test_a_client_that_sends_single_bytes_before_its_session_costs_little() -> None:
    client = Client()
    client.send(connect(4000))
    request = packet(1, get("/")) * 10
    sent = 0
    while client.transport.is_read():
        client.send(request[sent : sent + 1])
        sent += 1
    assert sent < 200
    client.establish()
    client.send(request[sent:])
    client.loop.run()
    assert len([*map(reply_of, client.received()[1:])]) == 10


@pytest.mark.parametrize(
    "bad",
    [
        pack_buffer(b"\0\0\0\1\0\0\0") + packet(3, get("/a")),
        *(struct.pack(">i", length) for length in (-1, MAX_FRAME + 1, -0x80000000)),
        b"ruok",  # which is a word only before the handshake
    ],
)
def test_what_is_no_packet_ends_the_connection_behind_what_came_before(client: Client, bad: bytes) -> None:
    empty = len(packet(2, set_data("/a", b""))) - 4
    client.send(packet(1, get("/a")) + packet(2, set_data("/a", bytes(MAX_FRAME - empty))) + bad)
    assert client.xids() == [1]
    assert client.transport.is_closed()
    client.commit()
    assert client.received() == []  # nothing is written behind the end: found by fuzzing
    assert client.host.machine.tree.nodes["/a"].data == bytes(MAX_FRAME - empty)


def test_a_long_answer_to_a_word_is_made_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "Slices", partial(Slices, seconds=0))
    client = Client()
    client.connection.data_received(b"dump")
    turns = 0
    while not client.transport.is_closed():
        assert len(client.transport.writes) == turns + 1, "what is made is sent"
        client.loop.turn()
        turns += 1
    assert turns >= 3
    assert b"".join(client.transport.writes) == "".join(f"line {number}\n" for number in range(2000)).encode()
    gone = Client()
    gone.connection.data_received(b"dump")
    gone.lose()
    gone.loop.turn()
    assert len(gone.transport.writes) == 1


def test_a_word_has_come_in_time_however_long_its_answer_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "Slices", partial(Slices, seconds=0))
    client = Client()
    client.connection.data_received(b"dump")
    assert not client.transport.is_closed()
    client.loop.wait(opening.SESSIONLESS_TIMEOUT)
    assert b"".join(client.transport.writes).endswith(b"line 1999\n")


def test_few_long_lines_are_made_in_slices() -> None:
    answer = opening.WordAnswer(("w" * 100_000 for _ in range(100)), Slices(seconds=0))
    made: list[int] = []
    while not answer.is_over:
        made.append(sum(map(len, answer.make())))
    assert sum(made) == 10_000_000
    assert max(made) < 3_000_000


def test_long_answers_to_words_are_made_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice of each in a turn would hold the loop for as long as there are connections."""
    monkeypatch.setattr(opening, "Slices", partial(Slices, seconds=0))
    first = Client()
    others = [Client(host=first.host) for _ in range(3)]
    for client in (first, *others):
        client.connection.data_received(b"dump")
    others[1].connection.connection_lost(None)
    done = []
    for _ in range(1000):
        first.loop.turn()
        done.append(sum(client.transport.is_closed() for client in (first, others[0], others[2])))
        if done[-1] == 3:
            break
    assert sorted(set(done)) == [0, 1, 2, 3]
    assert not first.host.long_words._waiting


def test_a_lost_connection_leaves_a_newer_one_its_session(client: Client) -> None:
    newer = Client()
    newer.send(connect(4000))
    newer.connection.established(client.session, PASSWORD)
    client.lose()
    assert client.session.connection is newer.connection


def test_events_that_are_not_sent_are_not_counted(client: Client) -> None:
    event = Notifications(EventType.NODE_DELETED, "/b", 9, OPEN)
    for _ in range(2):
        client.connection.notify(event)
        client.connection.close()
    assert client.connection.services.counters.notifications == 1


def test_a_client_is_not_silent_while_its_requests_wait_unless_it_takes_no_replies(client: Client) -> None:
    assert client.connection.measure_silence() == math.inf
    client.send(*(packet(xid, set_data("/a", b"")) for xid in range(1000)))
    assert not client.transport.is_read()
    assert client.connection.measure_silence() == 0.0
    with mock.patch.object(Outbound, "measure_silence", return_value=7.0):
        client.connection.pause_writing()
        assert client.connection.measure_silence() == 7.0
        client.host.connections.freeze()
        assert client.connection.measure_silence() == 0.0


def test_what_was_not_read_counts_when_it_is_read_again(client: Client) -> None:
    """It is read in a later turn, maybe after the next look at the sessions that are due."""
    client.connection.pause_writing()
    client.loop.now += 3.9
    client.connection.resume_writing()
    client.loop.run()
    assert client.transport.is_read()
    assert client.session.heard == client.loop.now


@pytest.mark.parametrize("is_lost", [True, False])
def test_what_was_not_read_counts_when_the_connection_ends(client: Client, is_lost: bool) -> None:
    """A client that reconnects has its whole timeout since it was heard, also if only the kernel heard it."""
    client.connection.pause_writing()
    client.loop.now += 1.9
    with mock.patch.object(Outbound, "measure_silence", return_value=0.5):
        if is_lost:
            client.lose()
        else:
            client.connection.close()
    assert client.session.heard == client.loop.now - (0.0 if is_lost else 0.5)


def test_whatever_a_client_sends_counts_as_a_sign_of_life(client: Client) -> None:
    client.loop.now = 200.0
    client.send(PING)
    assert client.session.heard == 200.0
    assert client.connection.inbound.count == 4
    assert client.connection.outbound.sent == 4


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        (framed(7, 99), "closing 10.0.0.7: operation 99 is not offered"),
        (packet(7, sasl(None)), "closing 10.0.0.7: a SASL packet without a token"),
        (pack_buffer(packet(7, sasl(b"cut"))[4:-1]), "closing 10.0.0.7: a SASL packet without a token"),
        (framed(-4, OpCode.AUTH, b"\0"), "authentication of 10.0.0.7:4711 refused, scheme ''"),
    ],
)
def test_a_request_that_ends_the_connection_is_logged(
    request_: bytes, line: str, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client.send(request_, packet(8, get("/a")))
    assert 8 not in client.xids()
    assert client.transport.is_closed()
    assert caplog.text.count(line) == 1


# -- users -------------------------------------------------------------------------------------------------


def test_a_failed_sasl_ends_the_connection_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    host = FakeHost(FakeLoop())
    host.login = Login(SaslSettings({"bob": secret("bob", "word")}))
    client = connected(host)
    client.send(packet(7, sasl(b"")))
    (challenge,) = client.replies()
    client.send(packet(7, sasl(respond(challenge.body[4:], "bob", "wrong"))) + packet(1, set_data("/a", b"")))
    (reply,) = client.replies()
    assert (reply.err, reply.body) == (ErrorCode.AUTH_FAILED, b"\xff\xff\xff\xff")
    assert client.transport.is_closed()
    assert client.host.counters.auth_failed == 1
    assert "scheme 'sasl', user 'bob': the password is wrong" in caplog.text
    assert client.host.pending == []


def test_identities_are_limited_since_each_write_carries_them_all(client: Client) -> None:
    name = b"u" * 900 + b"%d:p"
    client.send(*(packet(Xid.AUTH, auth("digest", name % (number // 2))) for number in range(16)))
    assert [reply.err for reply in client.replies()] == [0] * 16  # each of them twice, which adds nothing
    client.send(packet(Xid.AUTH, auth("digest", name % 8)))
    assert [reply.err for reply in client.replies()] == [ErrorCode.AUTH_FAILED]
    assert client.transport.is_closed()


def test_a_client_is_answered_in_another_turn_if_others_have_used_up_this_one(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = connected(client.host)
    client.loop.run()
    monkeypatch.setattr(turns, "PERIOD", 0)
    loop = cast(asyncio.AbstractEventLoop, client.loop)
    monkeypatch.setattr(client.host.state_gate, "_turn", turns.Turn(loop, lambda: None))
    client.connection.data_received(packet(1, get("/a")))
    other.connection.data_received(packet(1, get("/a")))
    assert [len(each.replies()) for each in (client, other)] == [1, 0]
    client.loop.run()
    assert [len(each.replies()) for each in (client, other)] == [0, 1]


def test_what_auth_stands_for_in_all_acls_of_a_write_is_bounded() -> None:
    """Else 1 MiB of a client with few long identities would be an ACL of 440 MB at every proxy."""
    client = established(limits=LIMITS._replace(expanded=500))
    user = Identity("digest", "u" * 244)
    client.connection.identity.identities = (Identity("ip", "127.0.0.1"), user)
    of_one, of_two, of_three = (
        packet(count, set_acl("/", [Acl(perms, "auth", "") for perms in range(31, 31 - count, -1)]))
        for count in (1, 2, 3)
    )
    client.send(of_one + of_two + of_three)
    client.commit()
    assert client.outcomes() == [(1, 0), (2, 0), (3, ErrorCode.INVALID_ACL)]
    # A write with more bytes may get more.
    data = packet(4, create("/new", bytes(400), acl=[Acl(perms, "auth", "") for perms in range(16, 24)]))
    too_many = packet(
        5, create("/other", bytes(400), acl=[Acl(perms, "auth", "") for perms in range(16, 26)])
    )
    client.send(data + too_many)
    client.commit()
    assert client.outcomes() == [(4, 0), (5, ErrorCode.INVALID_ACL)]
    # The identities of nearly all clients are short: no write is too long for them.
    client = established(limits=LIMITS._replace(expanded=500))
    client.connection.identity.identities = (Identity("digest", "someone:" + "h" * 28),)
    client.send(packet(6, set_acl("/", [Acl(perms, "auth", "") for perms in range(1, 40)])))
    client.commit()
    assert client.outcomes() == [(6, 0)]


@pytest.mark.parametrize("where", ["answer_write", "take_ready", "add_events", "advance"])
def test_an_exception_ends_only_its_connection(
    client: Client, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its caller works for all clients: the applier, the gate, the queue of those with replies."""
    other = connected(client.host)
    with mock.patch.object(client.connection.order, where, side_effect=KeyError("a defect")):
        if where == "advance":
            client.connection.take_turn()
        elif where == "take_ready":
            client.connection.flush()
        elif where == "add_events":
            client.connection.notify(Notifications(EventType.NODE_DELETED, "/a", 1, OPEN))
        else:
            client.connection.take_outcome(mock.Mock(), 1, 0, b"")
    assert client.transport.closed
    assert "a defect" in caplog.text
    assert not other.transport.closed


def test_a_lack_of_memory_goes_to_the_loop(client: Client) -> None:
    with (
        mock.patch.object(client.connection.order, "advance", side_effect=MemoryError),
        mock.patch("asyncio.get_running_loop") as loop,
    ):
        client.connection.take_turn()
    (context,) = loop().call_exception_handler.call_args.args
    assert isinstance(context["exception"], MemoryError)
