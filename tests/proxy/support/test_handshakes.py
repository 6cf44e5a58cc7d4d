"""TLS handshakes: how many begin at once, and whose; how many are under way, and for how long."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest

from proxy.support import handshakes as module
from proxy.support.handshakes import Handshakes
from proxy.support.tasks import Tasks
from tests.proxy.log.proxies import until


class World:
    def __init__(self) -> None:
        self.handshakes = Handshakes(asyncio.get_running_loop(), self._accept)
        self.begun: list[str] = []
        self.tasks = Tasks()
        self.ends: dict[str, asyncio.Event] = {}
        self.peers: dict[str, socket.socket] = {}
        self.clients: dict[socket.socket, str] = {}

    def add(self, address: str, name: str) -> None:
        self.ends[name] = asyncio.Event()
        client, self.peers[name] = socket.socketpair()
        self.clients[client] = name
        context: Any = None
        accepting = self.handshakes.accept(client, address, asyncio.Protocol, context, 0.0)
        self.tasks.start(accepting, "shake hands")

    async def _accept(
        self, client: socket.socket, _make: object, _context: ssl.SSLContext, _timeout: float
    ) -> None:
        name = self.clients[client]
        self.begun.append(name)
        await self.ends[name].wait()

    def is_shut(self, name: str) -> bool:
        self.peers[name].setblocking(False)
        try:
            return self.peers[name].recv(1) == b""
        except BlockingIOError:
            return False


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.tasks.close()
    for each in (*world.clients, *world.peers.values()):
        each.close()


async def test_a_few_begin_in_a_turn_of_the_loop_and_addresses_take_turns(world: World) -> None:
    turns: list[int] = []
    for number in range(5):
        world.add("flood", f"flood{number}")
    world.add("other", "other")
    while len(world.begun) < 6:
        await asyncio.sleep(0)
        turns.append(len(world.begun))
    assert world.begun == ["flood0", "other", "flood1", "flood2", "flood3", "flood4"]
    assert [count for count in turns if count] == [2, 3, 4, 5, 6]
    world.add("other", "more")
    await until(lambda: world.begun[-1] == "more")


async def test_all_addresses_of_one_host_take_one_turn(world: World) -> None:
    """A host may have a whole /64 of IPv6: a waiting handshake of each would keep the others out."""
    for number in range(4):
        world.add(f"2001:db8:0:0:0:0:0:{number}", f"flood{number}")
    world.add("2001:db8:0:1:0:0:0:1", "other")
    await until(lambda: len(world.begun) == 5)
    assert world.begun == ["flood0", "other", "flood1", "flood2", "flood3"]


async def test_few_are_under_way(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handshake may cost its time by what comes after its first record: a flood would send that at once."""
    monkeypatch.setattr(module, "_MOST", 3)
    for number in range(6):
        world.add("flood", f"{number}")
    for _ in range(20):
        await asyncio.sleep(0)
    assert world.begun == ["0", "1", "2"]
    world.ends["1"].set()
    await until(lambda: len(world.begun) == 4)
    for _ in range(20):
        await asyncio.sleep(0)
    assert world.begun == ["0", "1", "2", "3"]
    assert not world.is_shut("0")


async def test_one_that_takes_long_ends_while_others_wait(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST", 2)
    monkeypatch.setattr(module, "_SECONDS", 0.05)
    world.add("slow", "0")
    world.add("slow", "1")
    await asyncio.sleep(0.2)
    assert not world.is_shut("0")
    world.add("other", "2")
    await until(lambda: world.is_shut("0"))
    world.ends["0"].set()
    await until(lambda: world.begun == ["0", "1", "2"])
    assert not world.is_shut("2")


async def test_none_begins_with_a_client_that_has_gone(world: World) -> None:
    """Its certificate's signature takes milliseconds, and another client may have the place."""
    gone, peer = socket.socketpair()
    peer.send(b"hello")
    peer.close()
    world.clients[gone] = "gone"
    context: Any = None
    with pytest.raises(ConnectionResetError):
        await world.handshakes.accept(gone, "flood", asyncio.Protocol, context, 0.0)
    assert world.begun == []
