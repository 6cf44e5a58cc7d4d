"""Jute, ZooKeeper's serialisation: its primitive types, read from and packed into bytes.

Only primitives and the ACL (which ZooKeeper counts among its shared data) live here; whole records are in
packets.py and keeper.py. Facts are those of ZooKeeper's BinaryInputArchive and BinaryOutputArchive.
"""

import ctypes
import re
from collections.abc import Collection, Iterable
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from codec.errors import MalformedPacket, NullString
from codec.named import new_tuple

INT = Struct(">i")
LONG = Struct(">q")

NULL = INT.pack(-1)

# Which bytes an encoded surrogate has in its first, second and third place.
_OF_SURROGATES = [
    bytes(byte in found for byte in range(256))
    for found in (range(0xED, 0xEE), range(0xA0, 0xC0), range(0x80, 0xC0))
]
_KEPT = b"\xff" + bytes(255)
# U+FFFD, and for an encoded surrogate without its last byte the beginning of another character.
_PUT = b"\0\xef\xbf\xbd\xe1\x80".ljust(256, b"\0")
_SUPPLEMENTARY = re.compile("[\U00010000-\U0010ffff]")

Item = TypeVar("Item")
Number: TypeAlias = int  # within Reader the name `int` is a method


class _NoText(str):
    """A null scheme or id: written as an empty text, but equal to no text."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __reduce__(self) -> str:
        return "NO_TEXT"  # a copy is the same object


#: The null scheme or id of an ACL that a client sent. No stored ACL has it: `proxy.state.acl` refuses it.
NO_TEXT: Final[str] = _NoText()


PERMISSIONS = "rwcda"
"""The letters of ZooKeeper's shell, by bit."""


class Acl(NamedTuple):
    """One entry of an ACL, its Id flattened into it."""

    perms: int
    scheme: str
    id: str

    @property
    def letters(self) -> str:
        """The permissions as ZooKeeper's shell reads them."""
        return "".join(letter for bit, letter in enumerate(PERMISSIONS) if self.perms & 1 << bit)

    @property
    def text(self) -> str:
        """SCHEME:ID:PERMISSIONS, as ZooKeeper's shell reads an entry."""
        return f"{self.scheme}:{self.id}:{self.letters}"


OPEN_ACL: Final[tuple[Acl, ...]] = (Acl(31, "world", "anyone"),)
"""All permissions for all clients. Readers return this very object: the hot path compares with `is`."""


