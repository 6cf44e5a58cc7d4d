"""The process that hands over continues as before if the new one fails."""

import gc
import os
import socket
from collections.abc import Callable
from typing import Any
from unittest.mock import AsyncMock, MagicMock, patch

import pytest

from codec.client import PING, framed
from codec.constants import OpCode, WatcherType
from codec.jute import pack_string
from lab.fakes.connection import Client, FakeHost, FakeLoop, connected
from proxy.frontend.transport import Outbound
from proxy.handover.channel import Channel, HandoverError, Message
from proxy.handover.moved import FORM, Change
from proxy.handover.sender import OtherForm, Sender


def _channel() -> Any:
    """Of a new process that ends after it has asked for the sessions."""

    async def receive(kind: str, timeout: float = 0) -> Message:
        if kind == "carried":
            raise HandoverError("the new process has ended")
        return Message(kind, {"release": 2, "form": FORM, "place": {}, "incarnation": "new"}, [])

    return MagicMock(receive=receive, send=AsyncMock())


class _Successor:
    """The channel to a process that takes over, which notes what it is sent."""

    def __init__(self, **during: Callable[[], object]) -> None:
        """`during`: what is done when a message of a kind is sent for the first time."""
        self._during = during
        self.sent: list[tuple[str, Any]] = []  # kinds, and the changes of watches
        self.moved: list[int] = []  # the numbers of connections

    async def send(self, kind: str, _fds: Any = None, **fields: Any) -> None:
        self.sent.append((kind, fields.get("changes")))
        self.moved += fields.get("numbers", [])
        self._during.pop(kind, int)()

    async def receive(self, kind: str, timeout: float = 0) -> Message:
        return Message(kind, {"release": 2, "form": FORM, "place": {}, "incarnation": "new"}, [])

    async def take_over(self, server: Any) -> None:
        await Sender(server, {}).run(AsyncMock(return_value=MagicMock(channel=self, end=AsyncMock())))

    def watches(self) -> tuple[list[Any], list[Any]]:
        """What was sent of watches before clients were frozen, and while they were."""
        frozen = self.sent.index(("frozen", None))
        served, waited = (
            [change for _, changes in some if changes for change in changes]
            for some in (self.sent[:frozen], self.sent[frozen:])
        )
        return served, waited


def _server(*clients: Client) -> Any:
    """What a Sender needs of a server that has these clients."""
    host = clients[0].host
    server = MagicMock(must_match={}, watches=host.watches, thaw=AsyncMock())
    server.connections = [each.connection for each in clients]
    server.log.outbox.outstanding = 0
    server.log.take_back = AsyncMock()
    server.sessions.expect_successor = _at_once
    return server


def _at_once(_successor: str, carried: Callable[[int], object]) -> None:
    """The sessions of no client are carried over."""
    carried(0)


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> tuple[Client, Client]:
    """Two of one server, which can move."""
    monkeypatch.setattr(Outbound, "fd", 3)
    monkeypatch.setattr(Outbound, "unsent", 0)
    host = FakeHost(FakeLoop())
    return connected(host), connected(host)


def _watch(client: Client, path: str) -> None:
    client.send(framed(1, OpCode.EXISTS, pack_string(path) + b"\1"))


def _of_data(number: int, *paths: str, is_added: bool = True) -> Change:
    """Watches of data of the connection with this number."""
    return Change(number, is_added, [[*paths], [], [], []])


async def test_a_session_that_goes_to_a_process_that_has_ended_holds_nothing() -> None:
    """Its append may take effect after its end. This proxy applied nothing more then (stormy seed 133)."""
    server = MagicMock(must_match={}, connections=[], thaw=AsyncMock())
    server.log.outbox.outstanding = 0
    server.log.take_back = AsyncMock()
    sender = Sender(server, {})
    with pytest.raises(HandoverError, match="has ended"):
        await sender.run(AsyncMock(return_value=MagicMock(channel=_channel(), end=AsyncMock())))
    server.log.take_back.assert_awaited_once_with("new", server.log.contact())
    server.sessions.forget_successor.assert_called_once_with()
    _, carried = server.sessions.expect_successor.call_args.args
    carried(1)
    server.log.applier.worker.hold.assert_not_called()


