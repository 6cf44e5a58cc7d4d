"""Takes an input apart: numbers and pieces from its front, and a comparison that says what differs."""

from collections.abc import Iterator
from operator import attrgetter

from proof.fuzzing.target import Wrong

_MOST_IN_A_CHUNK = 31


class Pieces:
    """Reads an input from its front. What is missing at its end is 0 and empty: every input is good."""

    def __init__(self, data: bytes) -> None:
        self.rest = data

    def byte(self) -> int:
        """The next byte."""
        value, self.rest = self.rest[:1], self.rest[1:]
        return value[0] if value else 0

    def piece(self) -> bytes:
        """The next piece: two bytes of length, and as many bytes."""
        size = self.byte() << 8 | self.byte()
        value, self.rest = self.rest[:size], self.rest[size:]
        return value

    def raw(self, size: int) -> bytes:
        """The next `size` bytes, or what is left."""
        value, self.rest = self.rest[:size], self.rest[size:]
        return value


fields_of = attrgetter(
    "data", "acl", "owner", "czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "created", "aversion"
)
"""The fields of a znode, to compare it by."""


def same(what: str, one: object, other: object) -> None:
    """Raises Wrong unless both are equal."""
    if one != other:
        raise Wrong(f"{what}: {str(one)[:300]} is not {str(other)[:300]}")


def cut(data: bytes) -> Iterator[bytes]:
    """Pieces whose lengths depend on the bytes themselves."""
    at = 0
    while at < len(data):
        size = 1 + (data[at] * 7 + at) % _MOST_IN_A_CHUNK
        yield data[at : at + size]
        at += size
