"""Names of operations as ZooKeeper's ZooDefs.OpCode has them: getData, create2, setACL."""

from enum import IntEnum

from codec.constants import KeeperOpCode, OpCode


def _camel(member: IntEnum) -> str:
    first, *rest = member.name.split("_")
    return first.lower() + "".join(word if word in ("ACL", "TTL") else word.title() for word in rest)


_NAMES = {int(member): _camel(member) for names in (OpCode, KeeperOpCode) for member in names}


def operation_name(opcode: int) -> str:
    """An opcode's name, or its number."""
    return _NAMES.get(opcode, str(opcode))
