"""Builds replies that may be very large although the request is small: piece by piece, up to a limit.

Pure. Without the limit, one multiRead that names a large node very often would use all memory, and so would a
list of a few hundred names of a megabyte.
"""

from io import BytesIO

from codec.constants import ErrorCode
from proxy.state.outcome import Refusal
from proxy.state.pause import BYTES_PER_STEP, Pause

#: Bytes of the body of a reply. A request whose reply is larger is refused: the client has to split it.
MOST = 16 << 20


class Body:
    """The body of one reply. Large pieces count as more steps of the pause."""

    __slots__ = ("_bytes", "_pause", "_size")

    def __init__(self, pause: Pause) -> None:
        self._bytes = BytesIO()  # it does not copy them again at the end
        self._pause = pause
        self._size = 0

    def add(self, *pieces: bytes) -> None:
        """Add pieces. Raises BADARGUMENTS if the body gets too large."""
        size = sum(map(len, pieces))
        self._size += size
        if self._size > MOST:
            raise Refusal(ErrorCode.BAD_ARGUMENTS)
        self._bytes.writelines(pieces)
        if size >= BYTES_PER_STEP:
            self._pause.spend(size // BYTES_PER_STEP)

    def whole(self, *rest: bytes) -> bytes:
        """The whole body, with a few last pieces that the limit does not count."""
        self._bytes.writelines(rest)
        return self._bytes.getvalue()
