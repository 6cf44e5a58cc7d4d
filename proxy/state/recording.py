"""A transaction that records what each request has changed: the one stream of changes. Pure.

The archive, `export --follow` and the feed of changes take what they need of it.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from typing_extensions import override

from codec.jute import Acl
from proxy.state.digest import Digest, session_hash
from proxy.state.node import Node
from proxy.state.rights import OPEN, Rights
from proxy.state.sessions import Session
from proxy.state.state import State
from proxy.state.transaction import Transaction
from proxy.state.tree import Tree
from schema.znode import Stored

NONE = -1


class What(IntEnum):
    """What a change is."""

    CREATED = 0
    DELETED = 1
    DATA = 2
    ACL = 3
    STAT = 4  # a jump of a tree that follows another: ACL, owner and Stat are another's
    OPENED = 5  # a session
    CLOSED = 6  # precedes the deletes of the session's ephemerals
    ATTACHED = 7  # a session, or many: to another proxy, or with another timeout


class Recorded(NamedTuple):
    """One change that a request has made."""

    what: What
    path: str = ""
    before: int = NONE  # version of the data, of the ACL for ACL; NONE: there was no node
    after: int = NONE  # NONE: there is no node any more
    data_before: bytes | None = None
    data: bytes | None = None  # after the change
    acl: tuple[Acl, ...] = ()  # of a created node, or the new one
    owner: int = 0  # of a created node
    parent_created: int = 0  # the parent's counter, behind a create
    timeout_ms: int = 0  # of a session that was opened
    sessions_digest: int = 0  # by how much the sessions' part of the digest has grown
    rights: Rights = OPEN  # of the node: after the change, of one that was deleted before it


class Recording(Transaction):
    """Changes the state as any transaction does."""

    __slots__ = ("changes",)

    def __init__(self, tree: Tree, sessions: dict[int, Session], digest: Digest) -> None:
        #: In the order in which they were made. The one that takes them clears them.
        self.changes: list[Recorded] = []
        super().__init__(tree, sessions, digest)

    @override
    def create(
        self, path: str, above: str, parent: Node, data: bytes | None, rights: Rights, owner: int
    ) -> Node:
        node = super().create(path, above, parent, data, rights, owner)
        created = self.nodes[above].created  # the parent of a first child takes another form
        change = Recorded(What.CREATED, path, NONE, 0, None, data, rights.acl, owner, created, rights=rights)
        self.changes.append(change)
        return node

    @override
    def delete(self, path: str, above: str, parent: Node, node: Node) -> None:
        self._deleted(path, node)
        super().delete(path, above, parent, node)

    @override
    def delete_siblings(self, above: str, paths: list[str]) -> None:
        for path in paths:
            self._deleted(path, self.nodes[path])
        super().delete_siblings(above, paths)

    def _deleted(self, path: str, node: Node) -> None:
        self.changes.append(Recorded(What.DELETED, path, node.version, NONE, node.data, rights=node.rights))

    @override
    def set_data(self, path: str, node: Node, data: bytes | None) -> Node:
        version, former = node.version, node.data
        node = super().set_data(path, node, data)
        change = Recorded(What.DATA, path, version, node.version, former, data, rights=node.rights)
        self.changes.append(change)
        return node

    @override
    def set_acl(self, path: str, node: Node, rights: Rights) -> Node:
        version, data = node.aversion, node.data
        node = super().set_acl(path, node, rights)
        change = Recorded(What.ACL, path, version, node.aversion, data, data, rights.acl, rights=rights)
        self.changes.append(change)
        return node

    @override
    def assign(self, path: str, node: Node, value: Stored) -> Node:
        version, data = node.version, node.data
        node = super().assign(path, node, value)
        change = Recorded(What.STAT, path, version, node.version, data, data, node.acl, rights=node.rights)
        self.changes.append(change)
        return node

    @override
    def open_session(self, session: Session) -> None:
        super().open_session(session)
        self._of_session(What.OPENED, session_hash(session), session.timeout_ms)

    @override
    def close_session(self, session: Session) -> None:
        self._of_session(What.CLOSED, -session_hash(session))
        super().close_session(session)

    @override
    def attach_session(self, session: Session, incarnation: str, timeout_ms: int) -> None:
        former = session_hash(session)
        super().attach_session(session, incarnation, timeout_ms)
        self._of_session(What.ATTACHED, session_hash(session) - former)

    @override
    def attach_sessions(self, sessions: Sequence[Session], former: str, incarnation: str) -> int:
        grown = super().attach_sessions(sessions, former, incarnation)
        if sessions:
            self._of_session(What.ATTACHED, grown)
        return grown

    def _of_session(self, what: What, digest: int, timeout_ms: int = 0) -> None:
        self.changes.append(Recorded(what, timeout_ms=timeout_ms, sessions_digest=digest))

    @override
    def rollback(self) -> None:
        super().rollback()
        self.changes.clear()


def keep_changes(state: State) -> list[Recorded]:
    """From now on the state's changes are recorded in this list. The one that takes them clears it."""
    state.use_transaction(Recording)
    transaction = state.transaction
    assert isinstance(transaction, Recording)
    return transaction.changes
