"""checkWatches: whether the connection has a watch of some type on a path (FinalRequestProcessor)."""

from codec.constants import ErrorCode, WatcherType
from codec.jute import Reader
from proxy.state.operation import Client, Reading
from proxy.state.refusal import Refusal

_TYPES = frozenset(WatcherType)


def read_type(reader: Reader) -> tuple[str | None, WatcherType]:
    """The path and type of checkWatches and removeWatches. WatcherType.fromInt fails on other types."""
    path, kind = reader.string(), reader.int()
    if kind not in _TYPES:
        raise Refusal(ErrorCode.MARSHALLING_ERROR)
    return path, WatcherType(kind)


def check_watches(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """Nothing, or NOWATCHER."""
    path, kind = read_type(Reader(frame, position))
    if not reading.watches.holds(path, client, kind):
        raise Refusal(ErrorCode.NO_WATCHER)
    return b""