def to_text(raw: bytes) -> str:
    """Decode as Java's `new String(raw, UTF_8)` does: what is not UTF-8 becomes U+FFFD, nothing fails."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return (_plain(raw) if b"\xed" in raw else raw).decode(errors="replace")


def _plain(raw: bytes) -> bytes:
    """The same bytes, but encoded surrogates are replaced by what Python decodes as one U+FFFD.

    Each byte of an encoded surrogate is an error of its own to Python; to Java all are one, even if the last
    is missing. Java clients send such bytes for characters beyond U+FFFF (see from_text). In all else the two
    agree: test_jute.py asks a real server. All bytes are compared at once, as one large number: a search for
    each surrogate takes four times as long, 0.2 s for a path of a megabyte.
    """
    size = len(raw)
    first, second, third = (int.from_bytes(raw.translate(table)) for table in _OF_SURROGATES)
    # One at the first byte of each surrogate of two or three bytes, of three, and of two.
    all_of_them = first & second << 8
    of_three = all_of_them & third << 16
    of_two = all_of_them ^ of_three
    # For each byte its place among those that are put, or 0 for one that is kept.
    places = of_three + (of_three >> 8) * 2 + (of_three >> 16) * 3 + of_two * 4 + (of_two >> 8) * 5
    which = places.to_bytes(size)
    kept = int.from_bytes(raw) & int.from_bytes(which.translate(_KEPT))
    return (kept | int.from_bytes(which.translate(_PUT))).to_bytes(size)


def from_text(text: str) -> bytes:
    """Encode as BinaryOutputArchive.stringToByteBuffer does: each UTF-16 unit on its own (CESU-8).

    For characters up to U+FFFF that is UTF-8; those beyond become two encoded surrogates.
    """
    if text.isascii() or _SUPPLEMENTARY.search(text) is None:
        return text.encode(errors="surrogatepass")
    # A call for each character would take 0.4 s for the largest id of an ACL. Codecs join two surrogates, but
    # an array of wide characters is taken unit by unit.
    units = text.encode("utf-16-le", "surrogatepass")
    wide = bytearray(2 * len(units))
    wide[::4], wide[1::4] = units[::2], units[1::2]
    buffer = (ctypes.c_char * len(wide)).from_buffer(wide)
    return ctypes.wstring_at(buffer, len(wide) // ctypes.sizeof(ctypes.c_wchar)).encode(
        errors="surrogatepass"
    )


class Steps(Protocol):
    """What a loop that can be long goes over, so that other work may run between its steps."""

    def each(self, items: Collection[Item]) -> Iterable[Item]:
        """The items."""


class _Straight:
    @staticmethod
    def each(items: Collection[Item]) -> Iterable[Item]:
        return items


STRAIGHT: Steps = _Straight()
"""No other work runs."""


# The schemes of nearly all entries, each one text for all of them.
_SCHEMES = {scheme.encode(): scheme for scheme in ("world", "auth", "digest", "ip", "x509", "sasl")}
_two_ints_at = Struct(">ii").unpack_from
_int_at = INT.unpack_from


class Reader:
    """Reads one jute value after another. Every method raises MalformedPacket where ZooKeeper's fails.

    Bytes left over at the end are no error: ZooKeeper ignores them. `steps`: for the entries of an ACL.
    """

    __slots__ = ("_steps", "data", "position")

    def __init__(self, data: bytes, position: Number = 0, steps: Steps = STRAIGHT) -> None:
        self.data = data
        self.position = position
        self._steps = steps

    @property
    def remaining(self) -> Number:
        """How many bytes have not been read yet."""
        return len(self.data) - self.position

    def int(self) -> Number:
        """A signed 32-bit number."""
        try:
            value: Number = INT.unpack_from(self.data, self.position)[0]
        except StructError:
            raise MalformedPacket("cut within an int") from None
        self.position += 4
        return value

    def long(self) -> Number:
        """A signed 64-bit number."""
        try:
            value: Number = LONG.unpack_from(self.data, self.position)[0]
        except StructError:
            raise MalformedPacket("cut within a long") from None
        self.position += 8
        return value

    def byte(self) -> Number:
        """A signed 8-bit number."""
        value = self._next()
        return value - 256 if value > 127 else value

    def boolean(self) -> bool:
        """A boolean: any byte but 0 is true (java.io.DataInput.readBoolean)."""
        return self._next() != 0

    def _next(self) -> Number:
        try:
            value = self.data[self.position]
        except IndexError:
            raise MalformedPacket("cut before a byte") from None
        self.position += 1
        return value

    def buffer(self) -> bytes | None:
        """Bytes after their length; length -1 is null, anything lower an error (checkLength)."""
        position = self.position
        try:
            length: Number = INT.unpack_from(self.data, position)[0]
        except StructError:
            raise MalformedPacket("cut within a length") from None
        start = position + 4
        if length < 0:
            if length != -1:
                raise MalformedPacket(f"unreasonable length {length}")
            self.position = start
            return None
        # checkLength also refuses more than jute.maxbuffer and zookeeper.jute.maxbuffer.extrasize together,
        # but no frame is longer than jute.maxbuffer: such a buffer is cut short anyway, with the same answer.
        end = start + length
        if end > len(self.data):
            raise MalformedPacket(f"cut within {length} bytes")
        self.position = end
        return self.data[start:end]

    def string(self) -> str | None:
        """Text after its length in bytes, null and errors as `buffer`; bad UTF-8 is no error (to_text)."""
        raw = self.buffer()
        return None if raw is None else to_text(raw)

    def strings(self) -> list[str | None] | None:
        """Strings after their count, each of which may be null, as the whole."""
        count = self.count()
        return None if count is None else [self.string() for _ in range(count)]

    def acls(self) -> tuple[Acl, ...] | None:
        """ACL entries after their count, each of whose texts may be `NO_TEXT`; None for a null count."""
        if self.data.startswith(OPEN_ACL_PACKED, self.position):
            self.position += OPEN_ACL_SIZE
            return OPEN_ACL
        count = self.count()
        return None if count is None else tuple([self.acl() for _ in self._steps.each(range(count))])

    def acl(self) -> Acl:
        """An entry of an ACL, as `acls` returns them."""
        # Most entries are whole and hold no null. A request may have 65,000: this takes half of the time.
        data, position = self.data, self.position
        try:
            perms, size = _two_ints_at(data, position)
            middle = position + 8 + size
            length: Number = _int_at(data, middle)[0]
        except StructError:
            return self._careful_acl()
        start = middle + 4
        end = start + length
        if size < 0 or length < 0 or end > len(data):
            return self._careful_acl()
        self.position = end
        raw = data[position + 8 : middle]
        scheme = _SCHEMES.get(raw)
        if scheme is None:
            scheme = to_text(raw)
        return new_tuple(Acl, (perms, scheme, to_text(data[start:end])))

    def _careful_acl(self) -> Acl:
        perms, scheme, identity = self.int(), self.string(), self.string()
        return Acl(perms, NO_TEXT if scheme is None else scheme, NO_TEXT if identity is None else identity)

    def text(self) -> str:
        """A string that must be there. Raises NullString for null."""
        value = self.string()
        if value is None:
            raise NullString("a string is null", self.position)
        return value

    def count(self) -> Number | None:
        """The length of a vector: -1 is null, anything lower counts as 0 (BinaryInputArchive.startVector)."""
        count = self.int()
        return None if count == -1 else max(count, 0)


def pack_string(text: str | None) -> bytes:
    """Text with its length in bytes before it, or null."""
    if text is None:
        return NULL
    raw = text.encode() if text.isascii() else from_text(text)
    return INT.pack(len(raw)) + raw


def pack_buffer(data: bytes | None) -> bytes:
    """Bytes with their length before them, or null."""
    return NULL if data is None else INT.pack(len(data)) + data


def pack_strings(texts: Collection[str]) -> bytes:
    """A vector of strings."""
    parts = [INT.pack(len(texts))]
    for text in texts:
        raw = from_text(text)
        parts.append(INT.pack(len(raw)))
        parts.append(raw)
    return b"".join(parts)


def pack_acls(acls: Collection[Acl], steps: Steps = STRAIGHT) -> bytes:
    """A vector of ACL entries."""
    parts = [INT.pack(len(acls))]
    for perms, scheme, name in steps.each(acls):
        parts += (INT.pack(perms), pack_string(scheme), pack_string(name))
    return b"".join(parts)


# What nearly every client sends as the ACL of a create, recognised whole instead of field by field.
OPEN_ACL_PACKED = pack_acls(OPEN_ACL)
OPEN_ACL_SIZE = len(OPEN_ACL_PACKED)
