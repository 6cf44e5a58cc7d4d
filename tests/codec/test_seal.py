"""Checksums and seals."""

import zlib

from hypothesis import example, given
from hypothesis import strategies as st

from codec.seal import adler32_combine


@given(st.binary(max_size=300), st.binary(max_size=300))
@example(b"\xff" * 70_000, b"\xfe" * 200_001)
def test_sums_of_parts_combine(first: bytes, second: bytes) -> None:
    combined = adler32_combine(zlib.adler32(first), zlib.adler32(second), len(second))
    assert combined == zlib.adler32(first + second)
