"""What cannot be decoded: the answer, and whether it goes through the log. And sync and reconfig."""

import pytest

from codec.constants import ErrorCode, OpCode
from codec.errors import MalformedPacket, NullString
from codec.jute import LONG, NULL, pack_string
from lab import records
from proxy.state.ops import EXTENDED
from proxy.state.ops.unreadable import NullAcl, code_of, spends_zxid
from tests.proxy.state.ops.room import room
from tests.proxy.state.world import all_pages, client
from tests.table import one_by_one

CUT, NULL_PATH, NULL_ACL = MalformedPacket(), NullString("", 0), NullAcl()


@one_by_one("opcode", [opcode for opcode in EXTENDED.writes if "acl" in records.fields_of(opcode)])
@one_by_one("path", ["/a", None])
def test_a_request_that_is_cut_behind_a_null_id_stays_out_of_the_log(opcode: int, path: str | None) -> None:
    before = b"header"
    entry = {"perms": 31, "id": {"scheme": "ip", "id": None}}
    whole = before + records.body(opcode, path=path, acl=[entry, entry])
    for size in range(whole.index(NULL, len(before + pack_string(path))) + len(NULL), len(whole)):
        with pytest.raises(MalformedPacket) as cut:
            EXTENDED.writes[opcode].decode(whole[:size], len(before))
        assert not spends_zxid(opcode, cut.value)


def test_a_multi_goes_through_the_log_also_when_it_is_cut() -> None:
    assert spends_zxid(OpCode.MULTI, CUT)
    assert not spends_zxid(OpCode.CREATE, CUT)


@pytest.mark.parametrize("error", [CUT, NULL_PATH, NULL_ACL])
def test_the_answer(error: MalformedPacket) -> None:
    for opcode, operation in EXTENDED.writes.items():
        checked = error is NULL_PATH and opcode in (OpCode.SET_DATA, OpCode.SET_ACL)
        assert code_of(operation, error) is (
            ErrorCode.BAD_ARGUMENTS if checked else ErrorCode.MARSHALLING_ERROR
        )


@pytest.mark.parametrize("raw", [pack_string("/a"), pack_string(""), NULL])
def test_the_path_of_a_sync_comes_back_and_nothing_else_happens(raw: bytes) -> None:
    world = room()
    zxid, before = world.machine.zxid, all_pages(world.machine)
    assert world.enter(client(1, OpCode.SYNC, raw)) == [(0, raw)]
    assert world.machine.zxid == zxid
    assert all_pages(world.machine)[:2] == before[:2]


def test_reconfig_is_refused_once_it_is_read() -> None:
    world = room()
    whole = pack_string("server.1=a:1:2") + NULL + NULL + LONG.pack(-1)
    zxid = world.machine.zxid
    assert world.enter(client(1, OpCode.RECONFIG, whole))[0].err == ErrorCode.RECONFIG_DISABLED
    for end in range(len(whole)):
        assert world.enter(client(1, OpCode.RECONFIG, whole[:end]))[0].err == ErrorCode.MARSHALLING_ERROR
    assert world.machine.zxid == zxid + 1
