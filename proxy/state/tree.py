"""The tree of znodes in memory: DataTree's fields and indexes. `transaction` changes it."""

from collections import OrderedDict
from collections.abc import Collection, Iterable

from codec.jute import INT, Acl, pack_strings
from proxy.state.pause import NO_PAUSE, Pause
from proxy.state.quotas import Quotas
from schema.errors import BadValue
from schema.paths import QUOTA, ROOT
from schema.znode import Znode, pack_stat, session_of

# So many names are packed, or nodes visited, in about the time of one step.
PACKED_PER_STEP = 16


class Node(Znode):
    """One znode, with a cache of bytes that reads send. Code that changes a node has to call `changed`."""

    __slots__ = ("_names", "_stat", "children")

    children: set[str] | None

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
        # As Znode's, inline.
        self.data = data
        self.acl = acl
        self.owner = owner
        self.czxid = czxid
        self.mzxid = mzxid
        self.pzxid = pzxid
        self.ctime = ctime
        self.mtime = mtime
        self.version = version
        self.created = created
        self.aversion = aversion
        self.children = None
        self._stat: bytes | None = None
        self._names: bytes | None = None

    def changed(self) -> None:
        """A field has changed, or a child was created or deleted."""
        self._stat = self._names = None

    def stat(self) -> bytes:
        """The node's Stat as ZooKeeper sends it; cached."""
        packed = self._stat
        if packed is None:
            children = self.children
            packed = self._stat = pack_stat(self, len(children) if children else 0)
        return packed

    def names(self, pause: Pause = NO_PAUSE) -> bytes:
        """The names of its children, packed; cached. May raise TooLong."""
        packed = self._names
        if packed is None:
            packed = self._names = pack_names(self.children or (), pause)
        return packed


def pack_names(names: Collection[str], pause: Pause) -> bytes:
    """A vector of strings. May raise TooLong."""
    pause.expect(len(names) // PACKED_PER_STEP)
    if len(names) <= pause.every:
        return pack_strings(names)
    parts = [pack_strings(batch)[INT.size :] for batch in pause.batches(names, per_step=2)]
    return b"".join((INT.pack(len(names)), *parts))


def free(nodes: dict[str, Node], pause: Pause) -> None:
    """Empty a tree that is not used any more. To free a million nodes at once takes 0.3 s."""
    while nodes:
        for _ in range(min(pause.every, len(nodes))):
            names = nodes.popitem()[1].children
            while names and len(names) > pause.every:
                for _ in range(pause.every):
                    names.pop()
                pause()
        pause()


class Tree:
    """All znodes by path, ephemerals by session, containers and TTL nodes, and the quotas."""

    __slots__ = ("data_size", "ephemerals", "expiring", "nodes", "quotas")

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.ephemerals: dict[int, set[str]] = {}
        self.expiring: OrderedDict[str, None] = OrderedDict()  # container and TTL nodes; see `next_expiring`
        self.quotas = Quotas(self.nodes)
        self.data_size = 0  # bytes of all data, and characters of all paths

    def become(self, other: "Tree") -> None:
        """Take over the content of another tree, which must not be used afterwards."""
        self.nodes = other.nodes
        self.ephemerals = other.ephemerals
        self.expiring = other.expiring
        self.quotas = other.quotas
        self.data_size = other.data_size

    def attach(self, path: str, node: Node) -> None:
        """Add a new node below its parent, which has to exist."""
        self.enter(path, node)
        if path != ROOT:
            self.link(path)

    def enter(self, path: str, node: Node) -> None:
        """Add a new node; `link` adds it to its parent."""
        data = node.data
        self.data_size += len(path) + len(data) if data else len(path)
        self.nodes[path] = node
        if node.owner:
            self.index_owner(path, node.owner)

    def link(self, path: str) -> None:
        """Add a node to its parent. Raises KeyError if the parent does not exist."""
        slash = path.rfind("/")
        parent = self.nodes[path[:slash] or ROOT]
        children = parent.children
        if children is None:
            parent.children = {path[slash + 1 :]}
        else:
            children.add(path[slash + 1 :])
        parent.changed()

    def index_owner(self, path: str, owner: int) -> None:
        """Add an ephemeral to those of its session, and a container or TTL node to the expiring ones."""
        session = session_of(owner)
        if not session:
            self.expiring[path] = None
        elif session in self.ephemerals:
            self.ephemerals[session].add(path)
        else:
            self.ephemerals[session] = {path}

    def detach(self, path: str) -> Node:
        """Remove a node, which has to exist, also from its parent."""
        node = self.nodes.pop(path)
        self.data_size -= len(path) + len(node.data or b"")
        if node.owner:
            self.forget_owner(path, node.owner)
        slash = path.rfind("/")
        parent = self.nodes[path[:slash] or ROOT]
        children = parent.children
        assert children is not None
        children.discard(path[slash + 1 :])
        if not children:
            parent.children = None
        parent.changed()
        return node

    def forget_owner(self, path: str, owner: int) -> None:
        """The reverse of `index_owner`."""
        session = session_of(owner)
        if not session:
            self.expiring.pop(path, None)
            return
        owned = self.ephemerals[session]
        owned.discard(path)
        if not owned:
            del self.ephemerals[session]

    def next_expiring(self) -> str:
        """The next container or TTL node, each in turn, even if some come or go. One has to exist."""
        path = next(iter(self.expiring))
        self.expiring.move_to_end(path)
        return path

    # -- a whole tree, from pages ----------------------------------------------------------------------------

    def enter_all(self, paths: list[str], nodes: Iterable[Node]) -> None:
        """Add many new nodes; `link_all` adds them to their parents. Raises BadValue."""
        known = self.nodes
        before = len(known)
        known.update(zip(paths, nodes, strict=True))
        if len(known) != before + len(paths):
            raise BadValue(f"a path from {paths[0]} to {paths[-1]} comes twice")
        for path in paths:
            node = known[path]
            if node.owner:
                self.index_owner(path, node.owner)

    def link_all(self) -> None:
        """Add each node to its parent, count sizes and find the quotas. Raises BadValue."""
        nodes = self.nodes
        if ROOT not in nodes:
            raise BadValue("there is no root")
        self.data_size = sum(map(len, nodes)) + sum([len(node.data) for node in nodes.values() if node.data])
        # Siblings mostly follow each other.
        last = None
        children: set[str] = set()
        for path in nodes:
            above, _, name = path.rpartition("/")
            if above != last:
                parent = nodes.get(above or ROOT)
                if parent is None:
                    raise BadValue(f"there is {path}, but not its parent")
                last = above
                if parent.children is None:
                    parent.children = set()
                children = parent.children
            children.add(name)
        nodes[ROOT].children.discard("")  # type: ignore[union-attr]
        self._find_quotas()

    def _find_quotas(self) -> None:
        below = [QUOTA] if QUOTA in self.nodes else []
        for path in below:
            node = self.nodes[path]
            below += [f"{path}/{name}" for name in node.children or ()]
            if path != QUOTA:
                self.quotas.node_added(path, node.data)
        self.data_size += self.quotas.settle()
