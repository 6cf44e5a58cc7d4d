"""Messages between two processes, with sockets, and the names of processes that serve."""

import os
from pathlib import Path
from socket import socketpair

import pytest

from proxy.handover.channel import VARIABLE, Channel, HandoverError, Message
from proxy.handover.names import name_of, serving


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


def test_names_have_the_namespace_of_the_process_ids(tmp_path: Path) -> None:
    own = Path("/proc/self/ns/pid").stat().st_ino
    assert name_of(1) == f"\0zketcd/{own}/1"
    sockets = f"""Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 62170 @zketcd/{own}/812
0000000000000000: 00000003 00000000 00000000 0001 03 62170 @zketcd/{own}/812
0000000000000000: 00000002 00000000 00010000 0001 01 62171 @zketcd/{own}/9
0000000000000000: 00000002 00000000 00010000 0001 01 62172 @zketcd/{own + 1}/10
0000000000000000: 00000002 00000000 00010000 0001 01 20123 /run/zketcd/7
"""
    table = tmp_path / "unix"
    table.write_bytes(b"0000000000000000: 00000002 00000000 00010000 0001 01 1 @\xff\n" + sockets.encode())
    assert serving(table) == {812, 9}
