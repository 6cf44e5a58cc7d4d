"""The interface of a transport: channels, streams, their one error. Pure: no transport is implemented here.

`proxy.etcd.http2` is the transport that is always there (our own HTTP/2), `proxy.etcd.grpc_channel`
the standard one (grpcio); docs/decisions/0017 says when to use which.
"""

from collections.abc import Callable, Sequence
from typing import Protocol
from urllib.parse import quote

from proxy.support.controls import escaped

Metadata = Sequence[tuple[str, str]]


def is_socket(host: str) -> bool:
    """Whether a host is the absolute path of a Unix socket, which has no port."""
    return host.startswith("/")


def address_of(host: str, port: int) -> str:
    """HOST:PORT, as in a URL; of a Unix socket the whole URL."""
    if is_socket(host):
        return f"unix://{quote(host, safe='/:')}"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class RpcError(Exception):
    """A call that failed, with the server's words for it or our own."""

    def __init__(self, details: str) -> None:
        """The words get into the log: control characters of the server's are escaped."""
        self.details = escaped(details)
        super().__init__(self.details)


class TransportMissing(ValueError):
    """A transport whose library is not installed; the message says how to install it."""


class InFlight(Protocol):
    """A request that was sent, and may not have its answer yet."""

    def cancel(self) -> object:
        """The answer is not wanted any more: it is RpcError. Does nothing if it is there already."""


class ByteStream(Protocol):
    """An open bidirectional call."""

    def write(self, message: bytes) -> None:
        """Send one message as soon as flow control allows it. Raises RpcError if the stream is over."""

    async def listen(self, on_message: Callable[[bytes], None]) -> None:
        """Pass on the messages as they arrive, until the server ends the stream.

        Raises RpcError, and what `on_message` raises.
        """

    def cancel(self) -> None:
        """End the stream; `listen` raises RpcError."""


class Channel(Protocol):
    """Calls to one member of etcd. Connects when needed, and sends nothing twice."""

    address: str

    def begin(
        self,
        path: str,
        request: bytes,
        timeout: float,
        metadata: Metadata,
        on_answer: Callable[[bytes | RpcError], None],
    ) -> InFlight:
        """Send one request; its answer goes to a callback, once. `timeout`: seconds, with connecting."""

    async def stream(self, path: str, metadata: Metadata = ()) -> ByteStream:
        """Open a bidirectional call. Raises RpcError."""

    async def close(self) -> None:
        """Close all connections; calls under way fail with RpcError."""
