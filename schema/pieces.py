"""A page of znodes that etcd does not take as one value: as pieces, which have consecutive numbers.

Only a page of one znode can be so large. Its data and its ACL come by requests of their own, so together they
may have more than any request.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from struct import error as StructError

from schema.compression import unwrap, wrap
from schema.errors import BadValue

PIECE_FORMAT = 0x50  # "P"
#: Of the largest value: etcd's 1.5 MiB (its --max-request-bytes) without what the Txn adds.
VALUE_BYTES = (1536 << 10) - 4096
_PIECE_BYTES = 1 << 20
_HEAD = Struct(">II")  # the piece's place, and how many there are
_WHAT = "a piece of a page"


def cut(pages: Iterable[bytes]) -> Iterator[bytes]:
    """The values for etcd: most pages as they are, the largest ones as pieces."""
    for page in pages:
        if len(page) <= VALUE_BYTES:
            yield page
            continue
        count = -(-len(page) // _PIECE_BYTES)
        for place in range(count):
            start = place * _PIECE_BYTES
            yield wrap(PIECE_FORMAT, page[start : start + _PIECE_BYTES], _HEAD.pack(place, count))


class Joiner:
    """Makes pages of values, which come one by one in the order of their numbers."""

    def __init__(self, *, within: bool = False) -> None:
        """`within`: the first values may be the last pieces of a page, which are left out."""
        self._within = within
        self._pieces: list[bytes] = []
        self.missing = 0  # pieces of the last page

    def add(self, value: bytes) -> bytes | None:
        """The page that is whole with this value, if one is. Raises BadValue."""
        if value[:1] != bytes((PIECE_FORMAT,)):
            if self.missing:
                raise BadValue(f"{self.missing} pieces of a page are missing")
            self._within = False
            return value
        head, body = unwrap(PIECE_FORMAT, value, _WHAT)
        try:
            place, count = _HEAD.unpack(head)
        except StructError:
            raise BadValue(f"{_WHAT} has a head of {len(head)} bytes") from None
        if self._within and place:
            return None
        self._within = False
        expected = len(self._pieces)
        if place != expected or count <= place or (expected and count != expected + self.missing):
            raise BadValue(f"{_WHAT} is number {place} of {count}, where {expected} should be")
        self._pieces.append(body)
        self.missing = count - place - 1
        if self.missing:
            return None
        page = b"".join(self._pieces)
        self._pieces = []
        return page


def join(values: Iterable[bytes]) -> Iterator[bytes]:
    """The pages of all values. Raises BadValue."""
    joiner = Joiner()
    for value in values:
        if (page := joiner.add(value)) is not None:
            yield page
    if joiner.missing:
        raise BadValue(f"{joiner.missing} pieces of a page are missing")
