"""The form in which connections move, and connections that are made again from it."""

import json
from collections.abc import Callable
from itertools import zip_longest
from typing import TypeAlias, cast
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.client import auth, connect, framed, get, packet, sasl, set_data
from codec.constants import OpCode, Xid
from lab.fakes.connection import Client, FakeHost, FakeLoop, connected, established
from lab.servers.digest_md5 import respond
from proxy.admin.clients import Clients
from proxy.frontend.connection import Connection
from proxy.frontend.opening import SESSIONLESS_TIMEOUT
from proxy.frontend.sampling import Sampling
from proxy.frontend.sessions import ServedSession
from proxy.frontend.transport import Outbound
from proxy.handover.moved import Change, Moved, apply_part, decode, encode, in_parts, mark, pack, unpack
from proxy.options.top import TopOptions
from proxy.sasl.digest_md5 import secret
from proxy.sasl.login import Login
from proxy.sasl.options import SaslSettings
from proxy.state.pause import NO_PAUSE
from proxy.state.watches import Paths, WatchTable

_TEXTS = st.sets(st.text(max_size=5), max_size=3)
_NUMBERS = st.integers(0, 1 << 62)
_MOVED = st.builds(
    Moved,
    _NUMBERS,
    st.lists(st.tuples(st.text(max_size=5), st.text(max_size=9)), max_size=3),
    st.integers(0, 3),
    st.booleans(),
    st.floats(0, 1e10),
    _NUMBERS,
    _NUMBERS,
    st.binary(max_size=50),
)
_WATCHES = st.tuples(_TEXTS, _TEXTS, _TEXTS, _TEXTS)
_Sets: TypeAlias = list[tuple[set[str], ...]]


def _passed(moved: Moved) -> Moved:
    """As it arrives at the other process."""
    return decode(json.loads(json.dumps(encode(moved))))


def _sent(*changes: Change) -> list[str]:
    """The messages."""
    return [json.dumps(part) for part in in_parts(changes)]


_NOTHING: list[set[str]] = [set(), set(), set(), set()]


def _all_of(table: WatchTable, connection: Connection) -> Paths:
    got, _ = table.take_changes(connection)
    return got


def _three() -> list[Connection]:
    return [established().connection for _ in range(3)]


@given(_MOVED)
def test_round_trip(moved: Moved) -> None:
    assert _passed(moved) == moved


@given(st.lists(_WATCHES, max_size=3), st.lists(_WATCHES, max_size=3))
def test_watches_arrive_as_what_was_added_and_removed(added: _Sets, removed: _Sets) -> None:
    connections, table = _three(), WatchTable()
    changes = [Change(number, True, watches) for number, watches in enumerate(added)]
    changes += [Change(number, False, watches) for number, watches in enumerate(removed)]
    for message in _sent(*changes):
        apply_part(json.loads(message), connections, table)
    for connection, has, had in zip_longest(connections, added, removed, fillvalue=_NOTHING):
        expected = [mine - others for mine, others in zip(has, had, strict=True)]
        assert _all_of(table, cast(Connection, connection)) == expected


def test_watches_are_sent_in_small_messages_together() -> None:
    def paths(some: range) -> Paths:
        return [{f"/{number}".ljust(200, "x") for number in some}, set(), set(), {"/"}]

    many, other = paths(range(5000)), paths(range(3))
    connections, table = _three(), WatchTable()
    messages = _sent(Change(0, True, many), Change(1, True, other))
    for message in messages:
        apply_part(json.loads(message), connections, table)
    assert [_all_of(table, each) for each in connections] == [many, other, _NOTHING]
    assert 4 < len(messages) < 10
    assert max(map(len, messages)) < 300_000


@pytest.mark.parametrize("change", [[5, True, [[]] * 4], [0, True, [[]]], [0, True, [[[]]] * 4], [0]])
def test_another_change_of_watches_is_refused(change: list[object]) -> None:
    with pytest.raises(ValueError, match=r"not a change|zip|values to unpack"):
        apply_part([change], _three(), WatchTable())


@pytest.mark.parametrize(
    "change", [lambda fields: fields[:-1], lambda fields: [*fields, 1], lambda _: {"a": 1}]
)
def test_another_document_is_refused(change: object) -> None:
    client = established()
    fields = list(encode(pack(client.connection)))
    with pytest.raises(ValueError, match=r"not a connection|values to unpack"):
        decode(change(fields))  # type: ignore[operator]


_PROOF = packet(Xid.AUTH, auth("digest", b"user:word"))


def _reset(client: Client) -> Client:
    Clients(MagicMock(connections=client.host.connections)).reset_connections(NO_PAUSE)
    return client


def _reset_and_prove(client: Client) -> None:
    connection = client.connection
    sent = connection.outbound.sent
    _reset(client)
    while connection.outbound.sent < sent:
        client.send(_PROOF)


