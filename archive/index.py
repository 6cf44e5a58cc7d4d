"""Which paths a segment changes: a Bloom filter. It may say yes for a path that is not there, and never no
for one that is. Pure.

Besides each path, the filter has every node above it as an ancestor: one look-up answers for a subtree.
"""

import hashlib
from collections.abc import Iterator, Set

from schema.compression import seal, unseal
from schema.errors import BadValue
from schema.paths import ROOT, parent_of
from schema.text import to_bytes

_FORMAT = 0x42  # "B"
_BITS = 10  # for each path: one wrong yes in a hundred
_HASHES = 7
_LEAST = 512  # bits


def encode(paths: Set[str]) -> bytes:
    """The file."""
    words = set[bytes]()
    for path in paths:
        words.add(_changed(path))
        while path != ROOT:
            path = parent_of(path)
            word = _above(path)
            if word in words:
                break
            words.add(word)
    size = max(_LEAST, _BITS * len(words))
    bits = bytearray((size + 7) // 8)
    for word in words:
        for bit in _bits_of(word, len(bits) * 8):
            bits[bit >> 3] |= 1 << (bit & 7)
    return seal(_FORMAT, bytes(bits))


class Index:
    """A decoded file."""

    def __init__(self, value: bytes) -> None:
        """Raises BadValue."""
        _, self._bits = unseal(_FORMAT, value, "an index")
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


def _bits_of(word: bytes, size: int) -> Iterator[int]:
    """Two halves of one hash give all places (Kirsch and Mitzenmacher)."""
    hashed = hashlib.blake2b(word, digest_size=16).digest()
    one, other = int.from_bytes(hashed[:8]), int.from_bytes(hashed[8:]) | 1
    return ((one + number * other) % size for number in range(_HASHES))
