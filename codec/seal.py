"""Seals: Adler-32 over all bytes before them in the uncompressed file, and how parts' sums combine."""

import zlib

from codec.jute import pack_string

# long adler32, ustring "/" (SnapStream.sealStream)
SEAL_SIZE = 13
_MODULUS = 65521
_MARK = pack_string("/")


def adler32_combine(first: int, second: int, second_length: int) -> int:
    """Adler-32 of the concatenation of two byte strings, from their own sums (as zlib's function)."""
    low = ((first & 0xFFFF) + (second & 0xFFFF) - 1) % _MODULUS
    high = ((first >> 16) + (second >> 16) + second_length * ((first & 0xFFFF) - 1)) % _MODULUS
    return high << 16 | low


def _seal(adler: int) -> bytes:
    """The seal's bytes."""
    return adler.to_bytes(8, "big") + _MARK


def sealed(raw: bytes) -> int | None:
    """The sum in a seal's 13 bytes; None if they are not a seal."""
    return int.from_bytes(raw[:8], "big") if len(raw) == SEAL_SIZE and raw[8:] == _MARK else None


def sealed_tail(adler: int, trailers: list[bytes]) -> bytes:
    """All that follows the nodes: a seal after them, and one after each trailer.

    `adler` is the sum of all bytes before.
    """
    tail = b""
    for trailer in [b"", *trailers]:
        adler = zlib.adler32(trailer, adler)
        mark = _seal(adler)
        adler = zlib.adler32(mark, adler)
        tail += trailer + mark
    return tail
