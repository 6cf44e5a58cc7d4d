"""Where clients come in if some of them speak TLS: accepts, looks at the first byte, and hands over.

As ZooKeeper's port unification does it (NettyServerCnxnFactory.DualModeSslHandler): a TLS connection begins
with a handshake record, 0x16, with which no ZooKeeper client and no four-letter word begins. Only the look is
done here; a plain connection then goes the way it goes without TLS.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Protocol

from proxy.auth.ip import java_address
from proxy.repeated import Repeated
from proxy.tasks import Tasks

log = logging.getLogger(__name__)

_HANDSHAKE = b"\x16"
_ACCEPTED_AT_ONCE = 100
#: Seconds until a client must have said something, and have finished its TLS handshake.
PATIENCE = 10.0
_NO_MORE_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE = 1.0  # seconds until the next try when the process has no descriptor left


class Host(Protocol):
    """The server, as its door sees it."""

    def admit(self, address: str) -> bool:
        """Give a client its place; False if there is none."""

    def release(self, address: str) -> None:
        """Take the place back of one who did not get in."""

    def connection(self, admitted: bool) -> asyncio.Protocol:
        """A protocol for one who gets in; with its place, which it will give back itself."""


class Door:
    """Accepts on one socket. Who comes in takes a place at once, so that nobody waits before the limits."""

    def __init__(
        self,
        host: Host,
        loop: asyncio.AbstractEventLoop,
        tasks: Tasks,
        tls: Callable[[], ssl.SSLContext],
        *,
        plain: bool,
    ) -> None:
        """`tls`: the context to use now. `plain`: whether those without TLS are let in too."""
        self._host = host
        self._loop = loop
        self._tasks = tasks
        self._tls = tls
        self._plain = plain
        self._listener: socket.socket | None = None
        self._closed = False
        self._visitors: dict[socket.socket, tuple[asyncio.TimerHandle, str]] = {}
        self._trouble = Repeated(log)

    def open(self, listener: socket.socket) -> None:
        """Listen on a bound socket, which is the door's from now on."""
        listener.setblocking(False)
        listener.listen(1024)
        self._listener = listener
        self._loop.add_reader(listener.fileno(), self._accept, listener)

    def close(self) -> None:
        """Stop listening, and turn away who is not in yet."""
        self._closed = True
        if self._listener is not None:
            self._loop.remove_reader(self._listener.fileno())
            self._listener.close()
        for visitor in list(self._visitors):
            self._turn_away(visitor)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                visitor, peer = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_MORE_FILES:
                    raise
                self._trouble.warn("cannot accept clients: %s", error.strerror)
                self._loop.remove_reader(listener.fileno())
                self._loop.call_later(_PAUSE, self._accept_again, listener)
                return
            self._welcome(visitor, java_address(peer[0]))

    def _accept_again(self, listener: socket.socket) -> None:
        if not self._closed:
            self._loop.add_reader(listener.fileno(), self._accept, listener)

    def _welcome(self, visitor: socket.socket, address: str) -> None:
        if not self._host.admit(address):
            visitor.close()
            return
        visitor.setblocking(False)
        visitor.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        timer = self._loop.call_later(PATIENCE, self._give_up, visitor)
        self._visitors[visitor] = timer, address
        self._loop.add_reader(visitor.fileno(), self._look, visitor)

    def _give_up(self, visitor: socket.socket) -> None:
        log.info("closing %s: not a byte in %d s", self._visitors[visitor][1], PATIENCE)
        self._turn_away(visitor)

    def _turn_away(self, visitor: socket.socket) -> None:
        self._host.release(self._forget(visitor)[1])
        visitor.close()

    def _look(self, visitor: socket.socket) -> None:
        try:
            first = visitor.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        is_tls = first == _HANDSHAKE
        if first and not is_tls and not self._plain:
            self._trouble.warn("closing %s: it does not speak TLS", self._visitors[visitor][1])
        if not first or not (is_tls or self._plain):
            self._turn_away(visitor)
            return
        timer, address = self._forget(visitor)
        left = timer.when() - self._loop.time()
        self._tasks.start(
            self._let_in(visitor, address, self._tls() if is_tls else None, left), "let a client in"
        )

    async def _let_in(
        self, visitor: socket.socket, address: str, context: ssl.SSLContext | None, patience: float
    ) -> None:
        entered = False
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._host.connection(True),
                visitor,
                ssl=context,
                ssl_handshake_timeout=None if context is None else max(patience, 0.001),
            )
            entered = True
        except OSError as error:
            reason = getattr(error, "reason", None) or error.strerror or str(error) or type(error).__name__
            self._trouble.warn("cannot let %s in: %s", address, reason)
        finally:
            if not entered:
                visitor.close()
                self._host.release(address)

    def _forget(self, visitor: socket.socket) -> tuple[asyncio.TimerHandle, str]:
        self._loop.remove_reader(visitor.fileno())
        timer, address = self._visitors.pop(visitor)
        timer.cancel()
        return timer, address
