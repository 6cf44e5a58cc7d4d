"""addWatch: a watch that stays until it is removed (FinalRequestProcessor, case addWatch)."""

from codec.constants import AddWatchMode, ErrorCode
from codec.jute import INT, Reader
from proxy.state.operation import Client, Reading
from proxy.state.refusal import Refusal

_DONE = INT.pack(ErrorCode.OK)
_MODES = frozenset(AddWatchMode)


def add_watch(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """Watch a path, whether or not it has a node or may be read; the body is an ErrorResponse."""
    reader = Reader(frame, position)
    path, mode = reader.string(), reader.int()
    if mode not in _MODES:  # WatcherMode.fromZooDef fails
        raise Refusal(ErrorCode.MARSHALLING_ERROR)
    recursive = mode == AddWatchMode.PERSISTENT_RECURSIVE
    reading.watches.add_lasting(path, client, recursive=recursive)
    return _DONE
