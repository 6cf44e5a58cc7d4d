"""Every way in which the bytes of a connection may arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.errors import FrameTooLong
from codec.framing import DEFAULT_MAX_FRAME, Framer
from codec.jute import INT, pack_buffer
from tests.table import one_by_one

FRAMES = st.lists(st.binary(max_size=30), max_size=6)


@given(FRAMES)
def test_every_split_point_gives_the_same_frames(frames: list[bytes]) -> None:
    stream = b"".join(map(pack_buffer, frames))
    for split in range(len(stream) + 1):
        framer = Framer()
        assert framer.feed(stream[:split]) + framer.feed(stream[split:]) == frames
        assert framer.held == b""


@one_by_one("length", [-1, -(2**31), 11, 2**31 - 1])
@one_by_one("split", range(12))
def test_a_bad_length_is_refused_with_the_frames_before_it(length: int, split: int) -> None:
    framer = Framer(max_frame=10)
    stream = pack_buffer(b"good") + INT.pack(length)
    before_the_end = stream[:-1][:split]
    got = framer.feed(before_the_end)
    with pytest.raises(FrameTooLong) as caught:
        framer.feed(stream[len(before_the_end) :])
    assert got + caught.value.frames == [b"good"]
    assert (caught.value.length, caught.value.limit) == (length, 10)


def test_a_frame_of_exactly_the_limit_passes() -> None:
    frame = bytes(DEFAULT_MAX_FRAME)
    assert Framer().feed(pack_buffer(frame)) == [frame]
    with pytest.raises(FrameTooLong):
        Framer().feed(INT.pack(DEFAULT_MAX_FRAME + 1))


@given(st.binary(max_size=200), st.integers(0, 100))
def test_any_bytes_give_frames_or_frame_too_long(stream: bytes, limit: int) -> None:
    framer = Framer(limit)
    try:
        frames = framer.feed(stream)
    except FrameTooLong as error:
        frames = error.frames
        rest = INT.pack(error.length)
    else:
        rest = stream[len(stream) - len(framer.held) :]
    assert stream.startswith(b"".join(map(pack_buffer, frames)) + rest)
