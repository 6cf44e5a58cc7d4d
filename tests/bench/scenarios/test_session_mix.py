"""One session's mix: what is sent, and how many rounds so many replies are."""

import pytest

from bench.scenarios.session_mix import KINDS, ClickHouse, Mix, Sets
from codec import packets
from codec.constants import OpCode
from codec.framing import Framer

_ROUND = [OpCode.CREATE, OpCode.SET_DATA, OpCode.MULTI]


def sent(mix: Mix, count: int) -> list[tuple[int, int]]:
    """xid and opcode of the first requests."""
    frames = Framer().feed(mix.stream(0).take(count))
    return [packets.REQUEST_HEADER.unpack_from(frame) for frame in frames]


def test_a_round_is_repeated() -> None:
    assert sent(ClickHouse(b"/m", reads=False), 6) == list(enumerate(_ROUND * 2, 1))


def test_a_read_follows_each_write() -> None:
    codes = [code for _, code in sent(ClickHouse(b"/m", reads=True), 12)]
    assert codes[0::2] == _ROUND * 2
    assert codes[1::2] == [OpCode.GET_DATA] * 6


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_xids_go_on_and_sizes_are_those_of_a_round(kind: type[Mix], reads: bool) -> None:
    mix = kind(b"/m", reads=reads)
    assert [xid for xid, _ in sent(mix, 200)] == list(range(1, 201))
    assert len(mix.stream(0).reply_sizes) == len(mix.round()[0]) * (1 + reads)


def test_rounds_are_counted_by_the_writes_that_were_answered() -> None:
    alone, with_reads = ClickHouse(b"/m", reads=False), ClickHouse(b"/m", reads=True)
    # Three writes a round: the fourth reply is the second round's first.
    assert [alone.rounds(4, place) for place in range(3)] == [2, 1, 1]
    # Write, read, write, read, write, read.
    assert [with_reads.rounds(7, place) for place in range(3)] == [2, 1, 1]
    assert [with_reads.rounds(5, place) for place in range(3)] == [1, 1, 1]
    assert Sets(b"/m", reads=True).rounds(5, 0) == 3
