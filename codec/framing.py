"""Cuts the byte stream of one connection into frames. No frame is looked into here.

A frame is a 4-byte length and as many bytes. Limits are those of ZooKeeper's NIOServerCnxn.readLength: a
length of exactly jute.maxbuffer passes, one more or a negative one does not, and 0 is an (empty) frame.
"""

from codec.errors import FrameTooLong
from codec.jute import INT

# jute.maxbuffer's default on the server: BinaryInputArchive.maxBuffer.
DEFAULT_MAX_FRAME = 0xFFFFF

_int_at = INT.unpack_from


class Framer:
    """The frames of one connection, fed with whatever the socket gives. Useless once it has raised."""

    __slots__ = ("_max_frame", "_partial", "_wanted")

    def __init__(self, max_frame: int = DEFAULT_MAX_FRAME) -> None:
        self._max_frame = max_frame
        self._partial = bytearray()
        self._wanted = 0

    @property
    def held(self) -> bytes:
        """The bytes of an incomplete frame, its length included."""
        return bytes(self._partial)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads of the frames that `data` completes, and keep what is left over.

        Raises FrameTooLong, which carries the frames before the bad length, as soon as that length is there.
        """
        if self._partial:
            self._partial += data
            # A big frame arrives in many chunks: none of them is copied again before the frame is whole.
            if len(self._partial) < self._wanted:
                return []
            data = bytes(self._partial)
            self._partial.clear()
        frames: list[bytes] = []
        limit = self._max_frame
        size = len(data)
        last = size - 4
        position = 0
        wanted = 4
        while position <= last:
            (length,) = _int_at(data, position)
            if length < 0 or length > limit:
                raise FrameTooLong(length, limit, frames, data[position + 4 :])
            start = position + 4
            end = start + length
            if end > size:
                wanted = 4 + length
                break
            frames.append(data[start:end])
            position = end
        if position < size:
            self._partial += data[position:]
            self._wanted = wanted
        return frames
