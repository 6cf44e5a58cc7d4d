"""Builds replies that may be very large although the request is small: piece by piece, up to a limit.

Pure. Without the limit, one multiRead that names a large node very often would use all memory.
"""

from codec.constants import ErrorCode
from proxy.state.outcome import Refusal

# More pieces than these are joined early, since joining very many at the end is slow.
_LOOSE = 2048

#: Bytes of the body of a reply. A request whose reply is larger is refused: the client has to split it.
MOST = 64 << 20


class Body:
    """The pieces of one reply's body."""

    __slots__ = ("_joined", "_pieces", "_size")

    def __init__(self) -> None:
        self._joined: list[bytes] = []
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, *pieces: bytes) -> None:
        """Add pieces. Raises BADARGUMENTS if the body gets too large."""
        self._size += sum(map(len, pieces))
        if self._size > MOST:
            raise Refusal(ErrorCode.BAD_ARGUMENTS)
        self._pieces += pieces
        if len(self._pieces) >= _LOOSE:
            self._joined.append(b"".join(self._pieces))
            self._pieces.clear()

    def whole(self, *rest: bytes) -> bytes:
        """The whole body, with a few last pieces that the limit does not count."""
        return b"".join((*self._joined, *self._pieces, *rest))
