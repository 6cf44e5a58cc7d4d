"""The connections of a simulated proxy's clients, as its processes see them."""

import asyncio
from collections.abc import Callable
from copy import copy
from typing import Any, Protocol

from typing_extensions import override

from proof.simulation.network import Network, Pipe
from proof.simulation.peers import ProxyHost
from proof.simulation.world import Host
from proxy.frontend.transport import TCP_INFO
from proxy.server import Server

ADDRESS = "10.0.0.1"  # of all clients
_BETWEEN = 0.02  # seconds between two parts of what a client sends
# A client that reads slowly takes so many bytes, each so many seconds.
_PIECE, _EACH = 16, 0.4
_HIGH, _LOW = 100, 25  # unsent bytes at which the protocol must pause and may resume its writes


class Socket:
    """What the server is given to listen on, or, with a number, the socket of a client."""

    def __init__(
        self, number: int = 0, info: Callable[[], bytes] = bytes, transport: "Transport | None" = None
    ) -> None:
        """`info`: what the kernel knows of the connection."""
        self._number = number
        self._info = info
        self.transport = transport  # of a client that is accepted
        self.waiting: list[Transport] = []  # to be accepted

    def getsockopt(self, _level: int, _option: int, _size: int) -> bytes:
        """TCP_INFO, the only option that is read."""
        return self._info()

    def fileno(self) -> int:
        """Its number."""
        return self._number

    def dup(self) -> "Socket":
        """The same."""
        return self

    def close(self) -> None:
        """As `listen`."""

    def getsockname(self) -> tuple[str, int]:
        """Its address."""
        return ("127.0.0.1", 2181)

    def listen(self, _backlog: int) -> None:
        """The port is this server's; `Host.add_reader` does the rest."""

    def accept(self) -> "tuple[Socket, tuple[str, int]]":
        """Accept a client. Raises BlockingIOError if there is none."""
        if not self.waiting:
            raise BlockingIOError
        transport = self.waiting.pop(0)
        return Socket(transport.number, transport=transport), (ADDRESS, transport.number)

    def setblocking(self, _flag: bool) -> None:
        """Nothing blocks here."""

    def setsockopt(self, *_option: int) -> None:
        """There are no options."""


class Proxy(Protocol):
    """The proxy, as far as its clients' connections use it."""

    name: str
    server: Server | None
    on_heard: Callable[[int, str], None]
    others: dict[ProxyHost, None]

    @property
    def transports(self) -> "Transports":
        """Those of its clients."""


class Transports(dict["Transport", None]):
    """Those of a proxy's clients, in the order in which they were opened."""

    made = 0

    def of_number(self, number: int) -> "Transport":
        """The transport of a socket. Raises OSError if it is closed."""
        for transport in self:
            if transport.number == number:
                return transport
        raise ConnectionResetError("reset meanwhile")


