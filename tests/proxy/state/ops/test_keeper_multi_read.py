"""multiRead in Keeper's form, and in ZooKeeper's for those who know no other."""

import struct

import pytest

from codec.constants import ErrorCode, KeeperOpCode, OpCode
from codec.errors import MalformedPacket
from codec.jute import INT, pack_string, pack_strings
from codec.packets import MULTI_HEADER
from proxy.state.ops import EXTENDED
from proxy.state.ops.keeper_multi_read import keeper_multi_read
from proxy.state.refusal import Refusal
from tests.proxy.state.ops.room import room
from tests.proxy.state.ops.test_reads import Client, held
from tests.proxy.state.world import World

_END = MULTI_HEADER.pack(-1, True, -1)
_KINDS = {
    OpCode.EXISTS: b"\0",
    OpCode.GET_DATA: b"\0",
    OpCode.GET_CHILDREN: b"\0",
    OpCode.GET_CHILDREN2: b"\0",
    KeeperOpCode.FILTERED_LIST: b"\0\1",
    KeeperOpCode.LIST_WITH_STAT_AND_DATA: b"\0\0\1\1",
}


def _part(opcode: int, path: str, rest: bytes) -> bytes:
    return MULTI_HEADER.pack(opcode, False, -1) + pack_string(path) + rest


def _clickhouse() -> Client:
    client = Client()
    client.knows_keeper = True
    return client


def _ask(world: World, client: Client, *parts: bytes) -> bytes:
    reading = world.reading
    return EXTENDED.reads[OpCode.MULTI_READ](reading, client, b"head" + b"".join(parts) + _END, 4)


def test_every_part_is_answered_as_by_itself() -> None:
    world = room()
    reading = world.reading
    parts = [_part(opcode, "/open", rest) for opcode, rest in _KINDS.items()]
    expected = [
        MULTI_HEADER.pack(opcode, False, 0) + answer(reading, Client(), part, 9)
        for opcode, part, answer in zip(_KINDS, parts, map(EXTENDED.reads.get, _KINDS), strict=True)
        if answer is not None
    ]
    assert _ask(world, _clickhouse(), *parts) == b"".join(expected) + _END


@pytest.mark.parametrize(("opcode", "rest"), _KINDS.items())
def test_a_refused_part_has_its_own_opcode_and_no_body(opcode: int, rest: bytes) -> None:
    parts = [_part(opcode, path, rest) for path in ("/missing", "/closed")]
    children = _part(OpCode.GET_CHILDREN, "/open", b"\0")
    assert _ask(room(), _clickhouse(), *parts, children) == (
        MULTI_HEADER.pack(opcode, False, ErrorCode.NO_NODE)
        + MULTI_HEADER.pack(opcode, False, ErrorCode.NO_AUTH)
        + MULTI_HEADER.pack(OpCode.GET_CHILDREN, False, 0)
        + pack_strings(["child"])
        + _END
    )


def test_parts_may_watch() -> None:
    world = room()
    client = _clickhouse()
    _ask(
        world,
        client,
        _part(OpCode.EXISTS, "/missing", b"\1"),
        _part(OpCode.GET_CHILDREN2, "/open", b"\1"),
        _part(OpCode.GET_DATA, "/missing", b"\1"),
    )
    assert held(world, client) == [{"/missing"}, {"/open"}, set(), set()]


def test_who_does_not_know_of_keeper_is_answered_as_by_zookeeper() -> None:
    world = room()
    missing = _part(OpCode.GET_DATA, "/missing", b"\1")
    assert _ask(world, Client(), missing) == struct.pack(">i?ii", -1, False, -101, -101) + _END
    with pytest.raises(MalformedPacket):
        _ask(world, Client(), _part(OpCode.EXISTS, "/open", b"\0"))


@pytest.mark.parametrize(
    "part",
    [
        _part(OpCode.DELETE, "/open", INT.pack(-1)),
        _part(KeeperOpCode.LIST_RECURSIVE, "/open", INT.pack(1)),
        _part(OpCode.GET_DATA, "/open", b"\0")[:-1],
        _part(KeeperOpCode.LIST_WITH_STAT_AND_DATA, "/open", b"\0\0\0"),
        MULTI_HEADER.pack(OpCode.GET_DATA, False, -1) + INT.pack(-1) + b"\0",
    ],
)
def test_what_cannot_be_read_is_malformed_as_a_whole(part: bytes) -> None:
    world = room()
    client = _clickhouse()
    watching = _part(OpCode.GET_DATA, "/open", b"\1")
    with pytest.raises(MalformedPacket):
        keeper_multi_read(world.reading, client, watching + part, 0)
    assert held(world, client) == [set()] * 4


def test_results_too_large_for_one_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [_part(OpCode.GET_DATA, "/open", b"\0")] * 10
    monkeypatch.setattr("proxy.state.ops.bounded.MOST", 500)
    with pytest.raises(Refusal) as refusal:
        _ask(room(), _clickhouse(), *parts)
    assert refusal.value.code is ErrorCode.BAD_ARGUMENTS
