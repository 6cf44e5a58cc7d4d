"""What a read-only session hears."""

import pytest

from codec.constants import ErrorCode, OpCode
from proxy.operation import Reading
from proxy.ops import EXTENDED, PLAIN, reads_alone
from proxy.refusal import Refusal
from tests.proxy.ops.room import room
from tests.proxy.ops.test_reads import Client


def test_every_write_is_refused_unseen() -> None:
    proxy = room()
    operations = reads_alone(PLAIN)
    assert operations.writes == {}
    for opcode in (*PLAIN.writes, OpCode.RECONFIG):
        with pytest.raises(Refusal) as refusal:
            operations.reads[opcode](Reading(proxy.mirror.tree, proxy.watches), Client(), b"", 0)
        assert refusal.value.code is ErrorCode.NOT_READ_ONLY


def test_reads_are_the_usual_ones() -> None:
    usual = {opcode: read for opcode, read in EXTENDED.reads.items() if opcode != OpCode.RECONFIG}
    reads = reads_alone(EXTENDED).reads
    assert {opcode: reads[opcode] for opcode in usual} == usual


def test_the_end_of_the_session() -> None:
    proxy = room()
    client = Client()
    reads = reads_alone(PLAIN).reads
    assert reads[OpCode.CLOSE_SESSION](Reading(proxy.mirror.tree, proxy.watches), client, b"", 0) == b""
    assert client.has_left
