"""What the rows of the table of operations say is so."""

from codec.constants import KeeperOpCode, OpCode
from lab.oracle.requests import RECORDS
from proxy.state.operation import WriteOperation
from proxy.state.ops import ROWS

# What proxies of level 1 apply. It never changes.
_LEVEL_1 = {
    OpCode.CREATE,
    OpCode.DELETE,
    OpCode.SET_DATA,
    OpCode.SET_ACL,
    OpCode.SYNC,
    OpCode.CHECK,
    OpCode.MULTI,
    OpCode.CREATE2,
    OpCode.RECONFIG,
    OpCode.CREATE_CONTAINER,
    OpCode.DELETE_CONTAINER,
    OpCode.CREATE_TTL,
    OpCode.CLOSE_SESSION,
    KeeperOpCode.CHECK_NOT_EXISTS,
    KeeperOpCode.CREATE_IF_NOT_EXISTS,
    KeeperOpCode.REMOVE_RECURSIVE,
    KeeperOpCode.CHECK_STAT,
    KeeperOpCode.TRY_REMOVE,
}


def test_no_write_is_new_at_level_1() -> None:
    """If this fails for an operation that you add: CONTRIBUTING.md says what it needs."""
    assert {opcode for opcode, row in ROWS.items() if isinstance(row, WriteOperation)} == _LEVEL_1


def test_a_row_says_whether_the_request_begins_with_a_path() -> None:
    for opcode, row in ROWS.items():
        assert row.has_path == (list(RECORDS[opcode])[:1] == ["path"]), opcode
