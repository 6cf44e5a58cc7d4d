"""TLS for accepted connections: what they receive is decrypted a little in each turn of the event loop.

OpenSSL returns from a read when it has application data. A client can send 250 KiB of records without any,
such as KeyUpdates, which take it 97 ms. So `inflow` stands between uvloop's transport and its TLS.
"""

import asyncio
import socket
import ssl
from asyncio import sslproto
from collections.abc import Callable
from typing import Any, cast

import uvloop
from typing_extensions import override
from uvloop import loop as uvloop_loop

from proxy.support.inflow import Inflow


async def accept(
    client: socket.socket,
    make: Callable[[], asyncio.BaseProtocol],
    context: ssl.SSLContext,
    inflow: Inflow,
    timeout: float | None,
) -> None:
    """What the loop's connect_accepted_socket does for TLS. Raises OSError where the handshake fails.

    `timeout`: seconds of the handshake.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    # asyncio's is the same, in Python.
    protocol: Any = uvloop_loop if isinstance(loop, uvloop.Loop) else sslproto
    tls = protocol.SSLProtocol(loop, make(), context, done, server_side=True, ssl_handshake_timeout=timeout)
    transport, _ = await loop.connect_accepted_socket(lambda: _Ciphertext(tls, inflow), client)
    try:
        await done
    except BaseException:
        transport.close()
        raise


class _Ciphertext(asyncio.Protocol):
    """Between a TCP transport and TLS: the protocol of the one, and the transport of the other."""

    def __init__(self, tls: Any, inflow: Inflow) -> None:
        self._tls = tls
        self._inflow = inflow
        self._is_paused = False  # by TLS
        self._waits = False  # something waits for its turn
        self._has_ended = False  # behind what waits
        self._transport: asyncio.Transport | None = None

    # -- the protocol of the TCP transport -------------------------------------------------------------------

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.write = self._transport.write
        self._tls.connection_made(self)

    @override
    def data_received(self, data: bytes) -> None:
        self._inflow.came(self, data)

    @override
    def eof_received(self) -> bool | None:
        if self._waits:
            self._has_ended = True
            return True
        return cast("bool | None", self._tls.eof_received())

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._inflow.lost(self)
        self._transport = None
        self._tls.connection_lost(exc)

    @override
    def pause_writing(self) -> None:
        self._tls.pause_writing()

    @override
    def resume_writing(self) -> None:
        self._tls.resume_writing()

    # -- of the inflow ---------------------------------------------------------------------------------------

    def take(self, data: bytes) -> None:
        """As Taker."""
        if self._transport is not None:
            size = len(data)
            self._tls.get_buffer(size)[:size] = data
            self._tls.buffer_updated(size)

    def hold(self) -> None:
        """As Taker."""
        self._waits = True
        self._regulate()

    def go_on(self) -> None:
        """As Taker."""
        self._waits = False
        self._regulate()
        if self._has_ended and self._transport is not None and not self._tls.eof_received():
            self._transport.close()

    def abort(self) -> None:
        """Close at once. TLS calls it as well."""
        if self._transport is not None:
            self._transport.abort()

    # -- the transport of TLS --------------------------------------------------------------------------------

    def pause_reading(self) -> None:
        """Receive no more."""
        self._is_paused = True
        self._regulate()

    def resume_reading(self) -> None:
        """Receive more."""
        self._is_paused = False
        self._regulate()

    def _regulate(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing() or self._has_ended:
            return
        if self._is_paused or self._waits:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def __getattr__(self, name: str) -> Any:
        """What the TCP transport has: close, get_extra_info, and what uvloop alone knows."""
        return getattr(self._transport, name)
