"""What a read-only session hears."""

import pytest

from codec.constants import ErrorCode, OpCode
from proxy.state.ops import EXTENDED, PLAIN, reads_alone
from proxy.state.refusal import Refusal
from tests.proxy.state.ops.room import room
from tests.proxy.state.ops.test_reads import Client


def test_every_write_is_refused_unseen() -> None:
    world = room()
    operations = reads_alone(PLAIN)
    assert operations.writes == {}
    for opcode in PLAIN.writes.keys() - {OpCode.CLOSE_SESSION}:
        with pytest.raises(Refusal) as refusal:
            operations.reads[opcode](world.reading, Client(), b"", 0)
        assert refusal.value.code is ErrorCode.NOT_READ_ONLY


def test_reads_are_the_usual_ones() -> None:
    reads = reads_alone(EXTENDED).reads
    assert {opcode: reads[opcode] for opcode in EXTENDED.reads} == EXTENDED.reads


def test_the_end_of_the_session() -> None:
    world = room()
    client = Client()
    reads = reads_alone(PLAIN).reads
    assert reads[OpCode.CLOSE_SESSION](world.reading, client, b"", 0) == b""
    assert client.has_left