async def test_many_sessions_have_more_time_to_be_carried_over() -> None:
    """On a busy host 300,000 did not go over in 3 s, and each attempt let all clients wait as long."""
    times = []

    async def receive(kind: str, timeout: float = 0) -> Message:
        times.append(timeout)
        if kind == "carried":
            raise HandoverError("the new process has ended")
        return Message(kind, {"release": 2, "form": FORM, "place": {}, "incarnation": "new"}, [])

    server = MagicMock(must_match={}, connections=[], thaw=AsyncMock())
    server.log.outbox.outstanding = 0
    server.log.take_back = AsyncMock()
    server.machine.sessions = range(300_000)
    channel = MagicMock(receive=receive, send=AsyncMock())
    with pytest.raises(HandoverError, match="has ended"):
        await Sender(server, {}).run(AsyncMock(return_value=MagicMock(channel=channel, end=AsyncMock())))
    assert times[-1] == pytest.approx(6.0)


async def test_a_process_that_has_loaded_its_state_anew_does_not_hand_over() -> None:
    """It may be further than the new one: both sent the events in between, and clients saw time go back."""

    async def receive(kind: str, timeout: float = 0) -> Message:
        if kind == "carried":
            server.log.stats.reloads += 1
        return Message(kind, {"release": 2, "form": FORM, "place": {}, "incarnation": "new"}, [])

    server = MagicMock(must_match={}, connections=[], thaw=AsyncMock())
    server.log.outbox.outstanding = server.log.stats.reloads = 0
    server.log.take_back = AsyncMock()
    server.sessions.expect_successor = _at_once
    channel = MagicMock(receive=receive, send=AsyncMock())
    with pytest.raises(HandoverError, match="loaded its state anew"):
        await Sender(server, {}).run(AsyncMock(return_value=MagicMock(channel=channel, end=AsyncMock())))
    server.log.take_back.assert_awaited_once()


async def test_a_session_that_goes_on_to_another_proxy_is_not_missed(clients: tuple[Client, Client]) -> None:
    """It was carried over, and this process does not have it any more."""
    server = _server(*clients)
    server.sessions.expect_successor = lambda _successor, carried: carried(1)
    await _Successor().take_over(server)


@pytest.mark.long
async def test_a_process_of_another_form_sees_the_end_of_this_process_not_of_the_attempt() -> None:
    """Else it binds the ports, and ends since they are taken, if this process takes a moment to drain."""
    ours, theirs = socket.socketpair()
    hello = AsyncMock(return_value=Message("hello", {"release": 2, "form": FORM + 1}, []))
    channel = Channel(ours)
    number = ours.fileno()
    with (
        theirs,
        patch.multiple(channel, receive=hello, send=AsyncMock()),
        pytest.raises(OtherForm, match="this process drains and ends"),
    ):
        await Sender(MagicMock(), {}).run(AsyncMock(return_value=MagicMock(channel=channel)))
    del channel, ours
    gc.collect()
    os.close(number)  # still open


async def test_a_client_that_came_between_the_sockets_and_the_freeze_keeps_its_watches(
    clients: tuple[Client, Client],
) -> None:
    """It lost them without a word: nothing had changed since its socket was sent, so nothing was sent."""
    before, since = clients
    server = _server(before)
    _watch(since, "/a")
    new = _Successor(frozen=lambda: server.connections.append(since.connection))
    await new.take_over(server)
    assert new.watches() == ([], [_of_data(1, "/a")])


async def test_while_clients_wait_only_watches_that_have_changed_are_sent(
    clients: tuple[Client, Client],
) -> None:
    pings, watches = clients
    for client in clients:
        _watch(client, "/a")

    def go_on() -> None:
        pings.send(PING)
        _watch(watches, "/b")
        assert watches.host.watches.remove("/a", watches.connection, WatcherType.DATA)

    new = _Successor(watches=go_on)
    await new.take_over(_server(*clients))
    served, waited = new.watches()
    assert served == [_of_data(0, "/a"), _of_data(1, "/a")]
    assert waited == [_of_data(1, "/b"), _of_data(1, "/a", is_added=False)]


