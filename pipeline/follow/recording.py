"""Turns the changes of zketcd's state machine, request by request, into transactions of ZooKeeper's log.

Pure. A transaction has the changes that a request has made, in their order, not the request itself. So
requests that ZooKeeper does not have (Keeper's) become plain creates and deletes. A refused request becomes
an error, of which ZooKeeper's log has only the zxid.
"""

from typing import Any, NamedTuple

from codec.constants import OpCode
from codec.jute import Acl
from pipeline.errors import Failure
from pipeline.table import AclRow, TransactionRow
from proxy.state.digest import Digest, session_hash
from proxy.state.machine import Machine
from proxy.state.node import Node
from proxy.state.outcome import Outcome
from proxy.state.rights import Rights
from proxy.state.sessions import Session
from proxy.state.transaction import Transaction
from proxy.state.tree import Tree
from schema.entry import Kind, Request
from schema.znode import CONTAINER_OWNER, Stored, session_of

_MASK = (1 << 64) - 1
_SIGN = 1 << 63
_ASSIGNED = 0  # the type of what no transaction does: only a jump (`is_jump`) gives a node another Stat


class Change(NamedTuple):
    """One change of a request."""

    type: int  # OpCode of the transaction that makes it
    path: str = ""
    data: bytes | None = None
    acl: tuple[Acl, ...] = ()
    number: int = 0  # setData: version; setACL: aversion; creates: the parent's counter
    owner: int = 0


class Recording(Transaction):
    """Changes the state as any transaction does, and records the changes that a log of ZooKeeper has."""

    __slots__ = ("changes", "sessions_digest")

    def __init__(self, tree: Tree, sessions: dict[int, Session], digest: Digest) -> None:
        super().__init__(tree, sessions, digest)
        self.changes: list[Change] = []
        #: The sessions' part of the digest, which ZooKeeper's digest does not have.
        self.sessions_digest = sum(map(session_hash, sessions.values()))

    def create(
        self, path: str, above: str, parent: Node, data: bytes | None, rights: Rights, owner: int
    ) -> Node:
        node = super().create(path, above, parent, data, rights, owner)
        created = self.nodes[above].created  # the parent of a first child takes another form
        self.changes.append(Change(_create_of(owner), path, data, rights.acl, created, owner))
        return node

    def delete(self, path: str, above: str, parent: Node, node: Node) -> None:
        super().delete(path, above, parent, node)
        self.changes.append(Change(OpCode.DELETE, path))

    def set_data(self, path: str, node: Node, data: bytes | None) -> Node:
        node = super().set_data(path, node, data)
        self.changes.append(Change(OpCode.SET_DATA, path, data, number=node.version))
        return node

    def set_acl(self, path: str, node: Node, rights: Rights) -> Node:
        node = super().set_acl(path, node, rights)
        self.changes.append(Change(OpCode.SET_ACL, path, acl=rights.acl, number=node.aversion))
        return node

    def assign(self, path: str, node: Node, value: Stored) -> Node:
        self.changes.append(Change(_ASSIGNED, path))
        return super().assign(path, node, value)

    def open_session(self, session: Session) -> None:
        super().open_session(session)
        self.sessions_digest += session_hash(session)
        self.changes.append(Change(OpCode.CREATE_SESSION, number=session.timeout_ms))

    def close_session(self, session: Session) -> None:
        self.sessions_digest -= session_hash(session)
        self.changes.append(Change(OpCode.CLOSE_SESSION))  # precedes the deletes of its ephemerals
        super().close_session(session)

    def attach_session(self, session: Session, incarnation: str, timeout_ms: int) -> None:
        self.sessions_digest -= session_hash(session)
        super().attach_session(session, incarnation, timeout_ms)
        self.sessions_digest += session_hash(session)

    def rollback(self) -> None:
        super().rollback()
        self.changes.clear()
        self.sessions_digest = sum(map(session_hash, self._sessions.values()))


