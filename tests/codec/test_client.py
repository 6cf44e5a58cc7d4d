"""The handshake as the oracle writes it, and replies as ZooKeeper declares them."""

import pytest
from hypothesis import given

from codec import client as zk
from codec.client import Stat
from codec.constants import CreateMode, ErrorCode, OpCode
from codec.errors import MalformedPacket
from codec.jute import Reader, pack_buffer, pack_string, pack_strings
from codec.packets import MULTI_HEADER, STAT, encode_connect_response
from lab.oracle import wire
from tests.codec.generate import BUFFERS, INTS, LONGS

_STAT = Stat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
_STAT_BYTES = STAT.pack(*_STAT)


@given(INTS, LONGS, LONGS, BUFFERS)
def test_the_handshake(timeout: int, zxid: int, session: int, password: bytes) -> None:
    request = wire.pack_connect(session=session, password=password, timeout_ms=timeout, last_zxid=zxid)
    assert zk.connect(timeout, zxid, session, password) == pack_buffer(request)
    answer = encode_connect_response(timeout, session, password, False)[4:]
    assert zk.connected(answer) == zk.connected(answer[:-1]) == (session, password, timeout)
    with pytest.raises(MalformedPacket, match=f"an answer of {len(answer) - 2} bytes to a connect request"):
        zk.connected(answer[:-2])


def test_a_null_password_is_an_empty_one() -> None:
    assert zk.connected(bytes(16) + b"\xff" * 4) == (0, b"", 0)


def test_a_reply_is_read_as_zookeeper_declares_it() -> None:
    assert zk.create("/a").read(Reader(pack_string("/a7"))) == "/a7"
    assert zk.exists("/a").read(Reader(_STAT_BYTES)) == _STAT
    assert zk.set_data("/a", b"").read(Reader(_STAT_BYTES)) == _STAT
    assert zk.get("/a").read(Reader(pack_buffer(b"x") + _STAT_BYTES)) == (b"x", _STAT)
    null = pack_buffer(None) + _STAT_BYTES
    assert zk.get("/a").read(Reader(null)) == (b"", _STAT)
    assert zk.get_nullable("/a").read(Reader(null)).data is None
    listed = Reader(pack_strings(["b", "c"]) + _STAT_BYTES)
    assert zk.children("/a").read(listed) == (["b", "c"], _STAT)


def test_a_stat_that_is_cut_is_malformed() -> None:
    with pytest.raises(MalformedPacket, match="within a Stat"):
        zk.exists("/a").read(Reader(bytes(67)))
    with pytest.raises(MalformedPacket, match="a reply of 15 bytes"):
        zk.header(bytes(15))


def _multi_reply(*parts: tuple[OpCode, bytes]) -> Reader:
    results = (MULTI_HEADER.pack(opcode, False, 0) + body for opcode, body in parts)
    return Reader(b"".join(results) + MULTI_HEADER.pack(-1, True, -1))


def test_the_reply_of_a_multi() -> None:
    request = zk.multi(
        [zk.create("/a"), zk.create("/c", mode=CreateMode.CONTAINER), zk.check("/b"), zk.set_data("/b", b"")]
    )
    reply = _multi_reply(
        (OpCode.CREATE, pack_string("/a")),
        (OpCode.CREATE2, pack_string("/c") + _STAT_BYTES),
        (OpCode.CHECK, b""),
        (OpCode.SET_DATA, _STAT_BYTES),
    )
    assert request.read(reply) == ["/a", "/c", None, _STAT]
    with pytest.raises(MalformedPacket, match="part of type 13 answers one of type 1"):
        request.read(_multi_reply((OpCode.CHECK, b"")))


def test_the_reply_of_a_multi_that_failed() -> None:
    failed = _multi_reply(*((OpCode.ERROR, wire.pack_int(code)) for code in (0, -110, -2)))
    with pytest.raises(zk.MultiFailed, match="part 1 of a MULTI: NODE_EXISTS") as refused:
        zk.answer_of(zk.multi([zk.create("/a")] * 3), 0, failed)
    assert (refused.value.failed, refused.value.code) == (1, ErrorCode.NODE_EXISTS)
    assert refused.value.codes == [0, ErrorCode.NODE_EXISTS, ErrorCode.RUNTIME_INCONSISTENCY]
    with pytest.raises(MalformedPacket, match="a failed multi has a part of type 13"):
        zk.multi_errors(_multi_reply((OpCode.CHECK, b"")))


def test_an_answer_with_its_zxid_and_names_of_errors() -> None:
    frame = wire.HEADER.pack(1, 77, 0) + pack_string("/a")
    assert zk.stamped(zk.create("/a")).read(zk.body(frame)) == ("/a", 77)
    assert (zk.name_of(-101), zk.name_of(-4711)) == ("NO_NODE", "-4711")
