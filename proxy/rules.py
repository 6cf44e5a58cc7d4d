"""What an administrator decides about operations: ZooKeeper's system properties, as far as `ops` needs."""

from typing import NamedTuple


class Rules(NamedTuple):
    """Settings that an operation's answer depends on."""

    extended_types: bool = True  # zookeeper.extendedTypesEnabled: TTL nodes may be created


DEFAULT_RULES = Rules()
