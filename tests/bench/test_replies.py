"""The reply checker, at every split, and against every kind of bad reply."""

import struct

import pytest

from bench.errors import BadReply
from bench.replies import ReplyChecker

SIZE = 30


def reply(xid: int, size: int = SIZE, error: int = 0) -> bytes:
    return struct.pack(">iiqi", size - 4, xid, 77, error) + b"\xff" * (size - 20)


@pytest.mark.parametrize("sizes", [(SIZE,), (SIZE, SIZE, 41)])
def test_counts_at_every_split(sizes: tuple[int, ...]) -> None:
    count = 7
    data = b"".join(reply(i + 1, sizes[i % len(sizes)]) for i in range(count))
    for split in range(len(data) + 1):
        checker = ReplyChecker(sizes)
        first = checker.feed(data[:split])
        assert first + checker.feed(data[split:]) == count


def test_counts_a_long_chunk_whose_xids_wrap() -> None:
    checker = ReplyChecker((SIZE,))
    assert checker.feed(b"".join(reply(i + 1) for i in range(10))) == 10
    assert checker.feed(b"".join(reply(i + 1) for i in range(10, 1000))) == 990


BAD = {
    "an error": reply(3, error=-101),
    "an error of full length": reply(3, size=SIZE, error=-4),
    "a short error": reply(3, size=20, error=-101),
    "a short success": reply(3, size=20),
    "a long reply": reply(3, size=SIZE + 256),
    "a swapped reply": reply(4),
    "a repeated reply": reply(2),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("sizes", [(SIZE,), (SIZE, SIZE, SIZE, SIZE)])
@pytest.mark.parametrize("followers", [0, 1, 5])
def test_refuses(bad: bytes, sizes: tuple[int, ...], followers: int) -> None:
    data = reply(1) + reply(2) + bad + b"".join(reply(4 + i) for i in range(followers))
    with pytest.raises(BadReply, match="reply 2"):
        ReplyChecker(sizes).feed(data)


def test_refuses_a_short_error_that_nothing_follows() -> None:
    checker = ReplyChecker((88,))
    with pytest.raises(BadReply, match="error -101"):
        checker.feed(reply(1, size=20, error=-101))
