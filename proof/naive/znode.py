"""A node of the naive ZooKeeper's tree."""

from dataclasses import dataclass

from proof.naive.requests import Acls


@dataclass
class Znode:
    """A node."""

    data: bytes | None
    acl: Acls
    owner: int
    czxid: int
    mzxid: int
    pzxid: int
    ctime: int
    mtime: int
    version: int = 0
    created: int = 0
    aversion: int = 0
    mortal: bool = False  # a container or TTL node
    container: bool = False
