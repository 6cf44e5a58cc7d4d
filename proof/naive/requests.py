"""What the naive ZooKeeper is asked for, and what it answers. The requests are the oracle's."""

from typing import NamedTuple, TypeAlias

from codec.constants import ErrorCode
from codec.jute import Acl
from lab.oracle import requests as oracle

Acls = tuple[Acl, ...]
Creates: TypeAlias = oracle.Create | oracle.CreateContainer | oracle.CreateTtl
Keepers: TypeAlias = (
    oracle.CheckNotExists
    | oracle.CreateIfNotExists
    | oracle.RemoveRecursive
    | oracle.CheckStat
    | oracle.TryRemove
)
Single: TypeAlias = (
    Creates | oracle.Delete | oracle.DeleteContainer | oracle.SetData | oracle.SetAcl | oracle.Check | Keepers
)
Asked: TypeAlias = Single | oracle.Multi | oracle.CloseSession


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
