"""Connections that a new process takes over: it reads nothing from them before it serves them."""

import asyncio
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock
from unittest.mock import AsyncMock

import pytest
import uvloop

from codec.client import connect
from lab.fakes.connection import Client, FakeHost, FakeLoop
from lab.servers import eventually
from proxy.frontend.connection import Connection
from proxy.handover.channel import Channel, Message
from proxy.handover.receiver import _adopt, _Receiver
from proxy.server import Server


@pytest.mark.parametrize("make", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_the_old_process_gets_what_is_sent_before_the_new_one_serves(
    make: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    with asyncio.Runner(loop_factory=make) as runner:
        runner.run(_take_two())


async def _take_two() -> None:
    loop = asyncio.get_running_loop()
    host = FakeHost(cast(FakeLoop, loop))
    host.connections.are_frozen = True
    made: list[Connection] = []

    def connection() -> Connection:
        made.append(Connection(host.services(), loop))
        return made[-1]

    old, new = map(Channel, socket.socketpair())
    receiver = _Receiver(new, cast(Server, SimpleNamespace(connection=connection)), _adopt)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        clients = [socket.create_connection(listener.getsockname()) for _ in range(2)]
        accepted = [listener.accept()[0] for _ in clients]
    for client in clients:
        client.sendall(connect(4000))
    names = [client.getsockname() for client in clients]
    await old.send("sockets", [each.fileno() for each in accepted], clients=[(*name, None) for name in names])
    await old.send("frozen")
    await receiver.receive("frozen")
    await old.receive("adopted")
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert [each.recv(1000) for each in accepted] == [connect(4000)] * 2
    assert [(each.identity.address, each.identity.port) for each in made] == names
    for client in clients:
        client.sendall(connect(4000))
    host.connections.thaw()

    async def both() -> bool:
        return len(host.attached) == 2

    await eventually(both, "both are read")
    for each in made:
        each.close()
    await asyncio.sleep(0.01)
    for sock in (*clients, *accepted):
        sock.close()
    old.close()
    new.close()


async def test_watches_come_before_the_connection_is_served_and_go_with_one_that_is_gone() -> None:
    """Until then, an event is sent by the old process."""
    host = FakeHost(FakeLoop())
    host.connections.freeze()
    stays, goes = Client(host=host), Client(host=host)
    server: Any = SimpleNamespace(connections=host.connections, watches=host.watches)
    receiver = _Receiver(mock.Mock(), server, _adopt)
    receiver._adopted += (stays.connection, None), (goes.connection, None)
    receiver._moved.add(stays.connection)
    many = [f"/{number}" for number in range(3000)]
    changes = [(0, True, [["/a"], [], [], ["/"]]), (1, True, [many, [], [], []])]
    receiver._channel.receive = AsyncMock(  # type: ignore[method-assign]
        side_effect=[Message("watches", {"changes": changes}, []), Message("frozen", {}, [])]
    )
    await receiver.receive("frozen")
    assert not host.watches
    goes.lose()
    receiver.serve()
    assert host.watches.held() > 2, "very many are removed in one turn of the loop"
    host.loop.run()
    assert host.watches.take_changes(goes.connection)[0] == [set(), set(), set(), set()]
    assert host.watches.take_changes(stays.connection)[0] == [{"/a"}, set(), set(), {"/"}]
