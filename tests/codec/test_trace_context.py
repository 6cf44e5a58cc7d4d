"""The frames of protocol version 12, each with its context or without."""

import pytest

from codec.errors import FrameTooLong
from codec.jute import pack_buffer
from codec.trace_context import MAX_CONTEXT, TraceContext, TracedFrame, TracedFramer, decode_context
from tests.table import one_by_one

_UUID = b"0af76519-16cd-43dd-8448-eb211c80319c"
_TRACE = 0x0AF7651916CD43DD8448EB211C80319C
_SPAN = 0xB7AD6B7169203331
_SAMPLED = _UUID + b"\n%d\na=1,b=2\n1\n" % _SPAN
_CONTEXT = TraceContext(_TRACE, _SPAN, 1, "a=1,b=2")


def _packets(frames: list[bytes]) -> list[tuple[bytes, TraceContext | None]]:
    return [(bytes(frame), frame.context if isinstance(frame, TracedFrame) else None) for frame in frames]


def test_packets_cut_at_every_byte() -> None:
    stream = pack_buffer(b"one") + b"\0" + pack_buffer(b"two") + b"\1" + _SAMPLED + pack_buffer(b"") + b"\0"
    ways = [(stream[:split], stream[split:]) for split in range(len(stream) + 1)]
    for chunks in (*ways, tuple(bytes((byte,)) for byte in stream)):
        framer = TracedFramer(100)
        frames = [frame for chunk in chunks for frame in framer.feed(chunk)]
        assert _packets(frames) == [(b"one", None), (b"two", _CONTEXT), (b"", None)]


@one_by_one(
    "text",
    [
        b"\n1\n\n1\n",
        b"00000000-0000-0000-0000-000000000000\n1\n\n1\n",
        _UUID + b"\n0\n\n1\n",  # as keeper-bench sends it: a trace without a span
        _UUID + b"\n-1\n\n1\n",
        _UUID + b"\n18446744073709551616\n\n1\n",
        _UUID + b"\n1\n\n256\n",
        _UUID + b"\n1\n\n\n",
        _UUID + b" \n1\n\n1\n",
    ],
)
def test_what_no_span_can_have_for_its_parent(text: bytes) -> None:
    assert decode_context(text) is None
    assert _packets(TracedFramer(9).feed(pack_buffer(b"x") + b"\1" + text + pack_buffer(b"y") + b"\0")) == [
        (b"x", None),
        (b"y", None),
    ]


@pytest.mark.parametrize("state", [b"a=\\n", b"\xff", b"\x01", b"a=" + b"b" * 511])
def test_a_tracestate_that_cannot_be_is_left_out(state: bytes) -> None:
    assert decode_context(_UUID + b"\n1\n" + state + b"\n0\n") == TraceContext(_TRACE, 1, 0, "")


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\0\0\0\x0a"])
def test_a_length_out_of_bounds(length: bytes) -> None:
    with pytest.raises(FrameTooLong) as caught:
        TracedFramer(9).feed(pack_buffer(b"x") + b"\0" + length + b"rest")
    assert caught.value.frames == [b"x"]
    assert caught.value.rest == b"rest"


def test_a_context_without_end() -> None:
    framer = TracedFramer(9)
    assert framer.feed(pack_buffer(b"x") + b"\1" + b"z" * MAX_CONTEXT) == []
    with pytest.raises(FrameTooLong):
        framer.feed(b"z")
    # Also one that comes at once, with its lines.
    with pytest.raises(FrameTooLong):
        TracedFramer(9).feed(pack_buffer(b"x") + b"\1" + b"z" * MAX_CONTEXT + b"\n\n\n\n")
