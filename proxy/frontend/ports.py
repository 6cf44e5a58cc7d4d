"""The ports that clients connect to: with TLS, without, or both on one; behind a load balancer or not."""

import asyncio
import socket
from collections.abc import Callable

from proxy.frontend.certificates import TlsContext
from proxy.frontend.connection import Connection
from proxy.frontend.connections import ConnectionLimits
from proxy.frontend.listener import ClientListener
from proxy.frontend.proxy_protocol import ProxyProtocol, Source
from proxy.support.tasks import Tasks

# The kernel's limit applies as well (net.core.somaxconn). A client beyond it waits for TCP's retransmissions.
_BACKLOG = 4096


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket bound to the address, which does not listen yet. Raises OSError that names the address."""
    listener = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return listener


def _start_listening(bound: socket.socket) -> None:
    try:
        bound.listen(_BACKLOG)
    except OSError as error:
        host, port = bound.getsockname()[:2]
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error


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
        self._limits = limits
        self._tls = tls
        self._headers = headers
        self._loop = loop
        self._tasks = tasks
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
            self._tasks.start(self._tls.follow(), "follow the certificates")
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
            self._listen(None if listen == "off" else self._tls, bound.dup(), plain=listen != "only")

    def _listen(self, tls: TlsContext | None, listener: socket.socket, *, plain: bool) -> None:
        listening = ClientListener(
            self,
            self._loop,
            self._tasks,
            None if tls is None else lambda: tls.current,
            plain=plain,
            headers=self._headers,
        )
        listening.open(listener)  # which closes it
        self._listening.append(listening)

    def close(self) -> None:
        """Accept no more clients; connected clients stay connected."""
        self.suspend()
        for bound, _ in self._sockets:
            bound.close()

    # -- for listeners -------------------------------------------------------------------------------------

    def connection(self, admitted: bool, source: Source | None = None) -> Connection:
        """A connection for a client that is admitted; `admitted`: the limits count it already.

        `source`: the client's address and port, if they are known.
        """
        connection = self._make()
        connection.admitted = admitted
        if source is not None:
            connection.identity.address, connection.identity.port = source
        return connection

    def admit(self, address: str) -> bool:
        """Count a client; False if a limit is reached."""
        return self._limits.admit(address)

    def release(self, address: str) -> None:
        """Remove a client from the count."""
        self._limits.release(address)
