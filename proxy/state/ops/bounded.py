"""Replies that a small request can make very large: built piece by piece, up to a limit.

Pure. Without the limit, one multiRead that names a large node very often would use all memory.
"""

from codec.constants import ErrorCode
from proxy.state.refusal import Refusal

# Pieces that are kept by themselves: to join very many at the end takes long.
_LOOSE = 2048

#: Bytes of the body of a reply; a client that reads more at once has to ask for less at a time.
MOST = 64 << 20


class Body:
    """The pieces of one reply's body."""

    __slots__ = ("_joined", "_pieces", "_size")

    def __init__(self) -> None:
        self._joined: list[bytes] = []
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, *pieces: bytes) -> None:
        """Add pieces. Raises BADARGUMENTS where they are too much."""
        self._size += sum(map(len, pieces))
        if self._size > MOST:
            raise Refusal(ErrorCode.BAD_ARGUMENTS)
        self._pieces += pieces
        if len(self._pieces) >= _LOOSE:
            self._joined.append(b"".join(self._pieces))
            self._pieces.clear()

    def whole(self, *rest: bytes) -> bytes:
        """All of it, and a last few pieces that no bound is meant for."""
        return b"".join((*self._joined, *self._pieces, *rest))
