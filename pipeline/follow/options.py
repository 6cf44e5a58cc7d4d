"""What the command line says of following, whatever is followed."""

from typing import NamedTuple

from pipeline.etcd.limits import Limits


class Options(NamedTuple):
    """The options of the command line."""

    overwrite: bool = False
    until_level: bool = False
    finish: bool = False
    keep_sessions: bool = False  # of a ZooKeeper; a zketcd's are always kept
    zxid: int = 0  # level and finished mean at least this one
    timeout: float | None = None  # seconds until the tree has to be level
    limits: Limits = Limits()
    metrics: str | None = None  # a file for the age of the tree
    address: str = ""  # of the tree's etcd, for people who find the source sealed
    standby_within: int = 0  # seconds for which the source's proxies may serve without a sign of life
