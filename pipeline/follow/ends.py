"""Sessions that end in a state, with their ephemerals, and what else a follower takes out of it itself."""

from collections.abc import Sequence
from itertools import chain

from pipeline.follow.changed import Changed
from proxy.state.machine import Machine
from proxy.state.node import full_node
from proxy.state.transaction import Transaction
from schema.followed import Followed
from schema.paths import parent_of

#: No sender: transactions are not evaluated for a proxy's client.
NO_SENDER = ""


class Ends:
    """Changes a state, and collects its changes until `take`."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._tx: Transaction = machine.transaction
        self._changed = Changed(machine)

    @property
    def pending(self) -> bool:
        """Whether there is anything to take."""
        return self._changed.pending

    def end_sessions(self, zxid: int, clock: int) -> None:
        """Close all sessions in one transaction with `zxid`."""
        self._tx.enter(NO_SENDER, clock, 0)
        self._tx.zxid = zxid
        for session_id in sorted(self._machine.sessions):
            self.end(session_id, ())
        self._tx.commit()
        self._machine.zxid = zxid

    def move_to(self, zxid: int) -> None:
        """Continue at a later zxid."""
        self._machine.zxid = zxid

    def take(self) -> Followed:
        """What has changed since the last time."""
        return self._changed.take()

    def remove(self, path: str) -> None:
        """Delete a node. Raises KeyError."""
        above = parent_of(path)
        nodes = self._machine.tree.nodes
        parent, node = full_node(nodes, above), nodes[path]
        if node.children:
            raise KeyError(f"{path} without children")
        pzxid = parent.pzxid
        self._tx.delete(path, above, parent, node)
        parent.pzxid = max(pzxid, parent.pzxid)
        self._changed.deleted(path)

    def end(self, session_id: int, paths: Sequence[str]) -> None:
        """As DataTree.killSession: first the nodes that the transaction names, then the others."""
        tree = self._machine.tree
        left: set[str] = tree.ephemerals.get(session_id, set())
        for path in chain(paths, sorted(left - set(paths))):
            if path in tree.nodes:
                self.remove(path)
        session = self._machine.sessions.get(session_id)
        if session is None:
            return
        self._tx.close_session(session)
        self._changed.closed(session_id)
