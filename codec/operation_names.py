"""Names of operations: as ZooKeeper's ZooDefs.OpCode has them, and as `constants` has them."""

from enum import IntEnum

from codec.constants import KeeperOpCode, OpCode


def _camel(member: IntEnum) -> str:
    first, *rest = member.name.split("_")
    return first.lower() + "".join(word if word in ("ACL", "TTL") else word.title() for word in rest)


_MEMBERS: tuple[IntEnum, ...] = (*OpCode, *KeeperOpCode)
_NAMES = {int(member): _camel(member) for member in _MEMBERS}
_CONSTANTS = {int(member): member.name for member in _MEMBERS}


def operation_name(opcode: int) -> str:
    """An opcode's name in ZooKeeper, or its number: getData, create2, setACL."""
    return _NAMES.get(opcode, str(opcode))


def constant_name(opcode: int) -> str:
    """An opcode's name as a constant, or its number: GET_DATA, CREATE2, SET_ACL."""
    return _CONSTANTS.get(opcode, str(opcode))
