"""multiRead: each part answered by itself."""

import pytest

from codec.constants import ErrorCode, OpCode
from codec.errors import MalformedPacket
from codec.jute import INT, NULL, OPEN_ACLS, pack_buffer, pack_string, pack_strings
from codec.packets import MULTI_HEADER
from proxy.state.ops.multi_read import multi_read
from proxy.state.refusal import Refusal
from tests.proxy.state.ops.room import room
from tests.proxy.state.ops.test_reads import Client
from tests.proxy.state.world import World

_END = MULTI_HEADER.pack(-1, True, -1)


def _part(opcode: int, path: str | None, rest: bytes = b"\1") -> bytes:
    return MULTI_HEADER.pack(opcode, False, -1) + pack_string(path) + rest


def _get(path: str | None) -> bytes:
    return _part(OpCode.GET_DATA, path)


def _children(path: str | None) -> bytes:
    return _part(OpCode.GET_CHILDREN, path)


def _ask(world: World, *parts: bytes) -> bytes:
    reading = world.reading
    return multi_read(reading, Client(), b"head" + b"".join(parts), 4)


def _result(opcode: int, body: bytes) -> bytes:
    return MULTI_HEADER.pack(opcode, False, 0) + body


def _error(code: ErrorCode) -> bytes:
    return MULTI_HEADER.pack(-1, False, code) + INT.pack(code)


def test_results_in_order_and_no_watch() -> None:
    world = room()
    data = pack_buffer(b"") + world.machine.tree.nodes["/open"].stat()
    assert _ask(world, _END) == _END
    assert _ask(
        world, _get("/open"), _children("/missing"), _get("/closed"), _children("/open"), _END
    ) == b"".join(
        (
            _result(OpCode.GET_DATA, data),
            _error(ErrorCode.NO_NODE),
            _error(ErrorCode.NO_AUTH),
            _result(OpCode.GET_CHILDREN, pack_strings(["child"])),
            _END,
        )
    )
    assert world.watches.total() == 0


def test_a_null_path_ends_it_with_the_results_so_far() -> None:
    with pytest.raises(Refusal) as refusal:
        _ask(room(), _children("/open/child"), _get(None), _get("/open"), _END)
    assert refusal.value.code is ErrorCode.MARSHALLING_ERROR
    assert refusal.value.body == _result(OpCode.GET_CHILDREN, pack_strings([])) + _END


@pytest.mark.parametrize("path", ["/open/child", None])
def test_writes_are_refused_with_an_empty_result(path: str | None) -> None:
    world = room()
    with pytest.raises(Refusal) as refusal:
        _ask(world, _part(OpCode.DELETE, path, INT.pack(-1)), _END)
    assert (refusal.value.code, refusal.value.body) == (ErrorCode.MARSHALLING_ERROR, _END)
    assert "/open/child" in world.machine.tree.nodes


@pytest.mark.parametrize("path", ["/new", None])
@pytest.mark.parametrize("flags", [0, 4])
def test_a_create_is_a_write_whatever_its_path(path: str | None, flags: int) -> None:
    part = _part(OpCode.CREATE, path, pack_buffer(b"") + OPEN_ACLS + INT.pack(flags))
    with pytest.raises(Refusal) as refusal:
        _ask(room(), part, part, _END)
    assert (refusal.value.code, refusal.value.body) == (ErrorCode.MARSHALLING_ERROR, _END)


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (_get("/open"),),
        (_get("/open"), _part(OpCode.DELETE, "/open/child", INT.pack(-1)), _END),
        (_part(OpCode.DELETE, "/open/child", INT.pack(-1)), _get("/open"), _END),
        (_part(OpCode.EXISTS, "/open"), _END),
        (_get("/open")[:-1],),
        (_get("/open"), NULL),
    ],
)
def test_what_is_malformed(parts: tuple[bytes, ...]) -> None:
    with pytest.raises(MalformedPacket):
        _ask(room(), *parts)


def test_results_too_large_for_one_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    world = room()
    size = len(_ask(world, _get("/open"), _get("/missing"), _END)) - len(_END)
    monkeypatch.setattr("proxy.state.ops.bounded.MOST", size)
    _ask(world, _get("/open"), _get("/missing"), _END)
    for more in ("/open", "/missing"):
        with pytest.raises(Refusal) as refusal:
            _ask(world, _get("/open"), _get("/missing"), _get(more), _END)
        assert refusal.value.code is ErrorCode.BAD_ARGUMENTS
