"""What cannot be decoded: the answer, and whether it goes through the log."""

import pytest

from codec.constants import ErrorCode, OpCode
from codec.errors import MalformedPacket, NullId, NullString
from proxy.state.ops.unreadable import NullAcl, code_of, spends_zxid

CUT, NULL_PATH, NULL_ID, NULL_ACL = MalformedPacket(), NullString("", 0), NullId(), NullAcl()


@pytest.mark.parametrize(
    ("opcode", "spend"),
    [
        (OpCode.CREATE, (NULL_PATH, NULL_ID)),
        (OpCode.SET_DATA, (NULL_PATH, NULL_ID)),
        (OpCode.DELETE_CONTAINER, ()),
        (OpCode.MULTI, (CUT, NULL_PATH, NULL_ID)),
    ],
)
def test_what_spends_a_zxid(opcode: int, spend: tuple[MalformedPacket, ...]) -> None:
    """As measured on ZooKeeper 3.9.5: tests/compat/test_zxids.py."""
    everything = (CUT, NULL_PATH, NULL_ID, NULL_ACL)
    assert tuple(error for error in everything if spends_zxid(opcode, error)) == spend


@pytest.mark.parametrize("error", [CUT, NULL_PATH, NULL_ID, NULL_ACL])
def test_the_answer(error: MalformedPacket) -> None:
    for opcode in OpCode:
        checked = error is NULL_PATH and opcode in (OpCode.SET_DATA, OpCode.SET_ACL)
        assert code_of(opcode, error) is (ErrorCode.BAD_ARGUMENTS if checked else ErrorCode.MARSHALLING_ERROR)
