"""What an operation does to a node. Budgets, the reserve of etcd's space and reports of traffic go by it."""

import enum
from typing import Any


class Effect(enum.Enum):
    """The effect of one operation, whose fields begin with the path unless it has none."""

    NOTHING = enum.auto()
    CREATES = enum.auto()  # fields: path, data, ACL, mode
    SETS_DATA = enum.auto()  # path, data
    SETS_ACL = enum.auto()  # path, ACL
    DELETES = enum.auto()  # path; perhaps the path alone
    OF_PARTS = enum.auto()  # what its parts do


def path_of(fields: Any) -> str | None:
    """The path in an operation's decoded fields; None if it has none."""
    path = fields if isinstance(fields, str) else fields[0] if isinstance(fields, tuple) and fields else None
    return path if isinstance(path, str) else None
