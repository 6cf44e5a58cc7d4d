"""The tree of znodes in memory, as of one etcd revision.

Pure data: what a znode is, its Stat, and how nodes enter and leave. Where the values come from is the
mirror's business; what may change is the draft's.
"""

from collections.abc import Iterable

from codec.jute import Acl, pack_strings
from codec.packets import STAT
from proxy.quotas import QUOTA_PATHS, Quotas
from schema.paths import ROOT, split

# ZooKeeper keeps a node's kind in ephemeralOwner (EphemeralType): the lowest long is a container, a top
# byte of 0xff is a TTL node, its five lowest bytes the TTL in milliseconds; clients see 0 for both.
CONTAINER_OWNER = -(1 << 63)
MAX_TTL = (1 << 40) - 1
_TTL_TOP = -(1 << 56)
_MAX_INT = (1 << 31) - 1
SYSTEM = "keeper"  # the name below the root that ClickHouse Keeper keeps for itself


def session_of(owner: int) -> int:
    """The session that an ephemeralOwner names: 0 for persistent, container and TTL nodes."""
    if owner == CONTAINER_OWNER or _TTL_TOP <= owner < 0:
        return 0
    return owner


def ttl_owner(ttl: int) -> int:
    """The ephemeralOwner of a TTL node; `ttl` in milliseconds, from 1 to MAX_TTL."""
    return _TTL_TOP | ttl


def ttl_of(owner: int) -> int:
    """The TTL in milliseconds of a TTL node's ephemeralOwner; 0 for any other."""
    return owner & MAX_TTL if _TTL_TOP <= owner < 0 else 0


def wrap_int(value: int) -> int:
    """A Java int: versions and counters overflow as they do in ZooKeeper."""
    return (value + 0x80000000 & 0xFFFFFFFF) - 0x80000000


class Node:
    """One znode. `mod` and `counter_mod` are etcd's mod_revisions of its key and its counter (0: none).

    What reads send again and again is kept packed, so whoever changes a node says so by `changed`.
    """

    __slots__ = (
        "_names",
        "_stat",
        "acl",
        "aversion",
        "children",
        "counter_mod",
        "created",
        "ctime",
        "czxid",
        "data",
        "explicit_czxid",
        "mod",
        "mtime",
        "mzxid",
        "owner",
        "pzxid",
        "version",
    )

    data: bytes | None
    acl: tuple[Acl, ...]
    owner: int
    czxid: int
    mzxid: int
    pzxid: int
    ctime: int
    mtime: int
    version: int
    aversion: int
    created: int  # children ever created: the next sequential suffix
    mod: int
    counter_mod: int
    explicit_czxid: bool  # czxid stands in the header, since the key's create_revision is another
    children: set[str] | None

    def __init__(self) -> None:
        self._stat: bytes | None = None
        self._names: bytes | None = None

    def changed(self) -> None:
        """A field has changed, or a child came or went."""
        self._stat = self._names = None

    def stat(self) -> bytes:
        """The node's Stat as ZooKeeper sends it."""
        packed = self._stat
        if packed is None:
            packed = self._stat = self._pack_stat()
        return packed

    def names(self) -> bytes:
        """The names of its children, packed."""
        packed = self._names
        if packed is None:
            packed = self._names = pack_strings(self.children or ())
        return packed

    def _pack_stat(self) -> bytes:
        """cversion goes by ZooKeeper's own formula."""
        children = self.children
        count = len(children) if children else 0
        cversion = 2 * self.created - count
        data = self.data
        return STAT.pack(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            cversion if cversion < _MAX_INT else wrap_int(cversion),
            self.aversion,
            session_of(self.owner) if self.owner else 0,
            len(data) if data else 0,
            count,
            self.pzxid,
        )


class Tree:
    """All znodes by path, the ephemerals by session, the nodes that go by themselves, and the quotas."""

    __slots__ = ("data_size", "ephemerals", "mortal", "nodes", "quotas", "system")

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        # Found where `nodes` has nothing, but no part of the tree: what the server says of itself, as Keeper.
        self.system: dict[str, Node] = {}
        self.ephemerals: dict[int, set[str]] = {}
        self.mortal: set[str] = set()  # container and TTL nodes
        self.quotas = Quotas(self.nodes)
        self.data_size = 0  # bytes of all data, and characters of all paths

    def reserves(self, path: str) -> bool:
        """Whether a path belongs to the server itself: none of a tree that has a node there of its own."""
        return bool(self.system) and path.split("/", 2)[1:2] == [SYSTEM] and f"/{SYSTEM}" not in self.nodes

    def attach(self, path: str, node: Node) -> None:
        """Enter a node that was not there, below its parent."""
        data = node.data
        self.data_size += len(path) + len(data) if data else len(path)
        self.nodes[path] = node
        if node.owner:
            self.index_owner(path, node)
        if path != ROOT:
            self.link(path)
        if self.quotas or path.startswith(QUOTA_PATHS):
            self.quotas.came(path, node)

    def link(self, path: str) -> None:
        """Make a node known to its parent, if that is there."""
        slash = path.rfind("/")
        parent = self.nodes.get(path[:slash] or ROOT)
        if parent is not None:
            if parent.children is None:
                parent.children = {path[slash + 1 :]}
            else:
                parent.children.add(path[slash + 1 :])
            parent.changed()

    def index_owner(self, path: str, node: Node) -> None:
        """Make an ephemeral known to its session, a container or TTL node to whoever reaps them."""
        if node.owner:
            session = session_of(node.owner)
            if session:
                self.ephemerals.setdefault(session, set()).add(path)
            else:
                self.mortal.add(path)

    def detach(self, path: str) -> Node | None:
        """Take a node out; None if it was not there."""
        node = self.nodes.pop(path, None)
        if node is None:
            return None
        self.data_size -= len(path) + len(node.data or b"")
        self.forget_owner(path, node)
        if self.quotas:
            self.quotas.went(path, node)
        above, name = split(path)
        parent = self.nodes.get(above)
        if parent is not None and parent.children is not None:
            parent.children.discard(name)
            if not parent.children:
                parent.children = None
            parent.changed()
        return node

    def forget_owner(self, path: str, node: Node) -> None:
        """The reverse of `index_owner`."""
        if node.owner:
            self.mortal.discard(path)
            session = session_of(node.owner)
            owned = self.ephemerals.get(session)
            if owned is not None:
                owned.discard(path)
                if not owned:
                    del self.ephemerals[session]

    def orphans(self, sessions: Iterable[int]) -> set[int]:
        """Sessions that own ephemerals though they are not among `sessions`."""
        return set(self.ephemerals).difference(sessions)
