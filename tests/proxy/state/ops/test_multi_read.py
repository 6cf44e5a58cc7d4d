"""multiRead in Keeper's form; tests/compat has ZooKeeper's."""

import pytest

from codec.constants import ErrorCode, KeeperOpCode, OpCode
from codec.errors import MalformedPacket
from codec.jute import INT, pack_string, pack_strings
from codec.packets import MULTI_HEADER
from lab.oracle.requests import body_of
from proxy.state.ops import MULTI_READ
from proxy.state.outcome import Refusal
from tests.proxy.state.ops.room import Client, held, read, room
from tests.proxy.state.world import World
from tests.table import one_by_one

_END = MULTI_HEADER.pack(-1, True, -1)


def _part(opcode: int, path: str | None, rest: bytes = b"\1") -> bytes:
    return MULTI_HEADER.pack(opcode, False, -1) + pack_string(path) + rest


def _get(path: str | None) -> bytes:
    return _part(OpCode.GET_DATA, path)


def _children(path: str | None) -> bytes:
    return _part(OpCode.GET_CHILDREN, path)


def _ask(world: World, *parts: bytes, client: Client | None = None) -> bytes:
    return read(world, OpCode.MULTI_READ, b"".join(parts), client)


def _result(opcode: int, body: bytes, code: int = 0) -> bytes:
    return MULTI_HEADER.pack(opcode, False, code) + body


@pytest.mark.parametrize("knows_keeper", [False, True])
def test_results_too_large_for_one_reply(knows_keeper: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    world = room()
    client = Client(knows_keeper=knows_keeper)
    parts = _get("/open"), _get("/missing")
    size = len(_ask(world, *parts, _END, client=client)) - len(_END)
    monkeypatch.setattr("proxy.state.bounded.MOST", size)
    _ask(world, *parts, _END, client=client)
    for more in ("/open", "/missing"):
        with pytest.raises(Refusal) as refusal:
            _ask(world, *parts, _get(more), _END, client=client)
        assert refusal.value.code is ErrorCode.BAD_ARGUMENTS


# -- in Keeper's form ----------------------------------------------------------------------------------------


def _usual(opcode: int, path: str) -> bytes:
    return MULTI_HEADER.pack(opcode, False, -1) + body_of(opcode, path=path)


def test_every_part_is_answered_as_by_itself() -> None:
    world = room()
    bodies = {opcode: body_of(opcode, path="/open") for opcode in MULTI_READ.parts}
    expected = [_result(opcode, read(world, opcode, body)) for opcode, body in bodies.items()]
    parts = [_usual(opcode, "/open") for opcode in bodies]
    assert _ask(world, *parts, _END, client=Client(knows_keeper=True)) == b"".join(expected) + _END


@one_by_one("opcode", MULTI_READ.parts)
def test_a_refused_part_has_its_own_opcode_and_no_body(opcode: int) -> None:
    parts = [_usual(opcode, path) for path in ("/missing", "/closed")]
    assert _ask(room(), *parts, _children("/open"), _END, client=Client(knows_keeper=True)) == (
        _result(opcode, b"", ErrorCode.NO_NODE)
        + _result(opcode, b"", ErrorCode.NO_AUTH)
        + _result(OpCode.GET_CHILDREN, pack_strings(["child"]))
        + _END
    )


def test_parts_may_watch() -> None:
    world = room()
    client = Client(knows_keeper=True)
    parts = _part(OpCode.EXISTS, "/missing"), _part(OpCode.GET_CHILDREN2, "/open"), _get("/missing")
    _ask(world, *parts, _END, client=client)
    assert held(world, client) == [{"/missing"}, {"/open"}, set(), set()]


@one_by_one(
    "part",
    [
        _part(OpCode.DELETE, "/open", INT.pack(-1)),
        _part(KeeperOpCode.LIST_RECURSIVE, "/open", INT.pack(1)),
        _part(OpCode.GET_DATA, "/open", b""),
        _part(KeeperOpCode.LIST_WITH_STAT_AND_DATA, "/open", b"\0\0\0"),
        _part(OpCode.GET_DATA, None, b"\0"),
    ],
)
def test_what_cannot_be_read_is_malformed_as_a_whole(part: bytes) -> None:
    world = room()
    client = Client(knows_keeper=True)
    with pytest.raises(MalformedPacket):
        MULTI_READ.answer(world.reading, client, _get("/open") + part, 0)
    assert held(world, client) == [set()] * 4
