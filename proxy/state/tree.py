"""The tree of znodes in memory: DataTree's fields and indexes. `transaction` changes it."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from proxy.state.node import Node, full_node
from proxy.state.pause import NO_PAUSE, Pause
from proxy.state.quotas import Quotas
from proxy.state.sparse import LOOK, is_sparse
from schema.errors import BadValue
from schema.paths import QUOTA, ROOT, parent_of
from schema.znode import session_of


def free(nodes: dict[str, Node], pause: Pause) -> None:
    """Empty a tree that is not used any more. To free a million nodes at once takes 0.3 s."""
    while nodes:
        for _ in range(min(pause.every, len(nodes))):
            names = nodes.popitem()[1].children
            while names and len(names) > pause.every:
                for _ in range(pause.every):
                    names.popitem()
                pause()
        pause()


#: Bytes that a node takes besides its path, data and ACL, about.
NODE_SIZE = 100


class Tree:
    """All znodes by path, ephemerals by session, containers and TTL nodes, and the quotas."""

    __slots__ = ("acl_size", "data_size", "ephemerals", "expiring", "nodes", "quotas")

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.ephemerals: dict[int, set[str]] = {}
        # Container and TTL nodes. An OrderedDict of a million takes 0.3 s when it grows, a set has no order.
        self.expiring: dict[str, None] = {}
        self.quotas = Quotas(self.nodes)
        self.data_size = 0  # bytes of all data, and characters of all paths
        self.acl_size = 0  # `Rights.size` of all nodes

    @property
    def size(self) -> int:
        """Bytes of data, paths and ACLs, and `NODE_SIZE` for each node."""
        return self.data_size + self.acl_size + NODE_SIZE * len(self.nodes)

    def become(self, other: "Tree") -> None:
        """Take over the content of another tree, which must not be used afterwards."""
        self.nodes = other.nodes
        self.ephemerals = other.ephemerals
        self.expiring = other.expiring
        self.quotas = other.quotas
        self.data_size = other.data_size
        self.acl_size = other.acl_size

    def attach(self, path: str, node: Node) -> None:
        """Add a new node below its parent, which has to exist."""
        self.enter(path, node)
        if path != ROOT:
            self.link(path)

    def enter(self, path: str, node: Node) -> None:
        """Add a new node; `link` adds it to its parent."""
        self.data_size += len(path) + node.size
        self.acl_size += node.rights.size
        self.nodes[path] = node
        if node.owner:
            self.index_owner(path, node.owner)

    def link(self, path: str) -> None:
        """Add a node to its parent. Raises KeyError if the parent does not exist."""
        parent = full_node(self.nodes, parent_of(path))
        if parent.children is None:
            parent.children = {path: None}
        else:
            parent.children[path] = None
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
        self.data_size -= len(path) + node.size
        self.acl_size -= node.rights.size
        if node.owner:
            self.forget_owner(path, node.owner)
        parent = full_node(self.nodes, parent_of(path))
        children = parent.children
        assert children is not None
        children.pop(path, None)
        if not children:
            parent.children = None
        elif not len(children) % LOOK and is_sparse(children):
            parent.children = dict.fromkeys(children)
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
        elif not len(owned) % LOOK and is_sparse(owned):
            self.ephemerals[session] = set(owned)

    # -- a whole tree, from pages ----------------------------------------------------------------------------

    def enter_all(
        self, paths: Sequence[str], nodes: Iterable[Node], owners: Sequence[int], data_bytes: int
    ) -> None:
        """Add many new nodes; `link_all` adds them to their parents. Raises BadValue.

        The caller adds what their ACLs take.
        """
        self.data_size += sum(map(len, paths)) + data_bytes
        known = self.nodes
        before = len(known)
        known.update(zip(paths, nodes, strict=True))
        if len(known) != before + len(paths):
            raise BadValue(f"a path from {paths[0]} to {paths[-1]} comes twice")
        if any(owners):
            for path, owner in zip(paths, owners, strict=True):
                if owner:
                    self.index_owner(path, owner)

    def link_all(self) -> None:
        """Add each node to its parent, and find the quotas. Raises BadValue."""
        nodes = self.nodes
        if ROOT not in nodes:
            raise BadValue("there is no root")
        for paths in NO_PAUSE.batches(nodes):
            end = 0
            # Siblings mostly follow each other. `above` is empty for the root and the nodes below it.
            for above, siblings in groupby([path.rpartition("/")[0] for path in paths]):
                begin, end = end, end + len(list(siblings))
                if (above or ROOT) not in nodes:
                    raise BadValue(f"there are nodes below {above}, but it does not exist")
                parent = full_node(nodes, above or ROOT)
                found = dict.fromkeys(paths[begin:end])
                if parent.children is None:
                    parent.children = found
                else:
                    parent.children.update(found)
        nodes[ROOT].children.pop(ROOT, None)  # type: ignore[union-attr]
        self._find_quotas()

    def _find_quotas(self) -> None:
        below = [QUOTA] if QUOTA in self.nodes else []
        for path in below:
            node = self.nodes[path]
            below += node.children or ()
            if path != QUOTA:
                self.quotas.note(NO_PAUSE, path, node.data, present=True)
        self.data_size += self.quotas.settle()
