"""Streams of requests."""

import pytest

from bench.streams import RepeatedStream, UniqueStream


def test_repeated_stream_goes_round() -> None:
    requests = [b"%d," % i for i in range(256)]
    stream = RepeatedStream(requests, (20,))
    assert stream.take(250) == b"".join(requests[:250])
    assert stream.take(10) == b"".join(requests[250:] + requests[:4])
    assert stream.take(256) == b"".join(requests[4:] + requests[:4])
    assert stream.remaining > 10**9


def test_repeated_stream_refuses_a_period_that_breaks_the_xids() -> None:
    with pytest.raises(ValueError, match="multiple of 256"):
        RepeatedStream([b""] * 100, (20,))


def test_unique_stream_ends() -> None:
    stream = UniqueStream(lambda i: b"%d," % i, (20,), 5)
    assert stream.take(1) == b"0,"
    assert stream.take(3) == b"1,2,3,"
    assert stream.remaining == 1
