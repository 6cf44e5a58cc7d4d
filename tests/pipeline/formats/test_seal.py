"""Checksums and seals."""

import zlib

from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.formats.seal import SEAL_SIZE, adler32_combine, seal, sealed, sealed_tail


@given(st.binary(max_size=300), st.binary(max_size=300))
@example(b"\xff" * 70_000, b"\xfe" * 200_001)
def test_sums_of_parts_combine(first: bytes, second: bytes) -> None:
    combined = adler32_combine(zlib.adler32(first), zlib.adler32(second), len(second))
    assert combined == zlib.adler32(first + second)


def test_a_seal_reads_back() -> None:
    assert sealed(seal(0xFFFFFFFF)) == 0xFFFFFFFF
    assert len(seal(1)) == SEAL_SIZE
    assert sealed(seal(1)[:-1] + b"x") is None
    assert sealed(seal(1)[:-1]) is None


def test_each_seal_covers_all_before_it() -> None:
    nodes = b"nodes"
    tail = sealed_tail(zlib.adler32(nodes), [b"digest", b"zxid"])
    whole = nodes + tail
    for trailer in (b"", b"digest", b"zxid"):
        at = whole.index(trailer, 5) + len(trailer)
        assert sealed(whole[at : at + SEAL_SIZE]) == zlib.adler32(whole[:at])
