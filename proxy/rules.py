"""What an administrator decides about operations: ZooKeeper's system properties, as far as `ops` needs."""

from collections.abc import Callable
from typing import NamedTuple


def _unheard(path: str, message: str) -> None:
    """Nobody wants to know."""


class Rules(NamedTuple):
    """Settings that an operation's answer depends on."""

    extended_types: bool = True  # zookeeper.extendedTypesEnabled: TTL nodes may be created
    enforce_quota: bool = False  # zookeeper.enforceQuota: hard limits refuse what exceeds them
    # Told of a request that would exceed a quota: the quota's path, and what of it.
    quota_exceeded: Callable[[str, str], None] = _unheard


DEFAULT_RULES = Rules()