@pytest.mark.parametrize(
    "change",
    [lambda client: client.send(_PROOF), lambda client: client.send(_PROOF[:9]), _reset_and_prove],
    ids=["a packet", "a piece of a packet", "as many packets since a reset"],
)
def test_the_mark_changes_with_what_is_packed(change: Callable[[Client], None]) -> None:
    """Within one moment: uvloop's clock has whole milliseconds."""
    client = established()
    client.send(packet(2, get("/a")), packet(3, get("/a")))
    before, packed = mark(client.connection), pack(client.connection)
    assert before is not None
    change(client)
    assert pack(client.connection) != packed
    assert mark(client.connection) != before


def _moved(client: Client) -> Client:
    """The same client at another process, with the same tree."""
    packed = _passed(pack(client.connection))
    watches = _sent(Change(0, True, _all_of(client.host.watches, client.connection)))
    host = FakeHost(client.loop)
    host.machine = client.host.machine
    successor = Client(host=client.host)
    client.lose()
    successor.host.connections.freeze()
    unpack(successor.connection, packed)
    session = ServedSession(packed.session_id, 4000, successor.loop.now)
    successor.connection.continued(session, packed.unhandled)
    for message in watches:
        apply_part(json.loads(message), [successor.connection], successor.host.watches)
    successor.host.connections.thaw()
    successor.loop.run()
    return successor


def test_a_connection_continues_with_its_bytes_watches_and_identities() -> None:
    client = established()
    client.send(_PROOF)
    client.send(framed(2, OpCode.EXISTS, b"\0\0\0\2/a\1"), packet(3, get("/a"))[:9])
    client.host.connections.freeze()
    assert client.connection.is_quiet
    assert client.connection.can_move is False  # its transport has no socket
    successor = _moved(client)
    assert successor.connection.identities == client.connection.identities
    successor.send(packet(3, get("/a"))[9:], packet(4, set_data("/a", b"new")))
    successor.commit()
    assert successor.xids() == [3, -1, 4]


class _EveryTenth(Sampling):
    def skip(self) -> int:
        return 9


@pytest.mark.parametrize(("change", "sampled"), [(_moved, 4), (_reset, 5)])
def test_another_process_and_a_reset_of_the_counts_make_no_request_more_likely_to_be_sampled(
    change: Callable[[Client], Client], sampled: int
) -> None:
    """The first one of each moved connection was sampled, and after a reset as many were not as had come."""
    host = FakeHost(FakeLoop())
    options = TopOptions(sample=1, depth=3, window=60, log=0, rows=20)
    host.sampling = _EveryTenth(options, lambda bits: 0, lambda: 0.0)
    client = connected(host)
    client.send(*(packet(2, get(f"/before/{number}")) for number in range(25)))
    client = change(client)
    client.send(*(packet(2, get(f"/after/{number}")) for number in range(25)))
    assert len(host.sampling.paths()) == sampled


def test_a_client_is_not_silent_while_nothing_is_read_from_it() -> None:
    """It may have sent something: a new process took over after 2.9 s, and ended its session at once."""
    client = established()
    client.host.connections.freeze()
    client.loop.now += 3.9
    assert client.connection.measure_silence() == 0.0
    successor = _moved(client)
    assert successor.connection.session is not None
    assert not successor.connection.session.check_due(successor.loop.now + 3.9)
    again = established()
    again.host.connections.freeze()
    again.loop.now += 3.9
    again.host.connections.thaw()
    again.loop.run()
    assert again.connection.session is not None
    assert not again.connection.session.check_due(again.loop.now + 3.9)


def test_a_connection_moves_before_its_connect_request_and_while_it_has_a_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client()
    assert not client.connection.can_move, "its transport has no socket"
    monkeypatch.setattr(Outbound, "fd", 3)
    moves = [client.connection.can_move]
    client.send(connect(4000))
    moves.append(client.connection.can_move)
    client.establish()
    moves.append(client.connection.can_move)
    client.connection.close()
    moves.append(client.connection.can_move)
    assert moves == [True, False, True, False]


def test_a_connection_whose_first_requests_are_not_taken_does_not_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They came with the connect request, and were lost: the client got the answer to a later one."""
    monkeypatch.setattr(Outbound, "fd", 3)
    client = Client()
    client.send(connect(4000) + packet(1, get("/a")))
    client.host.connections.freeze()
    client.establish()
    client.loop.run()
    assert not client.connection.can_move
    client.host.connections.thaw()
    client.loop.run()
    assert client.connection.can_move


def test_a_connection_in_the_midst_of_an_authentication_does_not_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Outbound, "fd", 3)
    host = FakeHost(FakeLoop())
    host.login = Login(SaslSettings({"bob": secret("bob", "word")}))
    client = connected(host)
    client.send(packet(7, sasl(b"")))
    assert not client.connection.can_move
    client.send(packet(7, sasl(respond(client.replies()[0].body[4:], "bob", "word"))))
    assert client.connection.can_move


def test_a_connection_that_comes_meanwhile_is_closed_if_it_never_asks_for_a_session() -> None:
    host = FakeHost(FakeLoop())
    host.connections.are_frozen = True
    client = Client(host=host)
    assert client.connection.facts().due == client.loop.now + SESSIONLESS_TIMEOUT
    client.loop.wait(SESSIONLESS_TIMEOUT)
    assert not client.transport.closed
    client.host.connections.thaw()
    client.loop.wait(SESSIONLESS_TIMEOUT)
    assert client.transport.closed
