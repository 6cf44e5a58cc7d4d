"""A znode: the one place where its fields are declared, and how ZooKeeper shows them to clients."""

from operator import attrgetter
from typing import Protocol, TypeAlias

from codec.jute import Acl
from codec.packets import STAT

# ZooKeeper keeps a node's kind in ephemeralOwner (EphemeralType): the lowest long is a container, a top
# byte of 0xff is a TTL node, its five lowest bytes the TTL in milliseconds; clients see 0 for both.
CONTAINER_OWNER = -(1 << 63)
MAX_TTL = (1 << 40) - 1
MIN_TTL_OWNER = -(1 << 56)
_MIN_INT = -(1 << 31)
_MAX_INT = (1 << 31) - 1


def session_of(owner: int) -> int:
    """The session that an ephemeralOwner names: 0 for persistent, container and TTL nodes."""
    if owner == CONTAINER_OWNER or MIN_TTL_OWNER <= owner < 0:
        return 0
    return owner


def ttl_owner(ttl: int) -> int:
    """The ephemeralOwner of a TTL node; `ttl` in milliseconds, from 1 to MAX_TTL."""
    return MIN_TTL_OWNER | ttl


def ttl_of(owner: int) -> int:
    """The TTL in milliseconds of a TTL node's ephemeralOwner; 0 for any other."""
    return owner & MAX_TTL if MIN_TTL_OWNER <= owner < 0 else 0


def kind_of(owner: int) -> str:
    """The kind of a znode with this ephemeralOwner: `persistent`, `ephemeral`, `container` or `ttl`."""
    if not owner:
        return "persistent"
    if owner == CONTAINER_OWNER:
        return "container"
    return "ephemeral" if session_of(owner) else "ttl"


def wrap_int(value: int) -> int:
    """A Java int: versions overflow as they do in ZooKeeper, and counters do so here (compatibility.md)."""
    return (value + 0x80000000 & 0xFFFFFFFF) - 0x80000000


#: What Znode takes: data, ACL, owner, czxid, mzxid, pzxid, ctime, mtime, version, created, aversion.
Fields: TypeAlias = tuple[bytes | None, tuple[Acl, ...], int, int, int, int, int, int, int, int, int]


class Znode:
    """What ZooKeeper persists of a znode (StatPersisted), its data and its ACL."""

    __slots__ = (
        "acl",
        "aversion",
        "created",
        "ctime",
        "czxid",
        "data",
        "mtime",
        "mzxid",
        "owner",
        "pzxid",
        "version",
    )

    # More than seven parameters: the fields of a record, which `fields` gives back in this order.
    def __init__(
        self,
        data: bytes | None,
        acl: tuple[Acl, ...],
        owner: int,
        czxid: int,
        mzxid: int,
        pzxid: int,
        ctime: int,
        mtime: int,
        version: int,
        created: int,
        aversion: int,
    ) -> None:
        """Times are milliseconds since 1970."""
        self.data = data  # None is ZooKeeper's null, which clients can distinguish from empty data
        self.acl = acl
        self.owner = owner  # ephemeralOwner as ZooKeeper stores it: a session, a container or a TTL
        self.czxid = czxid
        self.mzxid = mzxid
        self.pzxid = pzxid
        self.ctime = ctime
        self.mtime = mtime
        self.version = version
        self.created = created  # children ever created: persisted cversion, and the next sequential suffix
        self.aversion = aversion

    @property
    def size(self) -> int:
        """How many bytes of data it has."""
        return len(self.data) if self.data else 0

    def fields(self) -> Fields:
        """What the constructor takes."""
        found: Fields = _fields_of(self)
        return found


_fields_of = attrgetter(
    *("data", "acl", "owner", "czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "created", "aversion")
)


class Stored(Protocol):
    """A znode in any form."""

    @property
    def acl(self) -> tuple[Acl, ...]:
        """Its ACL."""

    @property
    def size(self) -> int:
        """As Znode's."""

    def fields(self) -> Fields:
        """As Znode's."""


def stat_of(node: Stored) -> Znode:
    """A copy without the data and the ACL."""
    return Znode(None, (), *node.fields()[2:])


def pack_stat(node: Znode, child_count: int) -> bytes:
    """The Stat that clients see. cversion follows ZooKeeper's own formula (DataNode.copyStat)."""
    cversion = 2 * node.created - child_count
    data = node.data
    return STAT.pack(
        node.czxid,
        node.mzxid,
        node.ctime,
        node.mtime,
        node.version,
        cversion if _MIN_INT <= cversion <= _MAX_INT else wrap_int(cversion),
        node.aversion,
        session_of(node.owner) if node.owner else 0,
        len(data) if data else 0,
        child_count,
        node.pzxid,
    )
