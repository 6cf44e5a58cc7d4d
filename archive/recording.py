"""A transaction that records which nodes a request has changed. Pure."""

from archive.segment import ACL, CREATED, DATA, DELETED, NONE
from proxy.state.digest import Digest
from proxy.state.node import Node
from proxy.state.rights import Rights
from proxy.state.sessions import Session
from proxy.state.transaction import Transaction
from proxy.state.tree import Tree
from schema.znode import Stored

#: kind, path, version before and after, bytes before and after
Changed = tuple[int, str, int, int, int, int]


class RecordingTransaction(Transaction):
    """The transaction of an archiver's machine."""

    __slots__ = ("changes",)

    def __init__(self, tree: Tree, sessions: dict[int, Session], digest: Digest) -> None:
        self.changes: list[Changed] = []  # of the last request
        super().__init__(tree, sessions, digest)

    def create(
        self, path: str, above: str, parent: Node, data: bytes | None, rights: Rights, owner: int
    ) -> Node:
        self.changes.append((CREATED, path, NONE, 0, NONE, _size(data)))
        return super().create(path, above, parent, data, rights, owner)

    def delete(self, path: str, above: str, parent: Node, node: Node) -> None:
        self.changes.append((DELETED, path, node.version, NONE, _size(node.data), NONE))
        super().delete(path, above, parent, node)

    def set_data(self, path: str, node: Node, data: bytes | None) -> Node:
        version, size = node.version, _size(node.data)
        node = super().set_data(path, node, data)
        self.changes.append((DATA, path, version, node.version, size, _size(data)))
        return node

    def set_acl(self, path: str, node: Node, rights: Rights) -> Node:
        version, size = node.aversion, _size(node.data)
        node = super().set_acl(path, node, rights)
        self.changes.append((ACL, path, version, node.aversion, size, size))
        return node

    def assign(self, path: str, node: Node, value: Stored) -> Node:
        version, size = node.version, _size(node.data)
        node = super().assign(path, node, value)
        self.changes.append((DATA, path, version, node.version, size, size))
        return node

    def rollback(self) -> None:
        self.changes.clear()
        super().rollback()


def _size(data: bytes | None) -> int:
    return NONE if data is None else len(data)
