"""The channel by our own HTTP/2: a connection that is opened when needed, and again when lost.

The shell around `proxy.etcd.http2`. Repeats nothing: a call whose connection breaks fails, and so does one
that is made right after an attempt to connect has failed.
"""

import asyncio
import ssl
from collections.abc import Callable

from proxy.etcd.frames import request_headers
from proxy.etcd.http2 import Call, Connection
from proxy.etcd.tls import Tls, explained
from proxy.etcd.transport import Metadata, Request, RpcError, address_of
from proxy.support.tasks import Tasks

# Seconds. One attempt to connect, TLS included, may take so long.
_CONNECT_TIMEOUT = 5.0
# Between attempts; an etcd that returns should be seen within a second.
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 1.0


class Http2Channel:
    """Calls to one server. To be used inside one running event loop."""

    def __init__(self, host: str, port: int, tls: Tls | None = None) -> None:
        """`tls` is for https."""
        self._host = host
        self._port = port
        self._tls = tls
        self._scheme = "http" if tls is None else "https"
        self.address = address_of(host, port)
        name = tls.server_name if tls is not None else ""
        self._authority = f"{name}:{port}" if name else self.address
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[Connection] | None = None
        self._former: list[Connection] = []  # their last calls are under way
        self._tasks = Tasks()
        self._pause = 0.0
        self._why_not = "never connected"
        self._not_before = 0.0
        self._closed = False

    def begin(
        self,
        path: str,
        request: bytes,
        timeout: float,
        metadata: Metadata,
        on_answer: Callable[[bytes | RpcError], None],
    ) -> Request:
        """As Channel."""
        connection = self._connection
        if connection is None or not connection.usable:
            asking = self._connect_and_ask(path, request, timeout, metadata, on_answer)
            return self._tasks.start(asking, f"ask {self.address}")
        call = connection.open(request_headers(self._scheme, self._authority, path, timeout, metadata))
        call.answer(timeout, on_answer)
        connection.send(call, request, last=True)
        return call

    async def _connect_and_ask(
        self,
        path: str,
        request: bytes,
        timeout: float,
        metadata: Metadata,
        on_answer: Callable[[bytes | RpcError], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        try:
            connection = await self._connected(timeout)
            left = max(0.0, deadline - loop.time())
            call = connection.open(request_headers(self._scheme, self._authority, path, left, metadata))
            connection.send(call, request, last=True)
            answer: bytes | RpcError = await call.result(left)
        except RpcError as error:
            answer = error
        except asyncio.CancelledError:
            on_answer(RpcError("cancelled"))
            raise
        on_answer(answer)

    async def stream(self, path: str, metadata: Metadata = ()) -> Call:
        """As Channel."""
        connection = self._connection
        if connection is None or not connection.usable:
            connection = await self._connected(_CONNECT_TIMEOUT)
        call = connection.open(request_headers(self._scheme, self._authority, path, None, metadata))
        connection.flush()
        return call

    async def close(self) -> None:
        """As Channel."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        for connection in (*self._former, self._connection):
            if connection is not None:
                connection.close()
        await self._tasks.close()

    async def _connected(self, timeout: float) -> Connection:
        """The connection, made anew by one attempt that all callers share."""
        loop = asyncio.get_running_loop()
        if self._closed:
            raise RpcError("the channel is closed")
        if self._connecting is None:
            if loop.time() < self._not_before:
                raise RpcError(self._why_not)
            self._connecting = loop.create_task(self._connect(loop), name=f"connect to {self.address}")
            # Retrieved even if no caller waits any more.
            self._connecting.add_done_callback(lambda attempt: attempt.cancelled() or attempt.exception())
        done, _ = await asyncio.wait({self._connecting}, timeout=timeout)
        if not done:
            raise RpcError(f"connecting to {self.address}: deadline exceeded")
        return done.pop().result()

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> Connection:
        tls = self._tls
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                context = None if tls is None else await asyncio.to_thread(tls.context)
                transport, connection = await loop.create_connection(
                    lambda: Connection(loop, self.address),
                    self._host,
                    self._port,
                    ssl=context,
                    server_hostname=(tls.server_name or self._host) if tls is not None else None,
                )
            tunnel = transport.get_extra_info("ssl_object")
            if tunnel is not None and tunnel.selected_alpn_protocol() != "h2":
                connection.close()
                raise ssl.SSLError("the server does not speak HTTP/2")
        except (OSError, TimeoutError, asyncio.CancelledError) as error:
            self._pause = min(max(_FIRST_PAUSE, 2 * self._pause), _LONGEST_PAUSE)
            self._not_before = loop.time() + self._pause
            reason = explained(error)
            if tls is not None and isinstance(error, ConnectionResetError):
                reason = "closed during the TLS handshake. Does this etcd use TLS? If not, its URL is http://"
            self._why_not = f"connecting to {self.address}: {reason}"
            raise RpcError(self._why_not) from None
        finally:
            self._connecting = None
        self._pause = 0.0
        self._former = [old for old in (*self._former, self._connection) if old is not None and old.busy]
        self._connection = connection
        return connection
