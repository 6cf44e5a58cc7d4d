"""Applies transactions of ZooKeeper to the state machine's state, and collects the changes.

The rules are those of DataTree.processTxn, on a tree that is exactly the one after the previous transaction.
A transaction that does not fit does not belong to this tree: that is an error here. pipeline.formats.replay
has to pass over it, since a snapshot may contain its effects already.
"""

from collections.abc import Callable, Sequence

from codec.constants import OpCode
from codec.jute import Acl
from pipeline.errors import Failure
from pipeline.etcd.sessions import session_of_row
from pipeline.follow.base import acl_of
from pipeline.follow.ends import NO_SENDER, Ends
from pipeline.table import SessionRow, TransactionRow
from proxy.state.node import full_node
from proxy.state.rights import rights_of
from schema.paths import CONFIG, parent_of


class Diverged(Failure):
    """A transaction does not fit the tree."""


class Changes(Ends):
    """Applies transactions, and collects their changes until `take`."""

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
        self.remove(row.path or "")

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
        self._changed.acl(path)

    def _create_session(self, row: TransactionRow) -> None:
        if row.session_id in self._machine.sessions:
            raise KeyError(f"free id 0x{row.session_id:x}")
        self._tx.open_session(session_of_row(SessionRow(row.session_id, row.timeout_ms or 0)))
        self._changed.opened(row.session_id)

    def _close_session(self, row: TransactionRow) -> None:
        self.end(row.session_id, row.paths or ())

    def _acl(self, row: TransactionRow) -> tuple[Acl, ...]:
        return acl_of(row.acl)


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
