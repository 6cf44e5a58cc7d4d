"""Applies transactions of ZooKeeper to the state machine's state, and collects the changes.

The rules are those of DataTree.processTxn, on a tree that is exactly the one after the previous transaction.
A transaction that does not fit does not belong to this tree: that is an error.
"""

from collections.abc import Callable, Sequence
from itertools import chain

from codec.constants import OpCode
from codec.jute import Acl
from pipeline.errors import Failure
from pipeline.etcd.sessions import session_of
from pipeline.follow.base import acl_of
from pipeline.follow.changed import Changed
from pipeline.table import SessionRow, TransactionRow
from proxy.state.machine import Machine
from proxy.state.node import full_node
from proxy.state.rights import rights_of
from proxy.state.transaction import Transaction
from schema.followed import Followed
from schema.paths import CONFIG, parent_of


class Diverged(Failure):
    """A transaction does not fit the tree."""


class Changes:
    """Applies transactions, and collects their changes until `take`."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._tx: Transaction = machine.transaction
        self._changed = Changed(machine)

    @property
    def pending(self) -> bool:
        """Whether there is anything to take."""
        return self._changed.pending

    def apply(self, rows: Sequence[TransactionRow]) -> None:
        """Apply one transaction: all rows of one zxid. Raises Diverged."""
        first = rows[0]
        # A failed multi in the log has its first parts, as if they had succeeded.
        if not any(row.type == OpCode.ERROR for row in rows):
            self._tx.enter(NO_SENDER, first.time, 0)
            self._tx.zxid = first.zxid
            for row in rows:
                apply = _TYPES.get(row.type)
                # Empty multis change nothing, checks were made before the transaction was logged, and the
                # addresses of ZooKeeper's own members are not part of the tree.
                if apply is None or row.path == CONFIG:
                    continue
                try:
                    apply(self, row)
                except KeyError as error:
                    raise Diverged(
                        f"{row.file}, byte {row.offset}: transaction {row.zxid:#x} does not fit the tree:"
                        f" {OpCode(row.type).name} {row.path or ''} meets no {error}. It is the log of"
                        " another ensemble, or transactions before it are missing. Start the follow over"
                        " (--overwrite)"
                    ) from None
            self._tx.commit()
        self._machine.zxid = first.zxid

    def end_sessions(self, zxid: int, clock: int) -> None:
        """Close all sessions in one transaction with `zxid`."""
        self._tx.enter(NO_SENDER, clock, 0)
        self._tx.zxid = zxid
        for session_id in sorted(self._machine.sessions):
            self._end(session_id, ())
        self._tx.commit()
        self._machine.zxid = zxid

    def move_to(self, zxid: int) -> None:
        """Continue at a later zxid."""
        self._machine.zxid = zxid

    def take(self) -> Followed:
        """What has changed since the last time."""
        return self._changed.take()

    # -- one type each --------------------------------------------------------------------------------------

    def _create(self, row: TransactionRow) -> None:
        path = row.path or ""
        above = parent_of(path)
        nodes = self._machine.tree.nodes
        parent = full_node(nodes, above)
        if path in nodes:
            raise KeyError(f"free place for {path}")
        created, pzxid = parent.created, parent.pzxid
        self._tx.create(path, above, parent, row.data, rights_of(self._acl(row)), row.owner or 0)
        # As DataTree.createNode, which trusts the transaction.
        counter = created + 1 if row.parent_cversion is None else row.parent_cversion
        if counter > created:
            parent.created = counter
        else:
            parent.created, parent.pzxid = created, pzxid
        parent.changed()
        self._changed.created(path)

    def _delete(self, row: TransactionRow) -> None:
        self._remove(row.path or "")

    def _remove(self, path: str) -> None:
        above = parent_of(path)
        nodes = self._machine.tree.nodes
        parent, node = full_node(nodes, above), nodes[path]
        if node.children:
            raise KeyError(f"{path} without children")
        pzxid = parent.pzxid
        self._tx.delete(path, above, parent, node)
        parent.pzxid = max(pzxid, parent.pzxid)
        self._changed.deleted(path)

    def _set_data(self, row: TransactionRow) -> None:
        path = row.path or ""
        nodes = self._machine.tree.nodes
        self._tx.set_data(path, nodes[path], row.data)
        full_node(nodes, path).version = row.version or 0
        self._changed.data(path)

    def _set_acl(self, row: TransactionRow) -> None:
        path = row.path or ""
        nodes = self._machine.tree.nodes
        self._tx.set_acl(path, nodes[path], rights_of(self._acl(row)))
        full_node(nodes, path).aversion = row.version or 0
        self._changed.stat(path)

    def _create_session(self, row: TransactionRow) -> None:
        sessions = self._machine.sessions
        if row.session_id in sessions:
            self._end(row.session_id, ())
        self._tx.open_session(session_of(SessionRow(row.session_id, row.timeout_ms or 0)))
        self._changed.opened(row.session_id)

    def _close_session(self, row: TransactionRow) -> None:
        self._end(row.session_id, row.paths or ())

    def _end(self, session_id: int, paths: Sequence[str]) -> None:
        """As DataTree.killSession: first the nodes that the transaction names, then the others."""
        tree = self._machine.tree
        left: set[str] = tree.ephemerals.get(session_id, set())
        for path in chain(paths, sorted(left - set(paths))):
            if path in tree.nodes:
                self._remove(path)
        session = self._machine.sessions.get(session_id)
        if session is None:
            return
        self._tx.close_session(session)
        self._changed.closed(session_id)

    def _acl(self, row: TransactionRow) -> tuple[Acl, ...]:
        return acl_of(row.acl)


#: No sender: transactions are not evaluated for a proxy's client.
NO_SENDER = ""

_TYPES: dict[int, Callable[[Changes, TransactionRow], None]] = {
    OpCode.CREATE: Changes._create,
    OpCode.CREATE2: Changes._create,
    OpCode.CREATE_CONTAINER: Changes._create,
    OpCode.CREATE_TTL: Changes._create,
    OpCode.DELETE: Changes._delete,
    OpCode.DELETE_CONTAINER: Changes._delete,
    OpCode.SET_DATA: Changes._set_data,
    OpCode.SET_ACL: Changes._set_acl,
    OpCode.CREATE_SESSION: Changes._create_session,
    OpCode.CLOSE_SESSION: Changes._close_session,
}
