"""Which paths a segment changes: a Bloom filter. It may say yes for a path that is not there, and never no
for one that is. Pure.

Besides each path, the filter has every node above it as an ancestor: one look-up answers for a subtree.
"""

import hashlib
from collections.abc import Iterator, Set
from itertools import chain
from struct import Struct

from schema.compression import unwrap, wrap
from schema.errors import BadValue
from schema.paths import ROOT, parent_of
from schema.text import to_bytes

_FORMAT = 0x42  # "B"
_BITS = 10  # for each path: one wrong yes in a hundred
_REPEATED = range(7)  # hashes of each
_LEAST = 512  # bits
_PAIR = Struct(">QQ")
_ONE = ord("1")


def encode(paths: Set[str]) -> bytes:
    """The file."""
    above = set[str]()
    for path in paths:
        while path != ROOT:
            path = parent_of(path)
            if path in above:
                break
            above.add(path)
    count = len(paths) + len(above)
    size = -(-max(_LEAST, _BITS * count) // 8) * 8
    # A digit for each bit: to set one costs less than in a byte of eight.
    digits = bytearray(b"0") * size
    for word in chain(map(_changed, paths), map(_above, above)):
        bit, step = _halves(word)
        for _ in _REPEATED:
            digits[-1 - bit % size] = _ONE
            bit += step
    return wrap(_FORMAT, int(digits, 2).to_bytes(size // 8, "little"))


class Index:
    """A decoded file."""

    def __init__(self, value: bytes) -> None:
        """Raises BadValue."""
        _, self._bits = unwrap(_FORMAT, value, "an index")
        if not self._bits:
            raise BadValue("an index is empty")

    def may_change(self, path: str, *, recursive: bool = False) -> bool:
        """Whether the segment may change the node, or one below it."""
        return self._has(_changed(path)) or (recursive and self._has(_above(path)))

    def _has(self, word: bytes) -> bool:
        return all(self._bits[bit >> 3] & 1 << (bit & 7) for bit in _bits_of(word, len(self._bits) * 8))


def _changed(path: str) -> bytes:
    return b"=" + to_bytes(path)


def _above(path: str) -> bytes:
    return b"<" + to_bytes(path)


def _halves(word: bytes) -> tuple[int, int]:
    """Two halves of one hash give all places (Kirsch and Mitzenmacher): the first one, and the step."""
    first, step = _PAIR.unpack(hashlib.blake2b(word, digest_size=_PAIR.size).digest())
    return first, step | 1


def _bits_of(word: bytes, size: int) -> Iterator[int]:
    first, step = _halves(word)
    return ((first + number * step) % size for number in _REPEATED)
