"""The event loop of a proxy's process, with what it needs to connect to other proxies.

Real is all of `proxy.log.combine`. Simulated are the connections: they have the network's delays and cuts,
break when a process ends, and wait while it stands still.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from typing_extensions import override

from proof.simulation.network import Network, Pipe
from proof.simulation.world import Host, World
from proxy.support.environment import Randomness
from proxy.support.ports import Slot
from schema.record import PeerPort

_NUMBER = 2191  # of the port of each proxy


def peer_port(name: str, randomness: Randomness) -> PeerPort:
    """What the key of a new process of a proxy says, as `proxy.home` has it."""
    return PeerPort(f"{name}:{_NUMBER}", randomness.token_bytes(32))


class ProxyHost(Host):
    """A process of a proxy."""

    def __init__(self, world: World, network: Network, name: str, skew: float, drift: float) -> None:
        super().__init__(world, name, skew=skew, drift=drift)
        self.links: dict[Link, None] = {}
        self._network = network

    @override
    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Any, host: str, _port: int, **_options: Any
    ) -> Any:
        ports = [port for port in self._network.ports.get(host, ()) if not port.host.dead]
        if not ports:
            await asyncio.sleep(self._network.delay(self.name, host))
            raise ConnectionRefusedError("no process listens")
        port = self.random.choice(ports)  # two have it during a hot restart
        made = self.create_future()
        near = Link(self, host, lambda: None if made.done() else protocol_factory(), made)
        far = Link(
            port.host, self.name, lambda: None if port.is_closed else port.make(Slot(Counter(), self.name))
        )
        near.out = Pipe(self._network, self.name, port.host, host, far.came)
        far.out = Pipe(self._network, host, self, self.name, near.came)
        near.out.send(b"")
        await made
        return near, near.protocol

    @override
    async def getaddrinfo(self, host: Any, port: Any, **_options: Any) -> Any:
        """Names are addresses here."""
        return [(0, 0, 0, "", (host, port))]

    def cut_off(self, *, silently: bool) -> None:
        """The process ends; `silently`: the others are not notified."""
        links, self.links = self.links, {}
        for link in links:
            if not silently:
                link.out.send(None)
            link.out.broken = silently


class Port:
    """A process takes connections of other proxies."""

    def __init__(self, network: Network, host: ProxyHost) -> None:
        self.host = host
        self.is_closed = False
        self._all = network.ports.setdefault(host.name, [])

    def open(self, make: Callable[[Slot], asyncio.Protocol]) -> None:
        """Take them."""
        self.make = make
        self._all[:] = [port for port in self._all if not port.host.dead]
        self._all.append(self)

    async def close(self) -> None:
        """Take no more."""
        self.is_closed = True
        if self in self._all:
            self._all.remove(self)


class Link(asyncio.Transport):
    """One end of a connection between two proxies."""

    out: Pipe

    def __init__(
        self,
        host: ProxyHost,
        peer: str,
        make: Callable[[], asyncio.Protocol | None],
        made: asyncio.Future[None] | None = None,
    ) -> None:
        """`make`: the protocol, or None if it is not wanted. `made`: of the end that connects; done then."""
        super().__init__()
        self.protocol: asyncio.Protocol | None = None
        self._host = host
        self._peer = peer
        self._make = make
        self._made = made
        self._closed = False

    def came(self, data: bytes | None) -> None:
        """From the other end: None at its end. What comes first only makes the connection."""
        if self._closed:
            return
        if self.protocol is not None and data is not None:
            try:
                self.protocol.data_received(data)
            except Exception as error:  # noqa: BLE001 - the loop's handler has it, as with uvloop
                context = {"message": "in a connection", "exception": error, "transport": self}
                self._host.call_exception_handler(context)
                self.abort()
        elif data is None or (protocol := self._make()) is None:
            self.abort()
        else:
            self.protocol = protocol
            self._host.links[self] = None
            if self._made is None:
                self.out.send(b"")
            protocol.connection_made(self)
            if self._made is not None:
                self._made.set_result(None)

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closed:
            self.out.send(bytes(data))

    @override
    def abort(self) -> None:
        if not self._closed:
            self._closed = True
            self._host.links.pop(self, None)
            self.out.send(None)
            if self.protocol is not None:
                self._host.call_soon(self.protocol.connection_lost, None)
            elif self._made is not None and not self._made.done():
                self._made.set_exception(ConnectionResetError("the process has closed it"))

    @override
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self._peer, _NUMBER) if name == "peername" else default
