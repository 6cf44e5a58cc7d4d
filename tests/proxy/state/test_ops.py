"""The table of operations: every opcode of the protocol is answered, or known not to be."""

from codec.constants import KeeperOpCode, OpCode
from proxy.state.ops import EXTENDED, PLAIN, READS, WRITES
from proxy.state.ops.multi import PARTS

# The connection's own business.
_CONNECTION = {OpCode.PING, OpCode.AUTH, OpCode.SASL}
# No request of a client.
_NO_REQUEST = {OpCode.NOTIFICATION, OpCode.CREATE_SESSION, OpCode.ERROR}
# Part of a multi only.
_MULTI_ONLY = {OpCode.CHECK}


def test_every_opcode_has_its_place() -> None:
    places = (READS, WRITES, _CONNECTION, _NO_REQUEST, _MULTI_ONLY)
    assert sorted(int(opcode) for place in places for opcode in place) == sorted(map(int, OpCode))


def test_what_a_multi_may_hold_is_a_write_by_itself_or_a_check() -> None:
    assert set(PARTS) - set(WRITES) == _MULTI_ONLY
    assert all(part is WRITES[opcode] for opcode, part in PARTS.items() if opcode not in _MULTI_ONLY)


def test_every_opcode_of_keeper_is_answered_with_its_extensions_alone() -> None:
    ours = {int(opcode) for opcode in KeeperOpCode}
    assert EXTENDED.reads.keys() | EXTENDED.writes.keys() == READS.keys() | WRITES.keys() | ours
    assert PLAIN.reads is READS
    assert PLAIN.writes is WRITES
