"""A channel: calls to one address, over a connection that is opened when needed, and again when lost.

The shell around `proxy.etcd.http2`. Repeats nothing: a call whose connection breaks fails, and so does one
that comes while the last attempt to connect has only just failed.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol

from proxy.etcd.http2 import Call, Connection, request_headers
from proxy.etcd.transport import Metadata, RpcError

# Seconds. One attempt to connect, TLS included, may take so long.
_CONNECT_TIMEOUT = 5.0
# Between attempts; an etcd that returns should be seen within a second.
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 1.0


class Security(Protocol):
    """What a channel wants to know for TLS."""

    server_name: str  # what the certificate must be for, if not the host

    def context(self) -> ssl.SSLContext:
        """Made anew for each connection; may block. Raises OSError."""


class Channel:
    """Calls to one server. To be used inside one running event loop."""

    def __init__(self, host: str, port: int, security: Security | None = None) -> None:
        """`security` is for https."""
        self._host = host
        self._port = port
        self._security = security
        self._scheme = "http" if security is None else "https"
        shown = f"[{host}]" if ":" in host else host
        self.address = f"{shown}:{port}"
        name = security.server_name if security is not None else ""
        self._authority = f"{name}:{port}" if name else self.address
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[Connection] | None = None
        self._old: list[Connection] = []  # calls may still go on there
        self._pause = 0.0
        self._failed = RpcError("never connected")
        self._not_before = 0.0
        self._closed = False

    async def unary(self, path: str, request: bytes, timeout: float, metadata: Metadata = ()) -> bytes:
        """One request, one answer. `timeout`: seconds, the connecting included. Raises RpcError."""
        connection = self._connection
        if connection is None or not connection.usable:
            loop = asyncio.get_running_loop()
            begun = loop.time()
            connection = await self._connected(timeout)
            timeout = max(0.0, timeout - (loop.time() - begun))
        call = connection.open(request_headers(self._scheme, self._authority, path, timeout, metadata))
        connection.send(call, request, last=True)
        return await call.result(timeout)

    def begin(
        self,
        path: str,
        request: bytes,
        timeout: float,
        metadata: Metadata,
        on_answer: Callable[[bytes | RpcError], None],
    ) -> bool:
        """As `unary`, by a callback; False if that cannot be now, since there is no connection."""
        connection = self._connection
        if connection is None or not connection.usable:
            return False
        call = connection.open(request_headers(self._scheme, self._authority, path, timeout, metadata))
        call.answer(timeout, on_answer)
        connection.send(call, request, last=True)
        return True

    async def stream(self, path: str, metadata: Metadata = ()) -> Call:
        """Open a bidirectional call. Raises RpcError."""
        connection = self._connection
        if connection is None or not connection.usable:
            connection = await self._connected(_CONNECT_TIMEOUT)
        call = connection.open(request_headers(self._scheme, self._authority, path, None, metadata))
        connection.flush()
        return call

    async def close(self) -> None:
        """Close all connections; calls under way fail."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        for connection in (*self._old, self._connection):
            if connection is not None:
                connection.close()

    async def _connected(self, timeout: float) -> Connection:
        """The connection, made anew by one attempt that all callers share."""
        loop = asyncio.get_running_loop()
        if self._closed:
            raise RpcError("the channel is closed")
        if self._connecting is None:
            if loop.time() < self._not_before:
                raise self._failed
            self._connecting = loop.create_task(self._connect(loop), name=f"connect to {self.address}")
            # Retrieved even if nobody waits any more.
            self._connecting.add_done_callback(lambda attempt: attempt.cancelled() or attempt.exception())
        done, _ = await asyncio.wait({self._connecting}, timeout=timeout)
        if not done:
            raise RpcError(f"connecting to {self.address}: deadline exceeded")
        return done.pop().result()

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> Connection:
        security = self._security
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                context = None if security is None else await asyncio.to_thread(security.context)
                transport, connection = await loop.create_connection(
                    lambda: Connection(loop, self.address),
                    self._host,
                    self._port,
                    ssl=context,
                    server_hostname=(security.server_name or self._host) if security is not None else None,
                )
            tunnel = transport.get_extra_info("ssl_object")
            if tunnel is not None and tunnel.selected_alpn_protocol() != "h2":
                connection.close()
                raise ssl.SSLError("the server does not speak HTTP/2")
        except (OSError, TimeoutError, asyncio.CancelledError) as error:
            self._pause = min(max(_FIRST_PAUSE, 2 * self._pause), _LONGEST_PAUSE)
            self._not_before = loop.time() + self._pause
            self._failed = RpcError(f"connecting to {self.address}: {str(error) or type(error).__name__}")
            raise self._failed from None
        finally:
            self._connecting = None
        self._pause = 0.0
        self._old = [old for old in (*self._old, self._connection) if old is not None and old.busy]
        self._connection = connection
        return connection
