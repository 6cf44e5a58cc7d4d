"""Texts inside binary values: their length in bytes, then UTF-8 that may hold surrogates.

Not jute's strings, which lose characters on the way: a client may send an encoded surrogate, and what a
value holds has to come back exactly.
"""

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError

from schema.errors import BadValue

_SIZE = Struct(">I")


def to_bytes(text: str) -> bytes:
    """UTF-8 for every str that Python can hold."""
    return text.encode("utf-8", "surrogatepass")


def to_text(raw: bytes) -> str:
    """The reverse of `to_bytes`. Raises BadValue."""
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise BadValue(f"text is not UTF-8: {error}") from None


def pack_texts(texts: Sequence[str]) -> bytes:
    """Texts one after another, each behind its length."""
    parts = []
    for text in texts:
        raw = to_bytes(text)
        parts.append(_SIZE.pack(len(raw)))
        parts.append(raw)
    return b"".join(parts)


class Fields:
    """Reads packed fields one after another. Every method raises BadValue where the bytes end too early."""

    __slots__ = ("_data", "_position", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._what = what  # names the bytes in errors
        self._position = 0

    @property
    def remaining(self) -> int:
        """How many bytes have not been read yet."""
        return len(self._data) - self._position

    def unpack(self, layout: Struct) -> tuple[int, ...]:
        """Fields of a fixed size."""
        try:
            fields = layout.unpack_from(self._data, self._position)
        except StructError:
            raise BadValue(f"{self._what} of {len(self._data)} bytes is cut short") from None
        self._position += layout.size
        return fields

    def size(self) -> int:
        """A count or a length."""
        return self.unpack(_SIZE)[0]

    def raw(self, size: int) -> bytes:
        """Bytes of a known number."""
        end = self._position + size
        if end > len(self._data):
            raise BadValue(f"{self._what} of {len(self._data)} bytes is cut short")
        part = self._data[self._position : end]
        self._position = end
        return part

    def text(self) -> str:
        """A text behind its length."""
        return to_text(self.raw(self.size()))

    def end(self) -> None:
        """Nothing may be left over."""
        if self.remaining:
            raise BadValue(f"{self._what} has {self.remaining} bytes more than it should")
