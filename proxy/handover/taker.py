"""The new process: it takes over from the one that has started it."""

import asyncio
import logging
from socket import socket

from proxy.admin.environment import VERSION
from proxy.frontend.moved import FORM, Moved, decode
from proxy.handover.channel import Channel, HandoverError
from proxy.server import Server

log = logging.getLogger("zketcd")


class _Before(asyncio.Protocol):
    """Keeps what a transport reads before the connection takes its place."""

    def __init__(self) -> None:
        self.data = b""

    def data_received(self, data: bytes) -> None:
        """Keep it: a transport reads as soon as it exists."""
        self.data += data


async def take(channel: Channel, server: Server) -> dict[str, socket]:
    """Take the clients over; returns the listening sockets by name. Raises HandoverError."""
    await channel.send(
        "hello", form=FORM, release=VERSION.partition(",")[0], incarnation=server.log.incarnation
    )
    frozen = await channel.receive("frozen", "restart", timeout=None)
    if frozen.kind == "restart":
        await channel.ended()
        return {}
    worker = server.log.applier.worker
    error = await server.log.carry_over(frozen.fields["incarnation"], worker.hold)
    try:
        if error:
            raise HandoverError(f"the sessions cannot be carried over: error {error}")
        await channel.send("carried", sessions=len(server.sessions))
        taken: list[tuple[Moved, int]] = []
        while (message := await channel.receive("clients", "listeners")).kind == "clients":
            taken += zip(map(decode, message.fields["connections"]), message.fds, strict=True)
        await channel.send("taken")
        await channel.receive("go")
        await _continue(server, taken)
    finally:
        worker.release()
    return dict(zip(message.fields["names"], [socket(fileno=fd) for fd in message.fds], strict=True))


async def _transport(fd: int) -> tuple[asyncio.Transport, _Before]:
    """A client's transport, which does not read yet. Raises OSError."""
    client = socket(fileno=fd)
    client.setblocking(False)
    transport, before = await asyncio.get_running_loop().connect_accepted_socket(_Before, client)
    transport.pause_reading()
    return transport, before


async def _continue(server: Server, taken: list[tuple[Moved, int]]) -> None:
    """Serve these clients."""
    made = await asyncio.gather(*[_transport(fd) for _, fd in taken], return_exceptions=True)
    for (moved, _), result in zip(taken, made, strict=True):
        if isinstance(result, BaseException):
            log.info("a client has gone meanwhile: %s", result)
            continue
        transport, before = result
        session = server.sessions.get(moved.session_id) if moved.session_id else None
        if moved.session_id and session is None:
            transport.close()
            continue
        connection = server.connection()
        connection.identity.address, connection.identity.port = moved.address, moved.port
        connection.connection_made(transport)
        transport.set_protocol(connection)
        transport.resume_reading()
        connection.unpack(moved._replace(unhandled=moved.unhandled + before.data), session)
    log.info("took %d connections over", len(taken))
