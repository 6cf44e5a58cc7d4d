"""The new process: it takes over from the one that has started it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from socket import socket
from typing import TypeAlias

from proxy.admin.environment import VERSION
from proxy.frontend.moved import FORM, Moved, decode
from proxy.handover.channel import HandoverError, Line
from proxy.server import Server

log = logging.getLogger("zketcd")


class Before(asyncio.Protocol):
    """Keeps what a transport reads before the connection takes its place."""

    def __init__(self) -> None:
        self.data = b""

    def data_received(self, data: bytes) -> None:
        """Keep it: a transport reads as soon as it exists."""
        self.data += data


#: Makes the transport of a client's socket, which does not read when it is returned. Raises OSError.
Adopt: TypeAlias = Callable[[int, Before], Awaitable[asyncio.Transport]]


async def _transport(fd: int, before: Before) -> asyncio.Transport:
    client = socket(fileno=fd)
    client.setblocking(False)
    transport, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: before, client)
    transport.pause_reading()
    return transport


async def take(channel: Line, server: Server, adopt: Adopt = _transport) -> dict[str, int]:
    """Take the clients over; returns the listening sockets by name, none if the old process just ends.

    Raises HandoverError. `adopt` makes the transports of clients' sockets.
    """
    own = server.log.incarnation
    await channel.send(
        "hello", form=FORM, release=VERSION.partition(",")[0], incarnation=own, place=server.place
    )
    frozen = await channel.receive("frozen", "restart", timeout=None)
    if frozen.kind == "restart":
        await channel.ended()
        return {}
    worker = server.log.applier.worker
    error = await server.log.carry_over(frozen.fields["incarnation"], worker.hold, own)
    try:
        if error:
            raise HandoverError(f"the sessions cannot be carried over: error {error}")
        await channel.send("carried")
        taken: list[tuple[Moved, int]] = []
        while (message := await channel.receive("clients", "listeners")).kind == "clients":
            taken += zip(map(decode, message.fields["connections"]), message.fds, strict=True)
        await channel.send("taken")
        await channel.receive("go")
        await _continue(server, taken, adopt)
    finally:
        worker.release()
    return dict(zip(message.fields["names"], message.fds, strict=True))


async def _continue(server: Server, taken: list[tuple[Moved, int]], adopt: Adopt) -> None:
    """Serve these clients."""
    befores = [Before() for _ in taken]
    adopted = [adopt(fd, before) for (_, fd), before in zip(taken, befores, strict=True)]
    made = await asyncio.gather(*adopted, return_exceptions=True)
    for (moved, _), before, transport in zip(taken, befores, made, strict=True):
        if isinstance(transport, BaseException):
            log.info("a client has gone meanwhile: %s", transport)
            continue
        try:
            _serve(server, moved._replace(unhandled=moved.unhandled + before.data), transport)
        except Exception:  # the other clients are served
            log.exception("cannot continue the connection of %s", moved.address)
            transport.abort()
    log.info("took %d connections over", len(taken))


def _serve(server: Server, moved: Moved, transport: asyncio.Transport) -> None:
    """Serve one client."""
    session = server.sessions.get(moved.session_id) if moved.session_id else None
    if (moved.session_id and session is None) or transport.is_closing():
        transport.close()
        return
    connection = server.connection()
    connection.identity.address, connection.identity.port = moved.address, moved.port
    connection.connection_made(transport)
    transport.set_protocol(connection)
    if not transport.is_closing():  # a limit may be lower now
        transport.resume_reading()
        connection.unpack(moved, session)
