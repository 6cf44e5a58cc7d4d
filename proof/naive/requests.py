"""What the naive ZooKeeper is asked for, and what it answers. The requests are the oracle's."""

from typing import NamedTuple, TypeAlias

from codec.constants import ErrorCode
from codec.jute import Acl
from lab.oracle.requests import (
    Check,
    CheckNotExists,
    CheckStat,
    CloseSession,
    Create,
    CreateContainer,
    CreateIfNotExists,
    CreateTtl,
    Delete,
    DeleteContainer,
    Multi,
    RemoveRecursive,
    SetAcl,
    SetData,
    TryRemove,
)

Acls = tuple[Acl, ...]
Creates: TypeAlias = Create | CreateContainer | CreateTtl
Keepers: TypeAlias = CheckNotExists | CreateIfNotExists | RemoveRecursive | CheckStat | TryRemove
Single: TypeAlias = Creates | Delete | DeleteContainer | SetData | SetAcl | Check | Keepers
Asked: TypeAlias = Single | Multi | CloseSession


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
