"""The kinds of MalformedPacket, which callers tell apart."""

from codec.errors import FrameTooLong, MalformedPacket, NullString


def test_every_error_is_a_malformed_packet() -> None:
    assert issubclass(NullString, MalformedPacket)
    assert issubclass(FrameTooLong, MalformedPacket)
    assert not issubclass(FrameTooLong, NullString)


def test_frame_too_long_tells_what_was_wrong_and_what_came_before() -> None:
    error = FrameTooLong(11, 10, [b"good"])
    assert (error.length, error.limit, error.frames) == (11, 10, [b"good"])
    assert str(error) == "frame length 11 is not within 0..10"