class Transport(asyncio.Transport):
    """The proxy's end of a client's connection, and both directions of it."""

    def __init__(
        self,
        proxy: Proxy,
        host: Host,
        network: Network,
        client: str,
        target: Host,
        came: Callable[[bytes | None], None],
    ) -> None:
        super().__init__()
        self.proxy = proxy
        self.client = client
        self._host = host
        proxy.transports.made += 1
        self.number = proxy.transports.made
        self._has_moved = False
        self._is_accepted = False
        self._first: Transport | None = None  # another process's, which still reads
        self._closed = False
        self._reading = True
        self._early: list[bytes | None] = []
        self._protocol: Any = None
        self._client = target
        self._rest = b""  # of what the client has sent
        self._network = network
        self._unsent = b""  # it waits until the client reads
        self._is_full = False  # the protocol has to pause its writes
        self._received_at = self._taken_at = 0.0  # when something came from the client, and went to it
        self._taken = 0  # bytes
        self._out = Pipe(network, proxy.name, target, client, came)
        self._in = Pipe(network, client, host, proxy.name, self._received)
        self._in.send(b"")  # the connection itself takes its time
        proxy.transports[self] = None

    # -- the client's side -----------------------------------------------------------------------------------

    def give(self, data: bytes) -> None:
        """The client sends something, in two parts while another process takes over."""
        data, self._rest = self._rest + data, b""
        middle = len(data) // 2
        if self.proxy.others and middle:
            data, self._rest = data[:middle], data[middle:]
            self._client.call_later(_BETWEEN, self._give_rest)
        self._in.send(data)

    def _give_rest(self) -> None:
        if self._rest:
            rest, self._rest = self._rest, b""
            self._in.send(rest)

    def hang_up(self, *, silently: bool = False) -> None:
        """The client closes its end; `silently`: the proxy is not notified."""
        self._out.break_off()
        if not silently:
            self._in.send(None)

    @property
    def session(self) -> int:
        """The session of the connection; 0 without one."""
        return int(getattr(self._protocol, "session_id", 0))

    def reset(self) -> None:
        """The connection breaks between the two."""
        self._host.call_soon(self._end)

    # -- another process takes it over -----------------------------------------------------------------------

    def second(self, host: Host, protocol: asyncio.Protocol) -> "Transport":
        """The same connection in another process, until that reads or writes without an effect.

        Raises OSError if it is closed.
        """
        if self._closed:
            raise ConnectionResetError("reset meanwhile")
        new = copy(self)
        new._host, new._protocol, new._first, new._early = host, protocol, self, []
        new._reading = True
        new._unsent, new._is_full = b"", False
        return new

    def poll(self) -> None:
        """Read what has come, unless reading is paused."""
        if self._reading:
            self.resume_reading()

    def _take_over(self) -> None:
        """From now on this process has what the kernel has received and no process has read."""
        first, self._first = self._first, None
        if first is None:
            return
        if first._closed:
            self._closed = True
            self._host.call_soon(self._protocol.connection_lost, None)
            return
        first._has_moved = True
        self._early, first._early = first._early, []
        self._received_at = first._received_at
        self._in.move(self._host, self._received)
        transports = self.proxy.transports
        del transports[first]
        transports[self] = None

    # -- the proxy's side ------------------------------------------------------------------------------------

    def _received(self, data: bytes | None) -> None:
        self._received_at = self._host.world.now
        if not self._is_accepted:
            if self._host.listener is None:
                self.lose(silently=False)
                return
            self._is_accepted = True
            self._host.listener(self)
        elif self._protocol is None or self._early or not self._reading:
            self._early.append(data)
            if self._is_full:
                self._heard()  # by the kernel
        else:
            self._deliver(data)

    def open(self, protocol: asyncio.Protocol) -> None:
        """The proxy has made the connection of the accepted client."""
        self._protocol = protocol
        self._call(protocol.connection_made, self)
        if self._closed:
            self._host.call_soon(protocol.connection_lost, None)
        elif self._early:
            self._host.call_soon(self._deliver_early)

    def _deliver(self, data: bytes | None) -> None:
        if self._closed:
            return
        if data is None:
            self._end()
            return
        assert self._protocol is not None
        self._call(self._protocol.data_received, data)
        self._heard()

    def _call(self, callback: Callable[..., None], *arguments: Any) -> None:
        """Call the protocol, as uvloop does it."""
        try:
            callback(*arguments)
        except Exception as error:  # noqa: BLE001 - the loop's handler has it
            context = {"message": "in a connection", "exception": error, "transport": self}
            self._host.call_exception_handler(context)
            self.abort()

    def _heard(self) -> None:
        session = self.session
        if session and self.proxy.server is not None:
            self.proxy.on_heard(session, self.proxy.server.log.incarnation)

    def _deliver_early(self) -> None:
        """Deliver what was kept while the proxy did not read, before anything that was received later."""
        if self._early and self._reading:
            self._deliver(self._early.pop(0))
            if self._early:
                self._host.call_soon(self._deliver_early)

    def _end(self) -> None:
        if self._has_moved:
            self._closed = True
            return
        if self._first is not None:
            self._first, self._closed = None, True
            self._host.call_soon(self._protocol.connection_lost, None)
            return
        if not self._closed:
            self._closed = True
            self.proxy.transports.pop(self, None)
            self._in.break_off()
            self._out.send(None)
            if self._protocol is not None:
                self._host.call_soon(self._protocol.connection_lost, None)

    def lose(self, *, silently: bool) -> None:
        """The proxy's process is gone."""
        self._closed = True
        self.proxy.transports.pop(self, None)
        self._in.break_off()
        if silently:
            self._out.break_off()
        else:
            self._out.send(None)

    @override
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        known = {"peername": (ADDRESS, self.number), "socket": Socket(self.number, self._info)}
        return known.get(name, default)

    @override
    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    @override
    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._take_over()
        if self._closed:
            return
        if not (self._unsent or self._is_slow):
            self._send(bytes(data))
            return
        if not self._unsent:
            self._client.call_later(_EACH, self._drain)
        self._unsent += data
        if len(self._unsent) > _HIGH and not self._is_full:
            self._is_full = True
            self._call(self._protocol.pause_writing)

    @property
    def _is_slow(self) -> bool:
        return self._network.slow_readers[self.client] > 0

    def _send(self, data: bytes) -> None:
        self._taken_at = self._host.world.now
        self._taken += len(data)
        self._out.send(data)

    def _drain(self) -> None:
        """The client takes a part of what waits for it, unless it cannot be reached."""
        ends = self.proxy.name, self.client
        reached = not (self._out.broken or self._network.is_cut(*ends) or self._network.is_cut(*ends[::-1]))
        if reached and not self._closed:
            size = _PIECE if self._is_slow else len(self._unsent)
            self._send(self._unsent[:size])
            self._unsent = self._unsent[size:]
            if self._is_full and len(self._unsent) <= _LOW:
                self._host.call_soon(self._resume_writing)
        if self._unsent and not self._closed:
            self._client.call_later(_EACH, self._drain)

    def _resume_writing(self) -> None:
        if self._is_full and len(self._unsent) <= _LOW and not self._closed:
            self._is_full = False
            self._call(self._protocol.resume_writing)

    def _info(self) -> bytes:
        now = self._host.world.now
        since = [int((now - when) * 1000) for when in (self._received_at, self._taken_at)]
        return TCP_INFO.pack(*since, self._taken)

    @override
    def close(self) -> None:
        self._end()

    @override
    def abort(self) -> None:
        self._end()

    @override
    def is_closing(self) -> bool:
        return self._closed

    @override
    def pause_reading(self) -> None:
        self._reading = False

    @override
    def resume_reading(self) -> None:
        self._reading = True
        self._take_over()
        if self._early:
            self._host.call_soon(self._deliver_early)
