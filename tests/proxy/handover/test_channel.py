"""Messages between two processes, with sockets."""

import os
from socket import socketpair

import pytest

from proxy.handover.channel import VARIABLE, Channel, HandoverError, Message


async def test_messages_arrive_with_their_sockets() -> None:
    ours, theirs = map(Channel, socketpair())
    carried, other = socketpair()
    await ours.send("client", [carried.fileno()], text="x" * 10_000)
    await ours.send("go")
    message = await theirs.receive("client", "listeners")
    assert (message.kind, len(message.fields["text"]), len(message.fds)) == ("client", 10_000, 1)
    assert not os.get_inheritable(message.fds[0])
    os.write(message.fds[0], b"hello")
    assert other.recv(9) == b"hello"
    assert await theirs.receive("go") == Message("go", {}, [])
    os.close(message.fds[0])
    for each in (carried, other):
        each.close()
    ours.close()
    with pytest.raises(HandoverError, match="no 'go' from the other process: it has ended"):
        await theirs.receive("go")
    with pytest.raises(HandoverError, match="cannot be reached"):
        await theirs.send("go")
    theirs.close()


async def test_another_message_and_none_in_time() -> None:
    ours, theirs = map(Channel, socketpair())
    await ours.send("go")
    with pytest.raises(HandoverError, match="has said 'go', not 'taken'"):
        await theirs.receive("taken")
    with pytest.raises(HandoverError, match="no 'taken' from the other process: timed out"):
        await theirs.receive("taken", timeout=0.01)
    for each in (ours, theirs):
        each.close()


def test_only_a_process_that_was_started_for_it_has_a_channel() -> None:
    assert Channel.inherited({}) is None
    ours, theirs = socketpair()
    channel = Channel.inherited({VARIABLE: str(theirs.detach())})
    assert channel is not None
    channel.close()
    ours.close()
