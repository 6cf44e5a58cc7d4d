"""The ports that clients connect to: with TLS, without, or both on one; behind a load balancer or not.

The rules:

1. A listener peeks at the first byte, then passes the socket on, as ZooKeeper's port unification does it
   (NettyServerCnxnFactory.DualModeSslHandler). A TLS connection begins with a handshake record, 0x16, which
   is the first byte of no ZooKeeper client and no four-letter word. A plain connection is then handled as on
   a server without TLS.
2. Before that byte a load balancer may send a header that names the client (`proxy_protocol`). It is read
   here.
3. A client is counted by the limits on connections when it is accepted; behind a load balancer, by the limit
   for one address when its header has come.
4. TLS handshakes begin when `proxy.support.handshakes` says.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from proxy.frontend import proxy_protocol
from proxy.frontend.admission import ConnectionLimits
from proxy.frontend.certificates import TlsContext
from proxy.frontend.connection import Connection
from proxy.frontend.opening import SESSIONLESS_TIMEOUT
from proxy.frontend.proxy_protocol import BadHeader, ProxyProtocol, Source
from proxy.state.auth.ip import java_address
from proxy.support.addresses import listening_address, socket_address
from proxy.support.handshakes import HANDSHAKE, FirstRecord, Handshakes, until_readable
from proxy.support.last_resort import contained
from proxy.support.ports import Acceptor, SocketAddress
from proxy.support.tasks import Tasks
from proxy.support.throttled_log import ThrottledLog
from proxy.support.tls_pieces import TlsConnections

log = logging.getLogger(__name__)

# The kernel's limit applies as well (net.core.somaxconn). A client beyond it waits for TCP's retransmissions.
_BACKLOG = 4096
_PEEK = 4096  # bytes examined for a PROXY header; only those of the header are removed
# What a host without IPv6 answers: by its kernel, by a setting, or by a filter such as systemd's.
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPERM)


@dataclass(slots=True, eq=False)
class _Newcomer:
    """A client that has no connection yet."""

    client: socket.socket
    source: Source
    #: The bytes of a PROXY header received so far; None if no header is expected (any more).
    header: bytes | None
    counted: str | None  # the address by which the limits count it; "" for one that is not known yet
    deadline: float  # until then it has to begin, by the loop's clock
    first: FirstRecord = field(default_factory=FirstRecord)
    is_let_in: bool = False


class ClientListener:
    """Accepts on one socket. A client is counted at once, so that the limits hold for waiting ones too."""

    def __init__(self, ports: "Ports", tls: TlsContext | None, *, plain: bool) -> None:
        """`tls`: None for no TLS. `plain`: whether clients without it are admitted."""
        self._ports = ports
        self._limits = ports.limits
        self._loop = ports.loop
        self._headers = ports.headers
        self._tls = tls
        self._plain = plain
        self._acceptor = Acceptor(self._loop, self._accepted, "clients")
        self._waiting: dict[_Newcomer, asyncio.Task[None]] = {}  # for what they send first
        self._throttled_log = ThrottledLog(log)
        self._header_log = ThrottledLog(log)

    def open(self, listener: socket.socket) -> None:
        """Accept on a listening socket, which belongs to this listener from now on."""
        self._acceptor.open(listener)

    def close(self) -> None:
        """Stop listening, and close the clients that have not sent enough yet to be let in."""
        self._acceptor.close()
        for letting_in in self._waiting.values():
            letting_in.cancel()

    def _accepted(self, client: socket.socket, peername: SocketAddress) -> None:
        source = address, _ = java_address(peername[0]), int(peername[1])
        is_balancer = self._headers.trusts(address)
        if self._headers.mode == proxy_protocol.REQUIRE and not is_balancer:
            self._header_log.warn("closing %s: it is none of --proxy-protocol-from", address)
            client.close()
            return
        # A balancer's address is that of many clients: the limit for one address must not count it.
        counted = "" if is_balancer else address
        if not self._limits.admit(counted):
            client.close()
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        header = b"" if is_balancer else None
        newcomer = _Newcomer(client, source, header, counted, self._loop.time() + SESSIONLESS_TIMEOUT)
        waits = is_balancer or self._tls is not None
        letting_in = self._ports.tasks.start(self._let_in(newcomer, waits=waits), "let a client in")
        if waits:
            self._waiting[newcomer] = letting_in
        letting_in.add_done_callback(partial(self._ended, newcomer))

    def _ended(self, newcomer: _Newcomer, _letting_in: asyncio.Task[None]) -> None:
        """There is a connection now, or none. A task that is cancelled may not have begun."""
        self._waiting.pop(newcomer, None)
        if not newcomer.is_let_in:
            newcomer.client.close()
            if newcomer.counted is not None:
                self._limits.release(newcomer.counted)

    async def _let_in(self, newcomer: _Newcomer, *, waits: bool) -> None:
        """Make the connection of a client. `waits`: it has to send something before."""
        client = newcomer.client
        tls = None
        try:
            if waits:
                first = await self._first_bytes(newcomer)
                self._waiting.pop(newcomer)
                if not first:
                    return
                tls = self._tls if first[:1] == HANDSHAKE else None
                if tls is None and not self._plain:
                    self._throttled_log.warn("closing %s: it does not use TLS", newcomer.source[0])
                    return
            make = partial(self._ports.connection, admitted=True, source=newcomer.source)
            if tls is None:
                await self._loop.connect_accepted_socket(make, client)
            else:
                address = newcomer.source[0]
                await self._ports.handshakes.accept(client, address, make, tls.current, newcomer.deadline)
            newcomer.is_let_in = True
        except OSError as error:
            if isinstance(error, ConnectionAbortedError):  # the handshake has taken too long
                self._limits.counters.sessionless_expired += 1
            reason = getattr(error, "reason", None) or error.strerror or str(error) or type(error).__name__
            self._throttled_log.warn("cannot let %s in: %s", newcomer.source[0], reason)
        except Exception as error:  # noqa: BLE001 - `contained` logs it
            contained(error, f"cannot let {newcomer.source[0]} in")

    async def _first_bytes(self, newcomer: _Newcomer) -> bytes:
        """How begins what a client sends first, behind a PROXY header; b"" if it is to be closed."""
        try:
            async with asyncio.timeout_at(newcomer.deadline):
                if newcomer.header is None or await self._read_header(newcomer):
                    return await newcomer.first.begin(newcomer.client)
        except TimeoutError:
            self._limits.counters.sessionless_expired += 1
            # Health checks and port scanners often send nothing: that is not logged.
            write = self._header_log.warn if newcomer.header else log.debug
            missing = "its TLS handshake has not begun" if newcomer.first.wanted else "it has sent nothing"
            missing = "its PROXY header is not complete" if newcomer.header else missing
            write("closing %s: %s after %d s", newcomer.source[0], missing, SESSIONLESS_TIMEOUT)
        except BadHeader as error:
            self._header_log.warn("closing %s: its PROXY header: %s", newcomer.source[0], error)
        except OSError:
            pass  # it has gone
        return b""

    async def _read_header(self, newcomer: _Newcomer) -> bool:
        """Read a PROXY header and no byte more; returns whether the client may continue.

        Raises BadHeader, and OSError as `recv`.
        """
        client = newcomer.client
        while (begun := newcomer.header) is not None:
            await until_readable(client)
            try:
                come = client.recv(_PEEK, socket.MSG_PEEK)
            except (BlockingIOError, InterruptedError):
                continue
            if not come and not begun:  # a health check that only connects and closes
                return False
            if not come:
                raise BadHeader(f"the connection ends after {len(begun)} bytes of it")
            if begun or proxy_protocol.may_begin(come[:1]):
                header = proxy_protocol.parse(begun + come)
                client.recv(len(come) if header is None else header.length - len(begun))
                newcomer.header = begun + come if header is None else None
                newcomer.source = newcomer.source if header is None else header.source or newcomer.source
            elif self._headers.mode == proxy_protocol.REQUIRE:
                raise BadHeader(f"there is none, the connection begins with {come[:16]!r}")
            else:
                newcomer.header = None
        self._limits.release("")
        address = newcomer.source[0]
        newcomer.counted = address if self._limits.admit(address) else None
        return newcomer.counted is not None


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket bound to the address, which does not listen yet. Raises OSError that names the address.

    Without a host, and with `::`, it takes connections to all addresses of both families, as ZooKeeper's. Of
    a name that has addresses of both, such as localhost, it takes an IPv4 one, as Java does.
    """
    try:
        if host not in ("", "::"):
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, *_, address = min(found, key=lambda each: each[0] is not socket.AF_INET)
            return _bound(family, address)
        try:
            return _bound(socket.AF_INET6, ("::", port))
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise
            return _bound(socket.AF_INET, ("0.0.0.0", port))
    except OSError as error:
        where = listening_address(host, port)
        raise OSError(f"cannot listen on {where}: {error.strerror or error}") from error


