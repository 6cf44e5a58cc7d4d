"""What clients ask the naive ZooKeeper for, a class for each operation, and what it answers.

`Keepers` are what ClickHouse Keeper adds.
"""

from typing import NamedTuple

from codec.constants import ErrorCode, KeeperOpCode, OpCode
from codec.jute import Acl

Acls = tuple[Acl, ...]


class Create(NamedTuple):
    """create or create2."""

    path: str
    data: bytes | None = b""
    acl: Acls = (Acl(31, "world", "anyone"),)
    flags: int = 0


class CreateMortal(NamedTuple):
    """createContainer (`ttl` None) or createTTL."""

    path: str
    ttl: int | None = None
    data: bytes | None = b""
    acl: Acls = (Acl(31, "world", "anyone"),)
    sequential: bool = False


class Delete(NamedTuple):
    """delete."""

    path: str
    version: int = -1


class DeleteContainer(NamedTuple):
    """deleteContainer."""

    path: str


class SetData(NamedTuple):
    """setData."""

    path: str
    data: bytes | None = b""
    version: int = -1


class SetAcl(NamedTuple):
    """setACL."""

    path: str
    acl: Acls = (Acl(31, "world", "anyone"),)
    version: int = -1


class Check(NamedTuple):
    """check, a part of a multi."""

    path: str
    version: int = -1


class CheckNotExists(NamedTuple):
    """checkNotExists of Keeper."""

    path: str
    version: int = -1


class CreateIfNotExists(NamedTuple):
    """createIfNotExists of Keeper."""

    path: str
    data: bytes | None = b""
    acl: Acls = (Acl(31, "world", "anyone"),)
    flags: int = 0


class RemoveRecursive(NamedTuple):
    """removeRecursive of Keeper."""

    path: str
    limit: int = 1000


class CheckStat(NamedTuple):
    """checkStat of Keeper."""

    path: str
    version: int = -1
    stat: tuple[int, ...] = (-1,) * 11


class TryRemove(NamedTuple):
    """tryRemove of Keeper."""

    path: str
    version: int = -1


Keepers = CheckNotExists | CreateIfNotExists | RemoveRecursive | CheckStat | TryRemove


class Multi(NamedTuple):
    """multi."""

    parts: tuple[Create | CreateMortal | Delete | SetData | Check | Keepers, ...]


class CloseSession(NamedTuple):
    """closeSession."""


Single = Create | CreateMortal | Delete | DeleteContainer | SetData | SetAcl | Check | Keepers
Asked = Single | Multi | CloseSession

_OPCODES: dict[type[Single], int] = {
    Create: OpCode.CREATE2,
    Delete: OpCode.DELETE,
    DeleteContainer: OpCode.DELETE_CONTAINER,
    SetData: OpCode.SET_DATA,
    SetAcl: OpCode.SET_ACL,
    Check: OpCode.CHECK,
    CheckNotExists: KeeperOpCode.CHECK_NOT_EXISTS,
    CreateIfNotExists: KeeperOpCode.CREATE_IF_NOT_EXISTS,
    RemoveRecursive: KeeperOpCode.REMOVE_RECURSIVE,
    CheckStat: KeeperOpCode.CHECK_STAT,
    TryRemove: KeeperOpCode.TRY_REMOVE,
}


def opcode(asked: Single) -> int:
    """What a request goes under."""
    if isinstance(asked, CreateMortal):
        return OpCode.CREATE_CONTAINER if asked.ttl is None else OpCode.CREATE_TTL
    return _OPCODES[type(asked)]


class Refused(Exception):
    """The request is answered with an error."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code)
        self.code = code


# What clients see of a node, in the order of ZooKeeper's Stat.
Stat = tuple[int, int, int, int, int, int, int, int, int, int, int]


class Answer(NamedTuple):
    """(path of a create, Stat) where the operation gives them."""

    path: str | None = None
    stat: Stat | None = None


class MultiAnswer(NamedTuple):
    """The answers of all parts; or which part failed, and why."""

    answers: list[Answer]
    failed_at: int | None
    code: ErrorCode
