"""The state as data: what a snapshot holds of a tree, and what makes it known to be right.

`machine` changes it by the log's entries, `capture` makes pages of it, and it of pages.
"""

from collections import deque
from collections.abc import Callable, Iterable

from codec.longs import unsigned
from proxy.state.budgets import Budgets
from proxy.state.digest import Digest
from proxy.state.digest import whole as whole_digest
from proxy.state.sessions import Session
from proxy.state.transaction import Transaction
from proxy.state.tree import Tree

# Digests that are remembered, to compare them with the entries of proxies that are behind.
_CHECKPOINTS = 64


class State:
    """The tree, the sessions, and the counters that the log has made of them."""

    def __init__(self, cluster_id: int, level: int, known_levels: Iterable[int]) -> None:
        """Empty, and without a root."""
        self.tree = Tree()
        self.sessions: dict[int, Session] = {}
        self.zxid = 0
        self.entries = 0  # applied since the tree began
        self.applied: dict[str, int] = {}  # the last entry's number, by incarnation
        self.level = level
        self.known_levels = frozenset(known_levels)
        self.cluster_id = cluster_id
        #: Zxids that the last restores of etcd have undone, and moves that were called off by force. They
        #: ascend. A client that has seen older ones has come back, or its session has timed out.
        self.undone: tuple[range, ...] = ()
        self.checkpoints: deque[tuple[int, int]] = deque(maxlen=_CHECKPOINTS)  # (entries, digest)
        self.budgets = Budgets()
        self.digest = Digest(self.budgets)
        #: The object that changes the state; its `pause` lets other work run during long requests.
        self.transaction = Transaction(self.tree, self.sessions, self.digest)

    @property
    def last_checkpoint(self) -> tuple[int, int]:
        """(entries, digest) for entries that this proxy sends; (0, 0) if there is none yet."""
        return self.checkpoints[-1] if self.checkpoints else (0, 0)

    def use_transaction(self, make: Callable[[Tree, dict[int, Session], Digest], Transaction]) -> None:
        """Use another kind of transaction from now on, such as one that records changes."""
        former = self.transaction
        self.transaction = make(self.tree, self.sessions, self.digest)
        self.transaction.take_over_from(former)

    def compute_digest(self) -> int:
        """The digest from scratch."""
        return unsigned(whole_digest(self.tree.nodes, self.sessions) + self.budgets.hash())

    def reset_digest(self, nodes_digest: int | None = None) -> int:
        """Set the digest to that of the state, computed from scratch unless that of the nodes is given."""
        self.digest.reset(
            whole_digest(self.tree.nodes, self.sessions) if nodes_digest is None else nodes_digest
        )
        if nodes_digest is not None:
            for session in self.sessions.values():
                self.digest.add_session(session)
        return self.digest.settle(self.tree.nodes)

    def replace(self, other: "State") -> None:
        """Take over a state that was loaded separately; the caller reports the difference.

        `tree` and `sessions` stay the same objects, since readers of the state refer to them.
        """
        self.transaction.warnings.clear()
        self.tree.become(other.tree)
        self.sessions.clear()
        self.sessions.update(other.sessions)
        self.zxid = other.zxid
        self.entries = other.entries
        self.applied = other.applied
        self.level = other.level
        self.cluster_id = other.cluster_id
        self.undone = other.undone
        self.checkpoints = other.checkpoints
        self.budgets = other.budgets
        self.digest = other.digest
        self.transaction.paid_at = other.transaction.paid_at
        self.transaction.work_on(self.tree, self.sessions, self.digest)
