"""Counting and checking replies at the speed of the generator. Pure: bytes in, a count out."""

from collections.abc import Sequence

from bench import wire
from bench.errors import BadReply

XIDS = 256
"""Only the lowest byte of an xid is compared: enough to see a lost or swapped reply."""


class ReplyChecker:
    """Checks the replies of one connection, whose sizes (with length prefix) repeat in a known cycle.

    Successful replies of the bench's requests have sizes known beforehand, so a reply of another size is an
    error. Of every reply the length prefix, the xid (lowest byte, counting from 1) and the sign of the error
    field are checked; with one size for all of them a whole chunk takes a few strided slices, however many
    replies it holds.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = tuple(sizes)
        self._size = sizes[0] if len(sizes) == 1 else 0
        self._rest = b""
        self._seen = 0
        length = wire.INT.pack(sizes[0] - 4)
        self._length_bytes = tuple(enumerate(length))
        # Twice the cycle of low bytes, so that a slice from any start has up to 256 of them without wrapping.
        self._xids = bytes(range(XIDS)) * 2

    def feed(self, data: bytes) -> int:
        """The number of replies that `data` completes; raises BadReply for anything but success in order."""
        if self._rest:
            data = self._rest + data
        used, count = self._strided(data) if self._size else self._stepwise(data)
        self._rest = rest = data[used:]
        if len(rest) >= wire.REPLY_SIZE:
            # A short error reply would otherwise wait for ever for the bytes of a successful one.
            self._check_one(rest, 0, self._seen)
        return count

    def _strided(self, data: bytes) -> tuple[int, int]:
        size = self._size
        count = len(data) // size
        if count == 1:
            self._check_one(data, 0, self._seen)
            self._seen += 1
            return size, 1
        position = 0
        left = count
        while left:
            part = min(left, XIDS)
            end = position + part * size
            first = (self._seen + 1) % XIDS
            good = (
                all(data[position + i : end : size].count(byte) == part for i, byte in self._length_bytes)
                and data[position + 16 : end : size].count(0) == part
                and data[position + 7 : end : size] == self._xids[first : first + part]
            )
            if not good:
                self._blame(data, position, part)
            self._seen += part
            position = end
            left -= part
        return position, count

    def _stepwise(self, data: bytes) -> tuple[int, int]:
        sizes = self._sizes
        position = count = 0
        while len(data) - position >= (size := sizes[self._seen % len(sizes)]):
            self._check_one(data, position, self._seen)
            position += size
            count += 1
            self._seen += 1
        return position, count

    def _check_one(self, data: bytes, position: int, index: int) -> None:
        length, xid, _zxid, error = wire.REPLY.unpack_from(data, position)
        expected = self._sizes[index % len(self._sizes)] - 4
        if error or length != expected or (xid ^ (index + 1)) & 0xFF:
            raise BadReply(
                f"reply {index}: length {length} (success has {expected}), xid {xid}, error {error}; "
                f"packet starts {data[position : position + 40].hex()}"
            )

    def _blame(self, data: bytes, position: int, count: int) -> None:
        for i in range(count):
            self._check_one(data, position + i * self._size, self._seen + i)
        raise AssertionError("the strided check refused replies that are good one by one")
