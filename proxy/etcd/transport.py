"""The interface of a transport: channels, calls, their one error. No transport is implemented here.

`proxy.etcd.channel` is the transport that is always there (HTTP/2 of our own), `proxy.etcd.grpc_channel` the
other (grpcio); docs/decisions/0017 says when to use which.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

Metadata = Sequence[tuple[str, str]]

HTTP2 = "http2"
GRPCIO = "grpcio"
TRANSPORTS = (HTTP2, GRPCIO)


class RpcError(Exception):
    """A call that failed, with the server's words for it or our own."""

    def __init__(self, details: str) -> None:
        super().__init__(details)
        self.details = details


class TransportMissing(ValueError):
    """A transport whose library is not installed; the message says how to install it."""


class Pem(NamedTuple):
    """Authorities, and a client certificate with its key if there is one, in PEM."""

    authorities: bytes
    certificate: bytes | None
    key: bytes | None


class AnyCall(Protocol):
    """An open bidirectional stream."""

    def write(self, message: bytes) -> None:
        """Send one message as soon as flow control allows it. Raises RpcError if the stream is over."""

    async def listen(self, on_message: Callable[[bytes], None]) -> None:
        """Pass on the messages as they come, until the server ends the stream.

        Raises RpcError, and what `on_message` raises.
        """

    def cancel(self) -> None:
        """End the stream; `listen` raises RpcError."""


class AnyChannel(Protocol):
    """Calls to one member. The bench has one of its own, which connects to nothing."""

    address: str

    async def unary(self, path: str, request: bytes, timeout: float, metadata: Metadata = ()) -> bytes:
        """One request, one answer. `timeout` is in seconds and includes connecting. Raises RpcError."""

    def begin(
        self,
        path: str,
        request: bytes,
        timeout: float,
        metadata: Metadata,
        on_answer: Callable[[bytes | RpcError], None],
    ) -> bool:
        """As `unary`, but the answer goes to a callback. False: nothing was done, `unary` has to be used."""

    async def stream(self, path: str, metadata: Metadata = ()) -> AnyCall:
        """Open a bidirectional stream. Raises RpcError."""

    async def close(self) -> None:
        """Close all connections; calls under way fail with RpcError."""
