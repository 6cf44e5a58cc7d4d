"""Listening sockets: the accept loop of all ports, and ports with a bounded number of connections."""

import asyncio
import errno
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from proxy.support.addresses import source_of
from proxy.support.handshakes import FirstRecord, Handshakes
from proxy.support.last_resort import contained
from proxy.support.tasks import Tasks
from proxy.support.throttled_log import ThrottledLog
from proxy.support.tls_pieces import TlsConnections

log = logging.getLogger(__name__)

_AT_ONCE = 100  # clients accepted in one turn of the loop
_NO_MORE_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
# Errors of one connection that `accept` passes on, by Linux's manual. EPERM: a firewall.
_OF_CLIENT = (
    errno.ENETDOWN,
    errno.EPROTO,
    errno.ENOPROTOOPT,
    errno.EHOSTDOWN,
    errno.ENONET,
    errno.EHOSTUNREACH,
    errno.EOPNOTSUPP,
    errno.ENETUNREACH,
    errno.EPERM,
    errno.ENOSR,
    errno.ESOCKTNOSUPPORT,
    errno.EPROTONOSUPPORT,
    errno.ETIMEDOUT,
)
_PAUSE = 1.0  # seconds until the next try if the process has no file descriptor left
_HANDSHAKE = 5.0  # seconds for TLS

SocketAddress: TypeAlias = tuple[Any, ...]
"""An address and a port, as the socket has them."""


class Acceptor:
    """Accepts on one socket. Without descriptors it waits, and does not try all the time."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        accepted: Callable[[socket.socket, SocketAddress], None],
        whom: str,
        at_once: int = _AT_ONCE,
    ) -> None:
        """`whom` it accepts, for the log. `at_once`: in one turn of the loop."""
        self._loop = loop
        self._at_once = at_once
        self._accepted = accepted
        self._whom = whom
        self._listener: socket.socket | None = None
        self._throttled_log = ThrottledLog(log)

    def open(self, listener: socket.socket) -> None:
        """Accept on a listening socket, which belongs to this object from now on."""
        listener.setblocking(False)
        self._listener = listener
        self._loop.add_reader(listener.fileno(), self._accept, listener)

    def close(self) -> None:
        """Stop listening."""
        listener, self._listener = self._listener, None
        if listener is not None:
            self._loop.remove_reader(listener.fileno())
            listener.close()

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(self._at_once):
            try:
                client, peername = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in _OF_CLIENT:
                    return
                if error.errno not in _NO_MORE_FILES:
                    raise
                self._throttled_log.warn("cannot accept %s: %s", self._whom, error.strerror)
                self._loop.remove_reader(listener.fileno())
                self._loop.call_later(_PAUSE, self._accept_again, listener)
                return
            self._accepted(client, peername)

    def _accept_again(self, listener: socket.socket) -> None:
        if self._listener is listener:
            self._loop.add_reader(listener.fileno(), self._accept, listener)


class Bounds(NamedTuple):
    """How many connections may be open."""

    in_all: int
    per_address: int


class Slot:
    """One connection at a port that takes so many, until the protocol that has it calls `release`."""

    def __init__(self, taken: Counter[str], address: str) -> None:
        self._taken = taken
        self.address = address
        self._is_held = True
        taken[address] += 1

    def release(self) -> None:
        """Another one may come. Idempotent."""
        if self._is_held:
            self._is_held = False
            self._taken[self.address] -= 1
            if not self._taken[self.address]:
                del self._taken[self.address]


class BoundedPort:
    """A port with a limit of open connections. One counts from its accept on, so during its TLS handshake."""

    def __init__(
        self,
        listener: socket.socket,
        bounds: Bounds,
        whom: str,
        tls: ssl.SSLContext | None = None,
        make_room: Callable[[str], bool] = lambda _address: False,
    ) -> None:
        """`whom` it accepts, for the log.

        `make_room` closes a connection that is not needed, of this address or, for "", of any; False if there
        is none.
        """
        self._listener = listener
        self._bounds = bounds
        self._whom = whom
        self._tls = tls
        self._make_room = make_room
        self._loop = asyncio.get_running_loop()
        # One in a turn: others begin meanwhile, and can make room.
        self._acceptor = Acceptor(self._loop, self._accepted, whom, at_once=1)
        #: How many places each address has.
        self.taken: Counter[str] = Counter()
        self._tasks = Tasks()
        self._handshakes = Handshakes(self._loop, TlsConnections().accept)
        self._throttled_log = ThrottledLog(log)

    def open(self, make: Callable[[Slot], asyncio.Protocol]) -> None:
        """Accept connections, whose protocols `make` makes. Raises OSError if the address is in use."""
        self._make = make
        self._listener.listen()
        self._acceptor.open(self._listener)

    async def close(self, patience: float = 0) -> None:
        """Accept no more, and end TLS handshakes after so many seconds. Open connections stay open."""
        self._acceptor.close()
        await self._tasks.close(patience)

    def _accepted(self, client: socket.socket, peername: SocketAddress) -> None:
        address = source_of(str(peername[0]))
        in_all, per_address = self._bounds
        most = ""
        if self.taken[address] >= per_address:
            most = "" if self._make_room(address) else f"{per_address} from {address}"
        elif self.taken.total() >= in_all:
            most = "" if self._make_room("") else f"{in_all}"
        if most:
            client.close()
            self._throttled_log.warn("closing a connection of %s: there are %s", self._whom, most)
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        slot = Slot(self.taken, address)
        task = self._tasks.start(self._begin(client, slot), f"accept one of {self._whom}")
        task.add_done_callback(partial(self._begun, client, slot))

    async def _begin(self, client: socket.socket, slot: Slot) -> bool:
        make = partial(self._make, slot)
        try:
            if self._tls is not None:
                deadline = self._loop.time() + _HANDSHAKE
                async with asyncio.timeout_at(deadline):
                    await FirstRecord().begin(client)
                await self._handshakes.accept(client, slot.address, make, self._tls, deadline)
            else:
                await self._loop.connect_accepted_socket(make, client)
        except OSError as error:
            self._throttled_log.warn(
                "closing a connection of %s: %s", self._whom, str(error) or type(error).__name__
            )
        except Exception as error:  # noqa: BLE001 - `contained` logs it
            contained(error, f"cannot accept a connection of {self._whom}")
        else:
            return True
        return False

    def _begun(self, client: socket.socket, slot: Slot, task: asyncio.Task[bool]) -> None:
        """A protocol has the connection, or there is none. A task that `close` ends may not have begun."""
        if task.cancelled() or task.exception() is not None or not task.result():
            client.close()
            slot.release()
