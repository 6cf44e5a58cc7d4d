"""The process that hands over continues as before if the new one fails."""

import gc
import os
import socket
from typing import Any
from unittest.mock import AsyncMock, MagicMock, patch

import pytest

from codec.client import PING, framed
from codec.constants import OpCode
from codec.jute import pack_string
from lab.fakes.connection import established
from proxy.frontend.transport import Outbound
from proxy.handover.channel import Channel, HandoverError, Message
from proxy.handover.moved import FORM
from proxy.handover.sender import OtherForm, Sender


def _channel() -> Any:
    """Of a new process that ends after it has asked for the sessions."""

    async def receive(kind: str, timeout: float = 0) -> Message:
        if kind == "carried":
            raise HandoverError("the new process has ended")
        return Message(kind, {"release": 2, "form": FORM, "place": {}, "incarnation": "new"}, [])

    return MagicMock(receive=receive, send=AsyncMock())


def _sent() -> tuple[list[tuple[str, Any]], Any]:
    """What is sent by a channel: the kinds of messages, and the changes of watches; and the channel."""
    sent: list[tuple[str, Any]] = []

    async def send(kind: str, _fds: Any = None, **fields: Any) -> None:
        sent.append((kind, fields.get("changes")))

    return sent, MagicMock(send=send, receive=AsyncMock())


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
    carried()
    server.log.applier.worker.hold.assert_not_called()


async def test_a_process_that_has_loaded_its_state_anew_does_not_hand_over() -> None:
    """It may be further than the new one: both sent the events in between, and clients saw time go back."""

    async def receive(kind: str, timeout: float = 0) -> Message:
        if kind == "carried":
            server.log.stats.reloads += 1
        return Message(kind, {"release": 2, "form": FORM, "place": {}, "incarnation": "new"}, [])

    server = MagicMock(must_match={}, connections=[], thaw=AsyncMock())
    server.log.outbox.outstanding = server.log.stats.reloads = 0
    server.log.take_back = AsyncMock()
    channel = MagicMock(receive=receive, send=AsyncMock())
    with pytest.raises(HandoverError, match="loaded its state anew"):
        await Sender(server, {}).run(AsyncMock(return_value=MagicMock(channel=channel, end=AsyncMock())))
    server.log.take_back.assert_awaited_once()


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
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It lost them without a word: nothing had changed since its socket was sent, so nothing was sent."""
    monkeypatch.setattr(Outbound, "fd", 3)
    monkeypatch.setattr(Outbound, "unsent", 0)
    before, since = established(), established()
    since.send(framed(1, OpCode.EXISTS, pack_string("/a") + b"\1"))
    sent, channel = _sent()
    server: Any = MagicMock(connections=[before.connection])
    sender = Sender(server, {})
    await sender._pass_sockets(channel)
    server.connections.append(since.connection)
    sender._frozen = True
    await sender._pass_sockets(channel)
    assert await sender._pass_clients(channel) == 2
    assert sent == [
        *[("sockets", None)] * 2,
        ("watches", [(1, True, [["/a"], [], [], []])]),
        ("clients", None),
    ]


async def test_while_clients_wait_only_watches_that_have_changed_are_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Outbound, "fd", 3)
    monkeypatch.setattr(Outbound, "unsent", 0)
    pings, watches = established(), established()
    for client in (pings, watches):
        client.send(framed(1, OpCode.EXISTS, pack_string("/a") + b"\1"))
    sent, channel = _sent()
    server: Any = MagicMock(connections=[pings.connection, watches.connection])
    sender = Sender(server, {})
    await sender._pass_sockets(channel)
    both = [(0, True, [["/a"], [], [], []]), (1, True, [["/a"], [], [], []])]
    assert sent == [("sockets", None), ("watches", both)]
    sent.clear()
    pings.send(PING)
    watches.send(framed(1, OpCode.EXISTS, pack_string("/b") + b"\1"))
    sender._frozen = True
    assert await sender._pass_clients(channel) == 2
    assert sent == [("watches", [(1, True, [["/b"], [], [], []])]), ("clients", None)]


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
    clients = [established() for _ in range(3)]
    for client in clients:
        client.connection.services.connections.freeze()
        client.send(bytes(3 << 20))
    sent, channel = _sent()
    sender = Sender(MagicMock(connections=[client.connection for client in clients]), {})
    await sender._pass_sockets(channel)
    assert await sender._pass_clients(channel) == 3
    assert [kind for kind, _ in sent].count("clients") == 2
