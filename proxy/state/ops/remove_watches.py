"""removeWatches: removes the connection's watches of some type from a path (FinalRequestProcessor).

The server sends no event: clients make DataWatchRemoved and similar events themselves.
"""

from codec.constants import ErrorCode
from codec.jute import Reader
from proxy.state.operation import Client, Reading
from proxy.state.ops.check_watches import read_type
from proxy.state.refusal import Refusal


def remove_watches(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """Nothing, or NOWATCHER."""
    path, kind = read_type(Reader(frame, position))
    if not reading.watches.remove(path, client, kind):
        raise Refusal(ErrorCode.NO_WATCHER)
    return b""
