"""Requests as ZooKeeper's declarations read them, and replies as they write them."""

from collections.abc import Mapping
from functools import partial

import pytest
from construct import Construct
from hypothesis import given

from codec import client as zk
from codec.client import Stat
from codec.constants import ErrorCode, OpCode
from codec.errors import MalformedPacket
from codec.jute import Reader, pack_buffer
from lab import records
from tests.codec.generate import BUFFERS, INTS, LONGS

_STAT = Stat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
_STAT_FIELDS = {field.name: number for number, field in enumerate(records.Stat.subcons, 1)}


def _encoded(record: Construct, **fields: object) -> Reader:
    return Reader(records.encode(record, fields))


@given(INTS, LONGS, LONGS, BUFFERS)
def test_the_handshake(timeout: int, zxid: int, session: int, password: bytes) -> None:
    numbers = {"protocolVersion": 0, "lastZxidSeen": zxid, "timeOut": timeout, "sessionId": session}
    fields = {**numbers, "passwd": password, "readOnly": False}
    request = zk.connect(timeout, zxid, session, password)
    assert request == pack_buffer(records.encode(records.ConnectRequest, fields))
    answer = records.encode(records.ConnectResponse, fields)
    assert zk.connected(answer) == zk.connected(answer[:-1]) == (session, password, timeout)
    with pytest.raises(MalformedPacket, match=f"an answer of {len(answer) - 2} bytes to a connect request"):
        zk.connected(answer[:-2])


def test_a_null_password_is_an_empty_one() -> None:
    assert zk.connected(bytes(16) + b"\xff" * 4) == (0, b"", 0)


def test_a_reply_is_read_as_zookeeper_declares_it() -> None:
    assert zk.create("/a").read(_encoded(records.CreateResponse, path="/a7")) == "/a7"
    assert zk.exists("/a").read(_encoded(records.ExistsResponse, stat=_STAT_FIELDS)) == _STAT
    assert zk.set_data("/a", b"").read(_encoded(records.SetDataResponse, stat=_STAT_FIELDS)) == _STAT
    data = partial(_encoded, records.GetDataResponse, stat=_STAT_FIELDS)
    assert zk.get("/a").read(data(data=b"x")) == (b"x", _STAT)
    assert zk.get("/a").read(data(data=None)) == (b"", _STAT)
    assert zk.get_nullable("/a").read(data(data=None)).data is None
    listed = _encoded(records.GetChildren2Response, children=["b", "c"], stat=_STAT_FIELDS)
    assert zk.children("/a").read(listed) == (["b", "c"], _STAT)


def test_a_stat_that_is_cut_is_malformed() -> None:
    with pytest.raises(MalformedPacket, match="within a Stat"):
        zk.exists("/a").read(Reader(bytes(67)))
    with pytest.raises(MalformedPacket, match="a reply of 15 bytes"):
        zk.header(bytes(15))


def _multi_reply(*parts: tuple[OpCode, Mapping[str, object]]) -> Reader:
    operations: list[dict[str, object]] = [
        {"header": {"type": opcode, "done": False, "err": body.get("err", 0)}, "body": body}
        for opcode, body in parts
    ]
    end = {"header": {"type": -1, "done": True, "err": -1}, "body": None}
    return Reader(records.encode(records.MultiResponse, {"operations": [*operations, end]}))


def test_the_reply_of_a_multi() -> None:
    request = zk.multi([zk.create("/a"), zk.create_container("/c"), zk.check("/b"), zk.set_data("/b", b"")])
    reply = _multi_reply(
        (OpCode.CREATE, {"path": "/a"}),
        (OpCode.CREATE2, {"path": "/c", "stat": _STAT_FIELDS}),
        (OpCode.CHECK, {}),
        (OpCode.SET_DATA, {"stat": _STAT_FIELDS}),
    )
    assert request.read(reply) == ["/a", "/c", None, _STAT]
    with pytest.raises(MalformedPacket, match="part of type 13 answers one of type 1"):
        request.read(_multi_reply((OpCode.CHECK, {})))


def test_the_reply_of_a_multi_that_failed() -> None:
    failed = _multi_reply(*((OpCode.ERROR, {"err": code}) for code in (0, -110, -2)))
    with pytest.raises(zk.MultiFailed, match="part 1 of a MULTI: NODE_EXISTS") as refused:
        zk.answer_of(zk.multi([zk.create("/a")] * 3), 0, failed)
    assert (refused.value.failed, refused.value.code) == (1, ErrorCode.NODE_EXISTS)
    assert refused.value.codes == [0, ErrorCode.NODE_EXISTS, ErrorCode.RUNTIME_INCONSISTENCY]
    with pytest.raises(MalformedPacket, match="a failed multi has a part of type 13"):
        zk.multi_errors(_multi_reply((OpCode.CHECK, {})))


def test_an_answer_with_its_zxid_and_names_of_errors() -> None:
    header = records.encode(records.ReplyHeader, {"xid": 1, "zxid": 77, "err": 0})
    frame = header + records.encode(records.CreateResponse, {"path": "/a"})
    assert zk.stamped(zk.create("/a")).read(zk.body(frame)) == ("/a", 77)
    assert (zk.name_of(-101), zk.name_of(-4711)) == ("NO_NODE", "-4711")