async def test_watches_of_a_client_that_is_busy_are_sent_while_it_is_served(
    clients: tuple[Client, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of 500,000 went while clients waited: for 10 s."""
    busy, other = clients
    watches = busy.host.watches
    many = [f"/{number}".ljust(200, "x") for number in range(3000)]
    watches.change(busy.connection, (many, [], [], []), are_added=True)
    monkeypatch.setattr(Outbound, "unsent", 1)
    new = _Successor(
        watches=lambda: _watch(other, "/in the next round"),
        frozen=lambda: monkeypatch.setattr(Outbound, "unsent", 0),
    )
    await new.take_over(_server(*clients))
    served, waited = new.watches()
    assert sum(len(data) for _, _, (data, *_) in served) == len(many) + 1
    assert waited == []


async def test_a_client_whose_watches_change_too_much_does_not_move(
    clients: tuple[Client, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All others would wait for it."""
    monkeypatch.setattr("proxy.handover.sender._MOST_CHANGED", 2)
    for client in clients:
        _watch(client, "/a")

    def go_on() -> None:
        for path in ("/b", "/c", "/d"):
            _watch(clients[0], path)
        _watch(clients[1], "/b")

    new = _Successor(watches=go_on)
    server = _server(*clients)
    await new.take_over(server)
    assert new.watches()[1] == [_of_data(1, "/b")]
    assert new.moved == [1]


async def test_the_next_attempt_sends_all_watches_anew(clients: tuple[Client, Client]) -> None:
    server = _server(*clients)
    _watch(clients[0], "/a")

    def fail() -> None:
        raise HandoverError("the new process has ended")

    for _ in range(2):
        new = _Successor(listeners=fail)
        with pytest.raises(HandoverError, match="has ended"):
            await new.take_over(server)
        assert new.watches() == ([_of_data(0, "/a")], [])
        assert server.watches.count_changes(clients[0].connection) == 1


@pytest.mark.parametrize(
    ("read", "why"), [(None, "etcd has not"), ("a read", "reads that take long were not")]
)
async def test_what_was_not_answered_in_time_is_named(
    monkeypatch: pytest.MonkeyPatch, read: str | None, why: str
) -> None:
    monkeypatch.setattr("proxy.handover.sender._ANSWERED", -1.0)
    server = MagicMock(must_match={}, connections=[], thaw=AsyncMock())
    server.log.outbox.outstanding = 1
    server.state_gate.first_slow_read = read
    with pytest.raises(HandoverError, match=why):
        await Sender(server, {}).run(AsyncMock(return_value=MagicMock(channel=_channel(), end=AsyncMock())))


async def test_clients_that_always_wait_for_slow_reads_do_not_keep_it_from_handing_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One client with 1,000 reads of 20,000 nodes did, and each try froze all clients for 3 s."""
    monkeypatch.setattr("proxy.handover.sender._READ", -1.0)
    reading = MagicMock()
    reading.order.queue.count, reading.outbound.fd, reading.outbound.unsent = 1, -1, 0
    server = MagicMock(must_match={}, connections=[reading], thaw=AsyncMock())
    server.log.outbox.outstanding = 0
    server.log.take_back = AsyncMock()
    with pytest.raises(HandoverError, match="the new process has ended"):
        await Sender(server, {}).run(AsyncMock(return_value=MagicMock(channel=_channel(), end=AsyncMock())))


async def test_what_clients_have_sent_is_passed_on_in_messages_of_a_few_megabytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """500 clients in one message, each amid a large packet, were more than a message may have."""
    monkeypatch.setattr(Outbound, "fd", 3)
    monkeypatch.setattr(Outbound, "unsent", 0)
    host = FakeHost(FakeLoop())
    clients = [connected(host) for _ in range(3)]
    host.connections.freeze()
    for client in clients:
        client.send(bytes(3 << 20))
    new = _Successor()
    await new.take_over(_server(*clients))
    assert new.moved == [0, 1, 2]
    assert [kind for kind, _ in new.sent].count("clients") == 2
