"""The envelope of entries and pages: what goes in comes out, within bounds; damage is refused."""

import random
from struct import Struct
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schema import compression
from schema.compression import COMPRESS_FROM, ENVELOPE_SIZE, MAX_BODY, ZSTD_FROM, unwrap, unwrap_head, wrap
from schema.errors import BadValue
from tests.schema.damage import assert_all_damage_is_refused
from tests.table import one_by_one

_ENVELOPE = Struct(">BIBII")


def _forged(compression_byte: int, head_size: int, size: int, rest: bytes) -> bytes:
    """A value whose checksum is right and whose numbers may be wrong."""
    covered = Struct(">BII").pack(compression_byte, head_size, size) + rest
    return Struct(">BI").pack(7, crc32(covered)) + covered


@given(st.integers(0, 255), st.binary(max_size=300), st.binary(max_size=20), st.integers(0, 40))
def test_a_value_comes_back(format_byte: int, part: bytes, head: bytes, times: int) -> None:
    value = wrap(format_byte, part * times, head)
    assert unwrap(format_byte, value, "it") == (head, part * times)
    assert unwrap_head(format_byte, value, "it") == head
    assert len(value) <= ENVELOPE_SIZE + len(head) + len(part) * times


def test_a_small_value_byte_for_byte() -> None:
    covered = b"\0" + (4).to_bytes(4, "big") + (4).to_bytes(4, "big") + b"headbody"
    assert wrap(7, b"body", b"head") == b"\x07" + crc32(covered).to_bytes(4, "big") + covered


def test_only_what_is_large_and_becomes_smaller_is_compressed() -> None:
    noise = random.Random(1).randbytes(ZSTD_FROM)
    for body, compressed in (
        *((b"x" * (COMPRESS_FROM - 1), 0), (b"x" * COMPRESS_FROM, 2)),
        *((b"x" * (ZSTD_FROM - 1), 2), (b"x" * ZSTD_FROM, 1)),
        *((noise[:COMPRESS_FROM], 0), (noise, 0), (noise[:COMPRESS_FROM] * (ZSTD_FROM // COMPRESS_FROM), 1)),
    ):
        value = wrap(7, body)
        assert _ENVELOPE.unpack_from(value)[2] == compressed
        assert unwrap(7, value, "it") == (b"", body)


@pytest.mark.parametrize("body", [b"", b"body", bytes(range(256)) * 16])
def test_all_damage_is_refused(body: bytes) -> None:
    assert_all_damage_is_refused(lambda value: unwrap(7, value, "it"), wrap(7, body, b"head"))
    assert_all_damage_is_refused(lambda value: unwrap_head(7, value, "it"), wrap(7, body, b"head"))


def test_another_format_is_refused() -> None:
    with pytest.raises(BadValue, match="it has format 0x08; this release reads 0x07"):
        unwrap(7, wrap(8, b"body"), "it")


def test_a_body_that_no_reader_would_decompress_is_stored_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "MAX_BODY", 10_000)
    assert len(wrap(7, bytes(10_000))) < 1000
    value = wrap(7, bytes(10_001))
    assert len(value) > 10_000
    assert unwrap(7, value, "it") == (b"", bytes(10_001))


_ZEROS = wrap(7, bytes(5000))[ENVELOPE_SIZE:]
_MANY_ZEROS = wrap(7, bytes(70_000))[ENVELOPE_SIZE:]


@one_by_one(
    ("value", "message"),
    [
        (b"\x07", "it of 1 bytes is cut short"),
        (_forged(0, 0, 5, b"body"), "announces a body of 5 bytes and has 4"),
        (_forged(0, 5, 0, b"body"), "announces a head of 5 bytes"),
        (_forged(3, 0, 4, b"body"), "compression 3; this release reads 0 to 2"),
        (_forged(1, 0, 4, b"body"), "cannot be decompressed"),
        (_forged(1, 0, 0, b""), "cannot be decompressed"),
        (_forged(2, 0, 4, b"body"), "cannot be decompressed"),
        (_forged(2, 0, 0, b""), "cannot be decompressed"),
        (_forged(1, 0, 70_000, _MANY_ZEROS[:-1]), "cannot be decompressed"),
        (_forged(1, 0, 69_999, _MANY_ZEROS), "cannot be decompressed to 69999 bytes"),
        (_forged(1, 0, 70_001, _MANY_ZEROS), "announces a body of 70001 bytes and decompresses to 70000"),
        (_forged(2, 0, 5000, _ZEROS[:-1]), "cannot be decompressed"),
        (_forged(2, 0, 4999, _ZEROS), "cannot be decompressed to 4999 bytes"),
        (_forged(2, 0, 5001, _ZEROS), "announces a body of 5001 bytes and decompresses to 5000"),
        (_forged(1, 0, MAX_BODY + 1, _ZEROS), f"announces a body of {MAX_BODY + 1} bytes; the limit is"),
        (_forged(2, 0, 0xFFFFFFFF, _ZEROS), "the limit is"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(value: bytes, message: str) -> None:
    with pytest.raises(BadValue, match=message):
        unwrap(7, value, "it")
