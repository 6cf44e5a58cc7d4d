"""The channel by grpcio: for meshes and gateways that our own HTTP/2 client does not work with.

The only module that imports grpc, and imported only when `--etcd-transport grpcio` asks for it. It behaves as
`proxy.etcd.channel.Channel` does, and the same tests hold both to it: calls fail at once while there is no
connection, nothing is sent twice, a silent peer is noticed within 9 s, renewed certificates serve the next
connection, and only RpcError comes out.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import grpc
import grpc.aio

from proxy.etcd.transport import Metadata, Pem, RpcError

# Seconds, as in proxy.etcd.channel.
_CONNECT_TIMEOUT = 5.0

_OPTIONS = (
    # What etcd sends may be as large as it likes: an answer refused by us would be an unknown outcome.
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
    # As proxy.etcd.channel: pauses of 0.1 to 1 s between attempts, and 5 s for one attempt, which is what
    # "min_reconnect_backoff" stands for.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.min_reconnect_backoff_ms", 5000),
)


class Security(Protocol):
    """What a channel wants to know for TLS."""

    server_name: str  # what the certificate must be for, if not the host

    def pem(self) -> Pem:
        """Read anew for each connection; may block. Raises OSError."""


class GrpcChannel:
    """Calls to one server. To be used inside one running event loop."""

    def __init__(self, host: str, port: int, security: Security | None = None) -> None:
        """`security` is for https."""
        self._security = security
        shown = f"[{host}]" if ":" in host else host
        self.address = f"{shown}:{port}"
        self._pem: Pem | None = None
        self._channel: grpc.aio.Channel | None = None
        self._former: grpc.aio.Channel | None = None  # calls may still go on there
        self._renewing = asyncio.Lock()
        self._failed = False  # since the channel was made: certificates may have been renewed
        self._closed = False

    async def unary(self, path: str, request: bytes, timeout: float, metadata: Metadata = ()) -> bytes:
        """One request, one answer. `timeout`: seconds, the connecting included. Raises RpcError."""
        channel = self._channel
        if channel is None or self._failed or self._closed:
            channel = await self._usable()
        call = channel.unary_unary(path, None, None)(request, timeout=timeout, metadata=tuple(metadata))
        try:
            answer: bytes = await call
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.CancelledError) as error:
            raise self._error(error) from None
        return answer

    def begin(
        self,
        path: str,
        request: bytes,
        timeout: float,
        metadata: Metadata,
        on_answer: Callable[[bytes | RpcError], None],
    ) -> bool:
        """Never: grpc.aio has a task for each call in any case."""
        return False

    async def stream(self, path: str, metadata: Metadata = ()) -> "GrpcCall":
        """Open a bidirectional call. Raises RpcError."""
        channel = await self._usable()
        await self._connected(channel)
        return GrpcCall(channel, path, metadata, self._error)

    async def close(self) -> None:
        """Close all connections; calls under way fail."""
        self._closed = True
        for channel in (self._former, self._channel):
            if channel is not None:
                await channel.close(None)

    async def _usable(self) -> grpc.aio.Channel:
        """The channel, made anew if a call has failed on it and there are other certificates now."""
        async with self._renewing:
            if self._closed:
                raise RpcError("the channel is closed")
            if self._channel is not None and not self._failed:
                return self._channel
            try:
                pem = None if self._security is None else await asyncio.to_thread(self._security.pem)
            except OSError as error:
                raise RpcError(f"connecting to {self.address}: {error}") from None
            self._failed = False
            if self._channel is None or pem != self._pem:
                if self._former is not None:
                    await self._former.close(None)
                self._former, self._channel, self._pem = self._channel, self._make(pem), pem
            return self._channel

    def _make(self, pem: Pem | None) -> grpc.aio.Channel:
        # The thread that waits for grpc's sockets belongs to all channels: held once more for ever, since
        # the last one to go would join it and so block the loop.
        if not _held:
            grpc.aio.init_grpc_aio()  # type: ignore[attr-defined]
            _held.append(True)
        if pem is None or self._security is None:
            return grpc.aio.insecure_channel(self.address, options=_OPTIONS)
        name = self._security.server_name
        options = [*_OPTIONS, ("grpc.ssl_target_name_override", name)] if name else _OPTIONS
        credentials = grpc.ssl_channel_credentials(pem.authorities, pem.key, pem.certificate)
        return grpc.aio.secure_channel(self.address, credentials, options=options)

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

    def _error(self, error: BaseException) -> BaseException:
        """What a call's end is for the caller: RpcError, or its own cancellation."""
        if isinstance(error, asyncio.CancelledError):
            # grpc.aio raises it as well when the call was cancelled, by us or by the channel's end.
            task = asyncio.current_task()
            return error if task is not None and task.cancelling() else RpcError("cancelled")
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
        error: Callable[[BaseException], BaseException],
    ) -> None:
        """`error` says what the end of a call is for the caller."""
        self._error = error
        self._requests: asyncio.Queue[bytes] = asyncio.Queue()
        self._call: Any = channel.stream_stream(path, None, None)(self._messages(), metadata=tuple(metadata))

    async def _messages(self) -> AsyncIterator[bytes]:
        """What grpc.aio is to send: it waits for flow control, the writer does not."""
        while True:
            yield await self._requests.get()

    def write(self, message: bytes) -> None:
        """Send one message, as soon as flow control lets it. Raises RpcError if the stream is over."""
        if self._call.done():
            raise RpcError("the stream was ended")
        self._requests.put_nowait(message)

    async def listen(self, on_message: Callable[[bytes], None]) -> None:
        """Pass on the messages until the server ends the stream. Raises RpcError."""
        while True:
            try:
                message = await self._call.read()
            except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.CancelledError) as error:
                raise self._error(error) from None
            if message is grpc.aio.EOF:  # type: ignore[attr-defined]
                return
            on_message(bytes(message))

    def cancel(self) -> None:
        """End the stream; whoever listens gets RpcError. Nothing if it is over."""
        self._call.cancel()


_held: list[bool] = []
