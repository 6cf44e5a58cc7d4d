"""The channel by grpcio: for meshes and gateways that our own HTTP/2 client does not work with.

The only module that imports grpc, and imported only when `--etcd-transport grpcio` asks for it. It behaves as
`proxy.etcd.http2` does, and the same tests run on both: calls fail at once while there is no
connection, nothing is sent twice, a silent server is noticed within 9 s, the next connection uses renewed
certificates, and the only error is RpcError.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import grpc
import grpc.aio

from proxy.etcd.asking import ask
from proxy.etcd.tls import Pem, Tls
from proxy.etcd.transport import InFlight, Metadata, RpcError, address_of, is_socket
from proxy.etcd.unix_socket import reachable
from proxy.support.tasks import Tasks

# Not empty once this process holds a reference that keeps grpc's thread (see `_make`).
_held: list[bool] = []

# Seconds, as in proxy.etcd.http2.
_CONNECT_TIMEOUT = 5.0

_OPTIONS = (
    # Messages of etcd may have any size: an answer that we refuse would be an unknown outcome.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A call that etcd may have seen is never repeated.
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    # http_proxy in the environment is not meant for etcd.
    ("grpc.enable_http_proxy", 0),
    # Connections are not shared with other channels: each has its own certificates.
    ("grpc.use_local_subchannel_pool", 1),
    # As proxy.etcd.http2: a ping after 6 s of silence, 3 s for the answer. The second timeout is the one that
    # ends the connection in grpcio 1.85; its default is 60 s (docs/decisions/0001).
    ("grpc.keepalive_time_ms", 6000),
    ("grpc.keepalive_timeout_ms", 3000),
    ("grpc.http2.ping_timeout_ms", 3000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    # Otherwise grpcio also pings to measure the bandwidth, whenever data come, and the last timeout counts
    # for these pings as well: a server that stood still for 3 s lost its connection, not after 9.
    # The size of a stream's window is fixed without them; a proxy's first load may be large.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 4 << 20),
    # As proxy.etcd.http2: pauses of 0.1 to 1 s between attempts, and 5 s for one attempt, as
    # "min_reconnect_backoff" says.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.min_reconnect_backoff_ms", 5000),
)


class GrpcChannel:
    """Calls to one server. To be used inside one running event loop."""

    def __init__(self, host: str, port: int, tls: Tls | None = None) -> None:
        """`tls` is for https."""
        self._tls = tls
        self.address = address_of(host, port)
        self._host = host
        self._target = ""  # the address for grpc; "" until it is needed
        self._held = ExitStack()  # what the target needs
        self._pem: Pem | None = None
        self._channel: grpc.aio.Channel | None = None
        self._former: grpc.aio.Channel | None = None  # its last calls are under way
        self._tasks = Tasks()
        self._renewing = asyncio.Lock()
        self._failed = False  # since the channel was made: certificates may have been renewed
        self._closed = False

    def begin(
        self,
        path: str,
        request: bytes,
        timeout: float,
        metadata: Metadata,
        on_answer: Callable[[bytes | RpcError], None],
    ) -> InFlight:
        """As Channel. grpc.aio has a task for each call in any case."""
        work = self._ask(path, request, timeout, metadata)
        return ask(self._tasks, work, self.address, on_answer)

    async def _ask(self, path: str, request: bytes, timeout: float, metadata: Metadata) -> bytes | RpcError:
        try:
            channel = self._channel
            if channel is None or self._failed or self._closed:
                channel = await self._usable()
            call = channel.unary_unary(path, None, None)(request, timeout=timeout, metadata=tuple(metadata))
            return bytes(await call)
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.CancelledError, RpcError) as error:
            return self._error(error)

    async def stream(self, path: str, metadata: Metadata = ()) -> "GrpcCall":
        """Open a call once the channel is connected. Raises RpcError."""
        channel = await self._usable()
        await self._connected(channel)
        return GrpcCall(channel, path, metadata, self._error)

    async def close(self) -> None:
        """Close the channels, also the one that certificates have replaced; calls under way fail."""
        self._closed = True
        for channel in (self._former, self._channel):
            if channel is not None:
                await channel.close(None)
        await self._tasks.close()
        self._held.close()

    async def _usable(self) -> grpc.aio.Channel:
        """The channel, made anew if a call has failed on it and there are other certificates now."""
        async with self._renewing:
            if self._closed:
                raise RpcError("the channel is closed")
            if self._channel is not None and not self._failed:
                return self._channel
            try:
                self._target = self._target or self._find_target()
                pem = None if self._tls is None else await asyncio.to_thread(self._tls.pem)
            except OSError as error:
                raise RpcError(f"connecting to {self.address}: {error}") from None
            self._failed = False
            if self._channel is None or pem != self._pem:
                if self._former is not None:
                    await self._former.close(None)
                self._former, self._channel, self._pem = self._channel, self._make(pem), pem
            return self._channel

    def _find_target(self) -> str:
        """Raises OSError."""
        if not is_socket(self._host):
            return self.address
        return f"unix:{quote(self._held.enter_context(reachable(self._host)))}"

    def _make(self, pem: Pem | None) -> grpc.aio.Channel:
        # All channels share the thread that waits for grpc's sockets. One more reference is held for ever:
        # the last channel to go would join the thread and so block the loop.
        if not _held:
            grpc.aio.init_grpc_aio()  # type: ignore[attr-defined]
            _held.append(True)
        if pem is None or self._tls is None:
            return grpc.aio.insecure_channel(self._target, options=_OPTIONS)
        name = self._tls.server_name
        options = [*_OPTIONS, ("grpc.ssl_target_name_override", name)] if name else _OPTIONS
        credentials = grpc.ssl_channel_credentials(pem.authorities, pem.key, pem.certificate)
        return grpc.aio.secure_channel(self._target, credentials, options=options)

    async def _connected(self, channel: grpc.aio.Channel) -> None:
        """Wait for a connection, or for the attempt to make one to fail. Raises RpcError."""
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                state = channel.get_state(try_to_connect=True)
                while state is not grpc.ChannelConnectivity.READY:
                    if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                        self._failed = True
                        raise RpcError(f"connecting to {self.address}: the last attempt failed")
                    await channel.wait_for_state_change(state)
                    state = channel.get_state(try_to_connect=True)
        except TimeoutError:
            raise RpcError(f"connecting to {self.address}: deadline exceeded") from None
        except grpc.aio.UsageError as error:
            raise self._error(error) from None

    def _error(self, error: BaseException) -> RpcError:
        """What the end of a call means for the caller."""
        if isinstance(error, RpcError):
            return error
        if isinstance(error, asyncio.CancelledError):
            return RpcError("cancelled")  # also if the channel was closed
        if not isinstance(error, grpc.aio.AioRpcError):
            return RpcError("the channel is closed" if self._closed else str(error))
        code, details = error.code(), error.details() or ""
        if code is grpc.StatusCode.DEADLINE_EXCEEDED and not details.startswith("etcdserver"):
            return RpcError("deadline exceeded")
        if code is grpc.StatusCode.UNAVAILABLE:
            self._failed = True
            if details.startswith(("failed to connect", "connections to all")):
                return RpcError(f"connecting to {self.address}: {details}")
        return RpcError(details or f"gRPC status {code.value[0]}")


class GrpcCall:
    """One open stream."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        path: str,
        metadata: Metadata,
        error: Callable[[BaseException], RpcError],
    ) -> None:
        """`error` makes the caller's error of grpc's."""
        self._error = error
        self._requests: asyncio.Queue[bytes] = asyncio.Queue()
        self._call: Any = channel.stream_stream(path, None, None)(self._messages(), metadata=tuple(metadata))

    async def _messages(self) -> AsyncIterator[bytes]:
        """The messages for grpc.aio to send. It waits for flow control; the writer does not."""
        while True:
            yield await self._requests.get()

    def write(self, message: bytes) -> None:
        """Put a message into the queue that grpc.aio reads. Raises RpcError if the call is over."""
        if self._call.done():
            raise RpcError("the stream was ended")
        self._requests.put_nowait(message)

    async def listen(self, on_message: Callable[[bytes], None]) -> None:
        """Pass on messages until the server ends the call. Raises RpcError."""
        while True:
            try:
                message = await self._call.read()
            except asyncio.CancelledError as error:
                # grpc.aio raises it also if the call was cancelled, and not the task that waits.
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                raise self._error(error) from None
            except (grpc.aio.AioRpcError, grpc.aio.UsageError) as error:
                raise self._error(error) from None
            if message is grpc.aio.EOF:  # type: ignore[attr-defined]
                return
            on_message(bytes(message))

    def cancel(self) -> None:
        """End the call; `listen` raises RpcError."""
        self._call.cancel()