class Recorder:
    """Makes transactions of a machine's changes."""

    def __init__(self, machine: Machine) -> None:
        """From here on `machine` records."""
        self._machine = machine
        self._zxid = machine.zxid
        self._tx: Recording
        machine.use_transaction(self._made)

    def _made(self, tree: Tree, sessions: dict[int, Session], digest: Digest) -> Transaction:
        self._tx = Recording(tree, sessions, digest)
        return self._tx

    def digest(self) -> int:
        """The digest of the nodes without sessions, as ZooKeeper's: a signed long."""
        total = self._machine.digest.settle(self._machine.tree.nodes) - self._tx.sessions_digest
        return ((total & _MASK) ^ _SIGN) - _SIGN

    def taken(self, request: Request, outcome: Outcome) -> list[TransactionRow]:
        """The transaction of the request that was executed last; no rows if it had no zxid.

        Raises Failure for changes that no transaction of ZooKeeper can make. A jump becomes an error.
        """
        before, self._zxid = self._zxid, self._machine.zxid
        changes = list(self._tx.changes)
        self._tx.changes.clear()
        if self._zxid == before:
            return []
        plain = self._row(request)
        if not changes or is_jump(request):
            return [plain._replace(type=OpCode.ERROR, error=outcome.err)]
        kinds = {change.type for change in changes}
        if changes[0].type == OpCode.CLOSE_SESSION:
            paths = tuple(change.path for change in changes[1:])
            rows = [plain._replace(type=OpCode.CLOSE_SESSION, paths=paths)]
        elif changes[0].type == OpCode.CREATE_SESSION:
            rows = [plain._replace(type=OpCode.CREATE_SESSION, timeout_ms=changes[0].number)]
        elif len(changes) == 1 and _ASSIGNED not in kinds:
            rows = [_filled(plain, changes[0])]
            if request.kind == Kind.NODE_DUE:
                rows = [rows[0]._replace(type=OpCode.DELETE_CONTAINER)]
        elif kinds <= _IN_MULTI:
            rows = [_filled(plain._replace(part=part), change) for part, change in enumerate(changes)]
        else:
            raise Failure(f"zxid {self._zxid:#x}: no transaction of ZooKeeper's does {sorted(kinds)} at once")
        return [*rows[:-1], rows[-1]._replace(digest=self.digest())]

    def _row(self, request: Request) -> TransactionRow:
        fields: dict[str, Any] = dict.fromkeys(TransactionRow._fields)
        fields |= {"zxid": self._zxid, "part": -1, "session_id": request.session_id, "cxid": 0}
        fields |= {"time": self._tx.sender.clock, "type": OpCode.ERROR, "file": "", "offset": 0}
        return TransactionRow(**fields)


def is_jump(request: Request) -> bool:
    """Whether only a snapshot can express what a request did: zxids continue from a later one."""
    return request.kind in (Kind.EPOCH, Kind.FOLLOWED)


_IN_MULTI = frozenset(
    {
        OpCode.CREATE,
        OpCode.CREATE_CONTAINER,
        OpCode.CREATE_TTL,
        OpCode.DELETE,
        OpCode.SET_DATA,
    }
)
_VERSIONED = frozenset({OpCode.SET_DATA, OpCode.SET_ACL})


def _create_of(owner: int) -> int:
    if owner == CONTAINER_OWNER:
        return OpCode.CREATE_CONTAINER
    return OpCode.CREATE if not owner or session_of(owner) else OpCode.CREATE_TTL


def _filled(plain: TransactionRow, change: Change) -> TransactionRow:
    acl = tuple(AclRow(*entry) for entry in change.acl) if change.acl else None
    row = plain._replace(type=change.type, path=change.path, data=change.data, acl=acl)
    if change.type in _VERSIONED:
        return row._replace(version=change.number)
    return row._replace(parent_cversion=change.number, owner=change.owner)
