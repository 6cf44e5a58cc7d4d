"""Reads: an ACL too long for a reply, and what a read-only session may ask; more in tests/compat."""

import pytest

from codec.constants import ErrorCode, OpCode
from codec.jute import Acl, pack_string
from lab.oracle.requests import SetAcl
from proxy.state.ops import EXTENDED, PLAIN, for_read_only_session
from proxy.state.outcome import Refusal
from proxy.state.pause import TooLong
from tests.proxy.state.ops.room import Client, do, read, refused, room


def _path(path: str, *, watch: bool = False) -> bytes:
    return pack_string(path) + bytes((watch,))


def test_an_acl_that_no_reply_has_room_for_is_refused() -> None:
    """A request of 960 KB made one of 440 MB once."""
    world = room()
    anyone, name = Acl(31, "world", "anyone"), f"u:{'x' * 100_000}"
    for count in (167, 168):
        do(world, SetAcl("/open", (anyone, *(Acl(perms, "digest", name) for perms in range(count)))))
        if count == 167:
            with pytest.raises(TooLong):  # so it is read in slices
                read(world, OpCode.GET_ACL, _path("/open"))
    assert refused(world, OpCode.GET_ACL, _path("/open")) is ErrorCode.BAD_ARGUMENTS


def test_a_read_only_session_reads_and_closes() -> None:
    world = room()
    operations = for_read_only_session(PLAIN)
    assert operations.writes == {}
    for opcode in PLAIN.writes.keys() - {OpCode.CLOSE_SESSION}:
        with pytest.raises(Refusal) as refusal:
            operations.reads[opcode].answer(world.reading, Client(), b"", 0)
        assert refusal.value.code is ErrorCode.NOT_READ_ONLY
    reads = for_read_only_session(EXTENDED).reads
    assert {opcode: reads[opcode] for opcode in EXTENDED.reads} == EXTENDED.reads
    client = Client()
    assert reads[OpCode.CLOSE_SESSION].answer(world.reading, client, b"", 0) == b""
    assert client.has_left
