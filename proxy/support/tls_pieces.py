"""TLS for accepted connections: it decrypts and encrypts a little in each turn of the event loop.

OpenSSL returns from a read when it has application data. A client can send 250 KiB of records without any,
such as KeyUpdates, which take it 97 ms. So `inflow` stands between uvloop's transport and its TLS.

TLS encrypts all that it is given at once. So `outflow` stands between it and the connection.
"""

import asyncio
import socket
import ssl
from asyncio import sslproto
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, cast

import uvloop
from typing_extensions import override
from uvloop import loop as uvloop_loop

from proxy.support.inflow import Inflow
from proxy.support.last_resort import contained
from proxy.support.outflow import Outflow

# Bytes of a write that is encrypted at once if nothing waits, in 0.2 ms at most.
_SMALL = 64 << 10
_CLOSING = 30.0  # seconds for what is held when a connection is closed; as long as TLS waits for its end


class TlsConnections:
    """Accepts connections, which share the time of the event loop."""

    def __init__(self) -> None:
        self._inflow = Inflow()
        self._outflow = Outflow()

    async def accept(
        self,
        client: socket.socket,
        make: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext,
        timeout: float | None,
    ) -> None:
        """What the loop's connect_accepted_socket does for TLS. Raises OSError where the handshake fails.

        `timeout`: seconds of the handshake.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        # asyncio's is the same, in Python.
        protocol: Any = uvloop_loop if isinstance(loop, uvloop.Loop) else sslproto
        clear = _Cleartext(make(), self._outflow)
        tls = protocol.SSLProtocol(
            loop, clear, context, done, server_side=True, ssl_handshake_timeout=timeout
        )
        transport, _ = await loop.connect_accepted_socket(lambda: _Ciphertext(tls, self._inflow), client)
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
        self._is_paused_by_tls = False
        self._waits = False  # something waits for its turn
        self._has_ended = False  # behind what waits
        self.address = ""
        self._transport: asyncio.Transport | None = None

    # -- the protocol of the TCP transport -------------------------------------------------------------------

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.write = self._transport.write
        self.address = str((transport.get_extra_info("peername") or [""])[0])
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
        self._is_paused_by_tls = True
        self._regulate()

    def resume_reading(self) -> None:
        """Receive more."""
        self._is_paused_by_tls = False
        self._regulate()

    def _regulate(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing() or self._has_ended:
            return
        if self._is_paused_by_tls or self._waits:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def __getattr__(self, name: str) -> Any:
        """What the TCP transport has: close, get_extra_info, and what uvloop alone knows."""
        return getattr(self._transport, name)


class _Cleartext:
    """Between TLS and a connection: the protocol of the one, and the transport of the other."""

    def __init__(self, connection: asyncio.Protocol, outflow: Outflow) -> None:
        self._connection = connection
        self._outflow = outflow
        self._held: deque[memoryview] = deque()  # not encrypted yet
        self._size = 0  # its bytes
        self._is_full = False  # TLS, because the client does not read
        self._is_paused = False  # the connection
        self._is_closing = False  # behind what is held
        self._closing: asyncio.TimerHandle | None = None  # the end of the time for that
        self._transport: Any = None
        self.data_received = connection.data_received

    # -- the protocol of TLS ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is done."""
        self._transport = transport
        self._connection.connection_made(cast(asyncio.Transport, self))

    def eof_received(self) -> bool | None:
        """The client sends no more, and TLS closes the connection."""
        self._drop()
        return self._connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        if self._closing is not None:
            self._closing.cancel()
        self._drop()
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read."""
        self._is_full = True
        self._pause()

    def resume_writing(self) -> None:
        """It reads again."""
        self._is_full = False
        if self._size:
            self._outflow.add(self)
        else:
            self._resume()

    def _pause(self) -> None:
        if not self._is_paused and not self._is_closing:
            self._is_paused = True
            self._connection.pause_writing()

    def _resume(self) -> None:
        if self._is_paused and not self._is_closing:
            self._is_paused = False
            self._connection.resume_writing()

    # -- of the outflow --------------------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """As Giver."""
        return self._size > 0 and not self._is_full

    def give(self, most: int) -> int:
        """As Giver."""
        if self._transport.is_closing():  # it is lost
            self._drop()
            return 0
        parts: list[memoryview] = []
        left = most
        while self._held and left:
            part = self._held.popleft()
            if len(part) > left:
                self._held.appendleft(part[left:])
                part = part[:left]
            parts.append(part)
            left -= len(part)
        size = most - left
        self._size -= size
        self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))
        if not self._size:
            self._gave_all()
        return size

    def _gave_all(self) -> None:
        if self._is_closing:
            self._transport.close()
        elif not self._is_full:
            try:
                self._resume()
            except Exception as error:  # noqa: BLE001 - `contained` logs it
                contained(error, "closing a connection with TLS")
                self.abort()

    def _drop(self) -> None:
        self._held.clear()
        self._size = 0
        self._outflow.remove(self)

    # -- the transport of the connection ---------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send it when it is its turn."""
        if len(data) <= _SMALL and not self._size:
            self._transport.write(data)
        elif data and not self._is_closing:
            self._held.append(memoryview(bytes(data)))
            self._size += len(data)
            if not self._is_full:
                self._outflow.add(self)
            if self._size:
                self._pause()

    def writelines(self, data: Iterable[bytes]) -> None:
        """Send them together."""
        self.write(b"".join(data))

    def get_write_buffer_size(self) -> int:
        """Bytes that are not sent."""
        return self._size + int(self._transport.get_write_buffer_size())

    def is_closing(self) -> bool:
        """Whether nothing is sent any more but what was written before."""
        return self._is_closing or bool(self._transport.is_closing())

    def close(self) -> None:
        """Close when all is sent, or the client has not read it in time."""
        if self.is_closing():
            return
        if self._size:
            self._is_closing = True
            self._closing = asyncio.get_running_loop().call_later(_CLOSING, self.abort)
            self.data_received = _ignore
        else:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._drop()
        self._transport.abort()

    def __getattr__(self, name: str) -> Any:
        """What the transport of TLS has: get_extra_info, pause_reading and others."""
        return getattr(self._transport, name)


def _ignore(data: bytes) -> None:
    """Received from a client that is sent its last replies."""
