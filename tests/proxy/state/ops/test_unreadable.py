"""What cannot be decoded: the answer."""

import pytest

from codec.constants import ErrorCode, OpCode
from codec.errors import MalformedPacket, NullString
from proxy.state.ops import EXTENDED
from proxy.state.ops.unreadable import NullAcl, code_of

CUT, NULL_PATH, NULL_ACL = MalformedPacket(), NullString("", 0), NullAcl()


@pytest.mark.parametrize("error", [CUT, NULL_PATH, NULL_ACL])
def test_the_answer(error: MalformedPacket) -> None:
    for opcode, operation in EXTENDED.writes.items():
        checked = error is NULL_PATH and opcode in (OpCode.SET_DATA, OpCode.SET_ACL)
        assert code_of(operation, error) is (
            ErrorCode.BAD_ARGUMENTS if checked else ErrorCode.MARSHALLING_ERROR
        )
