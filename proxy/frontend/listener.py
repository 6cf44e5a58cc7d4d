"""Accepts clients with and without TLS on one port: looks at the first byte, then hands the socket over.

As ZooKeeper's port unification does it (NettyServerCnxnFactory.DualModeSslHandler): a TLS connection begins
with a handshake record, 0x16, with which no ZooKeeper client and no four-letter word begins. Only the first
byte is looked at here; a plain connection is then handled as on a server without TLS.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Protocol

from proxy.state.auth.ip import java_address
from proxy.support.repeated import Repeated
from proxy.support.tasks import Tasks

log = logging.getLogger(__name__)

_HANDSHAKE = b"\x16"
_ACCEPTED_AT_ONCE = 100
#: Seconds until a client must have sent something, and have finished its TLS handshake.
PATIENCE = 10.0
_NO_MORE_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE = 1.0  # seconds until the next try when the process has no descriptor left


class Host(Protocol):
    """The server, as its listener sees it."""

    def admit(self, address: str) -> bool:
        """Give a client its place; False if there is none."""

    def release(self, address: str) -> None:
        """Take back the place of a client that was not let in."""

    def connection(self, admitted: bool) -> asyncio.Protocol:
        """A protocol for a client that is let in; with its place, which it will give back itself."""


class ClientListener:
    """Accepts on one socket. A client takes a place at once, so that the limits hold for waiting ones too."""

    def __init__(
        self,
        host: Host,
        loop: asyncio.AbstractEventLoop,
        tasks: Tasks,
        tls: Callable[[], ssl.SSLContext],
        *,
        plain: bool,
    ) -> None:
        """`tls`: the context to use now. `plain`: whether clients without TLS are let in too."""
        self._host = host
        self._loop = loop
        self._tasks = tasks
        self._tls = tls
        self._plain = plain
        self._listener: socket.socket | None = None
        self._closed = False
        # Clients that have sent nothing yet: when each is closed, and its address.
        self._silent: dict[socket.socket, tuple[asyncio.TimerHandle, str]] = {}
        self._trouble = Repeated(log)

    def open(self, listener: socket.socket) -> None:
        """Listen on a bound socket, which belongs to this listener from now on."""
        listener.setblocking(False)
        listener.listen(1024)
        self._listener = listener
        self._loop.add_reader(listener.fileno(), self._accept, listener)

    def close(self) -> None:
        """Stop listening, and close the clients that are not let in yet."""
        self._closed = True
        if self._listener is not None:
            self._loop.remove_reader(self._listener.fileno())
            self._listener.close()
        for client in list(self._silent):
            self._close_client(client)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                client, peer = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_MORE_FILES:
                    raise
                self._trouble.warn("cannot accept clients: %s", error.strerror)
                self._loop.remove_reader(listener.fileno())
                self._loop.call_later(_PAUSE, self._accept_again, listener)
                return
            self._accepted(client, java_address(peer[0]))

    def _accept_again(self, listener: socket.socket) -> None:
        if not self._closed:
            self._loop.add_reader(listener.fileno(), self._accept, listener)

    def _accepted(self, client: socket.socket, address: str) -> None:
        if not self._host.admit(address):
            client.close()
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        timer = self._loop.call_later(PATIENCE, self._give_up, client)
        self._silent[client] = timer, address
        self._loop.add_reader(client.fileno(), self._look, client)

    def _give_up(self, client: socket.socket) -> None:
        log.info("closing %s: it has sent nothing in %d s", self._silent[client][1], PATIENCE)
        self._close_client(client)

    def _close_client(self, client: socket.socket) -> None:
        self._host.release(self._forget(client)[1])
        client.close()

    def _look(self, client: socket.socket) -> None:
        try:
            first = client.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        is_tls = first == _HANDSHAKE
        if first and not is_tls and not self._plain:
            self._trouble.warn("closing %s: it does not use TLS", self._silent[client][1])
        if not first or not (is_tls or self._plain):
            self._close_client(client)
            return
        timer, address = self._forget(client)
        left = timer.when() - self._loop.time()
        self._tasks.start(
            self._let_in(client, address, self._tls() if is_tls else None, left), "let a client in"
        )

    async def _let_in(
        self, client: socket.socket, address: str, context: ssl.SSLContext | None, patience: float
    ) -> None:
        let_in = False
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._host.connection(True),
                client,
                ssl=context,
                ssl_handshake_timeout=None if context is None else max(patience, 0.001),
            )
            let_in = True
        except OSError as error:
            reason = getattr(error, "reason", None) or error.strerror or str(error) or type(error).__name__
            self._trouble.warn("cannot let %s in: %s", address, reason)
        finally:
            if not let_in:
                client.close()
                self._host.release(address)

    def _forget(self, client: socket.socket) -> tuple[asyncio.TimerHandle, str]:
        self._loop.remove_reader(client.fileno())
        timer, address = self._silent.pop(client)
        timer.cancel()
        return timer, address
