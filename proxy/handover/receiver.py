"""The new process: it takes over from the one that has started it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from socket import socket
from typing import Any, TypeAlias

from proxy.frontend.connection import Connection
from proxy.handover.channel import Channel, HandoverError, Message
from proxy.handover.moved import FORM, Moved, apply_part, decode, unpack
from proxy.server import Server
from proxy.state.watches import WatchTable
from proxy.support.last_resort import contained
from proxy.version import RELEASE

log = logging.getLogger("zketcd")

#: Makes the transport of a client's socket, and calls the connection's `connection_made`. Raises OSError.
Adopt: TypeAlias = Callable[[int, Connection], Awaitable[object]]

# A connection, and what it was in the old process, if that is known.
_Adopted: TypeAlias = tuple[Connection, Moved | None]


async def _adopt(fd: int, connection: Connection) -> None:
    client = socket(fileno=fd)
    client.setblocking(False)
    await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, client)


async def take(channel: Channel, server: Server, adopt: Adopt = _adopt) -> dict[str, int]:
    """Take the clients over; returns the listening sockets by name, none if the old process just ends.

    Raises HandoverError. `adopt` makes the transports of clients' sockets.
    """
    own = server.log.incarnation
    worker = server.log.applier.worker
    receiver = _Receiver(channel, server, adopt)
    server.connections.freeze()
    place, users = server.must_match, server.users
    await channel.send("hello", form=FORM, release=RELEASE, incarnation=own, place=place, users=users)
    frozen = await receiver.receive("frozen", "restart", timeout=None)
    if frozen.kind == "restart":
        await channel.ended()
        server.connections.thaw()
        return {}
    error = await server.log.carry_over(frozen.fields["incarnation"], worker.hold, own)
    try:
        if error:
            raise HandoverError(f"the sessions cannot be carried over: error {error}")
        await channel.send("carried")
        while (message := await receiver.receive("clients", "listeners")).kind == "clients":
            receiver.continue_all(message)
        await channel.send("taken")
        await channel.receive("go")
        receiver.serve()
    finally:
        worker.release()
    return dict(zip(message.fields["names"], message.fds, strict=True))


class _Receiver:
    """The connections that are taken over."""

    def __init__(self, channel: Channel, server: Server, adopt: Adopt) -> None:
        self._channel = channel
        self._server = server
        self._adopt = adopt
        # The place of each is its number in the old process's messages.
        self._adopted: list[_Adopted] = []
        self._watches = WatchTable()  # theirs; until they are served, no event is for them
        self._moved: set[Connection] = set()

    async def receive(self, *kinds: str, timeout: float | None = 10.0) -> Message:
        """The next message of these kinds; until then, adopt the clients whose sockets and watches come."""
        while True:
            message = await self._channel.receive("sockets", "watches", *kinds, timeout=timeout)
            if message.kind == "watches":
                connections = [connection for connection, _ in self._adopted]
                apply_part(message.fields["changes"], connections, self._watches)
            elif message.kind == "sockets":
                await self._adopt_all(message)
                await self._channel.send("adopted")
            else:
                return message

    async def _adopt_all(self, message: Message) -> None:
        """Make connections that read nothing: the old process still does."""
        loop = asyncio.get_running_loop()
        clients = message.fields["clients"]
        new = [self._connection(address, port) for address, port, _ in clients]
        made = asyncio.gather(*map(self._adopt, message.fds, new), return_exceptions=True)
        # A transport begins to read when it is made: in the turn of the loop after next, to which this adds a
        # call. Bytes are read only after that turn.
        loop.call_soon(loop.call_soon, partial(_freeze, new))
        for connection, error in zip(new, await made, strict=True):
            if isinstance(error, BaseException):
                log.info("a client has gone meanwhile: %s", error)
                connection.close()
        for connection, (_, _, fields) in zip(new, clients, strict=True):
            self._adopted.append(_unpacked(connection, fields))

    def _connection(self, address: str, port: int) -> Connection:
        connection = self._server.connection()
        connection.identity.address, connection.identity.port = address, port
        return connection

    def continue_all(self, message: Message) -> None:
        """Make these connections what they are in the old process now."""
        for number, fields in message.fields["changed"]:
            self._adopted[number] = _unpacked(self._adopted[number][0], fields)
        for number in message.fields["numbers"]:
            connection, moved = self._adopted[number]
            assert moved is not None
            try:
                self._continue(connection, moved)
            except Exception as error:  # noqa: BLE001 - `contained` logs it; the other clients are served
                contained(error, f"cannot continue the connection of {connection.identity.address}")

    def _continue(self, connection: Connection, moved: Moved) -> None:
        session = self._server.sessions.get(moved.session_id) if moved.session_id else None
        if not connection.order.is_closed and (session is not None or not moved.session_id):
            connection.continued(session, moved.unhandled)
            self._moved.add(connection)

    def serve(self) -> None:
        """Serve the clients from now on; the old process does not."""
        self._server.watches.become(self._watches)
        for connection, _ in self._adopted:
            if connection not in self._moved:
                connection.close()
            if connection.order.is_closed:  # it may be gone for long
                connection.drop_watches()
        self._server.connections.thaw()
        log.info("took %d connections over", len(self._moved))


def _unpacked(connection: Connection, fields: Sequence[Any] | None) -> _Adopted:
    """Restore the state of a connection, if it is known."""
    if fields is None:
        return connection, None
    moved = decode(fields)
    unpack(connection, moved)
    return connection, moved


def _freeze(connections: list[Connection]) -> None:
    for connection in connections:
        connection.regulate()