def _bound(family: int, address: Any) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address[0] == "::":  # IPv4 as well, whatever the host's default is
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


def _start_listening(bound: socket.socket) -> None:
    try:
        bound.listen(_BACKLOG)
    except OSError as error:
        where = socket_address(*bound.getsockname()[:2])
        raise OSError(f"cannot listen on {where}: {error.strerror or error}") from error


class Ports:
    """The open ports of one server."""

    def __init__(
        self,
        make: Callable[[], Connection],
        limits: ConnectionLimits,
        tls: TlsContext | None,
        headers: ProxyProtocol,
        loop: asyncio.AbstractEventLoop,
        tasks: Tasks,
    ) -> None:
        """`make` makes a connection for an admitted client. `headers`: trusted senders of PROXY headers."""
        self._make = make
        self._tls = tls
        self.limits = limits
        self.headers = headers
        self.loop = loop
        self.tasks = tasks
        self.handshakes = Handshakes(loop, TlsConnections().accept)
        self._sockets: list[tuple[socket.socket, str]] = []  # and what each accepts
        self._listening: list[ClientListener] = []
        self.number = 0  # of the main port, once it is open

    async def open(self, listener: socket.socket, secure: socket.socket | None, listen: str) -> None:
        """Listen on a bound socket, and on one that takes only TLS.

        `listen`: what the first socket accepts: "off" (no TLS), "only" (only TLS) or "detect" (both).
        Raises OSError that names the address if another process listens there since the socket was bound.
        The sockets belong to this object from now on.
        """
        for bound in (listener, secure) if secure is not None else (listener,):
            # Not by uvloop's create_server, which hides the error if another process already listens there.
            _start_listening(bound)
        self.number = listener.getsockname()[1]
        self._sockets.append((listener, "off" if self._tls is None else listen))
        if self._tls is not None:
            self.tasks.start(self._tls.follow(), "follow the certificates")
            if secure is not None:
                self._sockets.append((secure, "only"))
        await self.resume()

    def suspend(self) -> None:
        """Accept no clients until `resume`: they wait in the sockets, which another process may take over."""
        for listening in self._listening:
            listening.close()
        self._listening.clear()

    async def resume(self) -> None:
        """Accept clients."""
        for bound, listen in self._sockets:
            tls = None if listen == "off" else self._tls
            listening = ClientListener(self, tls, plain=listen != "only")
            listening.open(bound.dup())  # which closes it
            self._listening.append(listening)

    def close(self) -> None:
        """Accept no more clients; connected clients stay connected."""
        self.suspend()
        for bound, _ in self._sockets:
            bound.close()

    def connection(self, *, admitted: bool, source: Source | None = None) -> Connection:
        """A connection for a client that is admitted; `admitted`: the limits count it already.

        `source`: the client's address and port, if they are known.
        """
        connection = self._make()
        connection.admitted = admitted
        if source is not None:
            connection.identity.address, connection.identity.port = source
        return connection
