"""Data that differ."""

import zlib

from bench.data import SIZE, data


def test_data_differ_and_hardly_compress() -> None:
    each = [data(number) for number in range(5_000)]
    assert {len(one) for one in each} == {SIZE}
    assert len(set(each)) == len(each)
    together = b"".join(each)
    assert len(zlib.compress(together)) > 0.5 * len(together)
