"""A server of the past on real sockets: it has a state, and neither a log nor etcd."""

import asyncio
from dataclasses import replace

import pytest

from codec.client import connect, get, packet, set_data
from codec.constants import ErrorCode
from proxy.admin.prometheus import Exposition
from proxy.config import parse
from proxy.frontend.listener import bound_socket
from proxy.past import PastServer
from proxy.state.capture import new_machine
from proxy.state.machine import Machine
from tests.proxy.test_server import Client

_CONFIG = parse(["--listen", "127.0.0.1:0", "--tick-time", "200", "--archive", "./a", "--read-only=all"])


@pytest.mark.parametrize("slow_request", [0, 1])
async def test_the_past_is_read_and_never_changed(slow_request: int) -> None:
    loaded = asyncio.get_running_loop().create_future()

    async def load() -> Machine:
        await loaded
        return new_machine(1)

    server = PastServer(replace(_CONFIG, slow_request=slow_request))
    starting = asyncio.get_running_loop().create_task(server.start(load, bound_socket("127.0.0.1", 0)))
    while not server.port:  # noqa: ASYNC110 - the port opens in a turn of the loop
        await asyncio.sleep(0)
    early = await Client.open(server)
    early.send(connect(4000))
    assert await early.rest() == b""
    assert server.facts.why_not_ready == "this proxy is loading the tree, or stopping"
    loaded.set_result(None)
    await starting
    assert (server.facts.ready, server.facts.state) == (True, "read-only")
    client = await Client.connected(server)
    client.send(packet(1, get("/")), packet(2, set_data("/", b"x")))
    assert [(await client.reply()).err for _ in "12"] == [0, ErrorCode.NOT_READ_ONLY]
    assert await server.kill(client.session.session, "somebody") == ErrorCode.NOT_READ_ONLY
    assert server.facts.monitor()["etcd_in_touch"] == 0
    assert b"zketcd_etcd_in_touch 0.0" in Exposition(server.facts).text()
    await server.stop()
    assert await client.rest() == b""
    assert not server.facts.ready
    while Client.opened:
        await Client.opened.pop().close()
