"""The tree as one request sees it: the data that it may use, and the changes that it makes.

Every change adds an entry to the undo list, so that a request that fails (in a part of a multi, or by a bug)
is undone completely.
"""

from collections.abc import Sequence
from functools import cache
from itertools import groupby, repeat
from operator import attrgetter
from typing import Any, NamedTuple

from codec.constants import ErrorCode, EventType
from codec.jute import Acl
from codec.named import new_tuple
from proxy.state.acl import expand
from proxy.state.auth.scheme import Identities
from proxy.state.auth.schemes import offered
from proxy.state.digest import Digest
from proxy.state.node import FullNode, Node, PackedNode, full_node, new_node, total_size
from proxy.state.outcome import Refusal, SearchRefused, Warned
from proxy.state.pause import BYTES_PER_STEP, NO_PAUSE
from proxy.state.quotas import QUOTA_PATHS, check
from proxy.state.rights import OPEN, Rights
from proxy.state.sessions import Session
from proxy.state.sparse import LOOK, is_sparse
from proxy.state.tree import Tree
from proxy.state.watches import TreeEvent
from schema.entry import Rules
from schema.paths import parent_of
from schema.znode import Stored, stat_of, ttl_of, wrap_int

# Plain numbers: looking up an enum's member costs more than using it.
_CREATED = int(EventType.NODE_CREATED)
_DELETED = int(EventType.NODE_DELETED)
_DATA_CHANGED = int(EventType.NODE_DATA_CHANGED)
_EXTENDED_TYPES = int(Rules.EXTENDED_TYPES)
_ENFORCE_QUOTA = int(Rules.ENFORCE_QUOTA)
_KEEPER = int(Rules.KEEPER)
_X509 = int(Rules.X509)
_SASL = int(Rules.SASL)

_SHORT_ACL = 8
#: Nodes that may be searched in vain at once; so many more for each further request.
IN_VAIN = 1 << 15
IN_VAIN_PER_REQUEST = 2

SYSTEM = "keeper"  # the name below the root that ClickHouse Keeper keeps for itself
_SYSTEM_PATH = f"/{SYSTEM}"


class Sender(NamedTuple):
    """The sender of an entry: its clock, and its settings that change what requests do."""

    incarnation: str
    clock: int  # milliseconds since 1970
    extended_types: bool
    enforces_quota: bool
    keeper: bool
    schemes: frozenset[str]


@cache
def _settings(rules: int) -> tuple[bool, bool, bool, frozenset[str]]:
    return (
        bool(rules & _EXTENDED_TYPES),
        bool(rules & _ENFORCE_QUOTA),
        bool(rules & _KEEPER),
        offered(x509=bool(rules & _X509), sasl=bool(rules & _SASL)),
    )


class Transaction:
    """The data that one request uses, and its changes of the tree.

    One object serves all requests, one after another; the machine prepares it for each. To make one for each
    would cost more than a short request.
    """

    __slots__ = (
        "_digest",
        "_expanded",
        "_quota_changes",
        "_sessions",
        "_undo",
        "deleted_ephemerals",
        "events",
        "identities",
        "many",
        "nodes",
        "paid_at",
        "parts",
        "pause",
        "searched",
        "searches_refused",
        "sender",
        "session_id",
        "tree",
        "ttl_nodes_created",
        "ttl_nodes_deleted",
        "wants_reply",
        "warnings",
        "watched",
        "zxid",
    )

    def __init__(self, tree: Tree, sessions: dict[int, Session], digest: Digest) -> None:
        self._undo: list[tuple[Any, ...]] = []  # each a function and its arguments
        self._quota_changes: list[tuple[Any, ...]] = []
        self.events: list[TreeEvent] = []
        self.deleted_ephemerals: list[str] = []  # of the last session that ended
        self.warnings: list[Warned] = []
        self.pause = NO_PAUSE  # called by long work, to let other work run
        #: Whether changes of the tree are collected in `events`.
        self.watched = False
        self.wants_reply = False  # of the request
        self.zxid = 0  # of the request
        self.session_id = 0  # of the request
        self.ttl_nodes_created = 0  # by all requests (ServerMetrics.TTL_NODE_CREATED_COUNT)
        self.ttl_nodes_deleted = 0
        #: Subtrees, of all requests, that were refused since `may_search` was used up.
        self.searches_refused = 0
        self.identities: Identities = ()  # of the session's connection
        self.searched = 0  # nodes that the request has searched, whatever its bytes
        #: The zxid of the last request with very many changes, or with some that were undone, and how many.
        self.many = 0, 0
        #: The zxid with which requests have paid for all that was searched in vain.
        self.paid_at = 0
        # The last short ACL that was expanded, and for whom: `auth` may stand for very many identities.
        self._expanded: tuple[tuple[Acl, ...], Identities, frozenset[str], Rights] = (), (), frozenset(), OPEN
        self.work_on(tree, sessions, digest)
        self.enter("", 0, 0)

    def work_on(self, tree: Tree, sessions: dict[int, Session], digest: Digest) -> None:
        """Change this state from now on."""
        self.tree = tree
        self.nodes = tree.nodes
        self._sessions = sessions
        self._digest = digest

    def enter(self, incarnation: str, clock: int, rules: int) -> None:
        """Begin the next entry: its sender's incarnation, its clock in ms since 1970, its rules."""
        self.sender = Sender(incarnation, clock, *_settings(rules))
        self.parts = 0  # of all multis of the entry so far

    def take_over_from(self, former: "Transaction") -> None:
        """Take the place of another kind of transaction, also between two requests of an entry."""
        self.sender = former.sender
        self.parts = former.parts
        self.paid_at = former.paid_at
        self.pause = former.pause
        self.watched = former.watched
        self.deleted_ephemerals = former.deleted_ephemerals
        self.ttl_nodes_created = former.ttl_nodes_created
        self.ttl_nodes_deleted = former.ttl_nodes_deleted
        self.searches_refused = former.searches_refused

    # -- for operations --------------------------------------------------------------------------------------

    def reserves(self, path: str) -> bool:
        """Whether a path belongs to the server itself, and the tree has no node there."""
        return self.sender.keeper and path.split("/", 2)[1:2] == [SYSTEM] and _SYSTEM_PATH not in self.nodes

    def missing(self, path: str) -> Refusal:
        """The refusal of a write to a node that does not exist: NONODE.

        For a path that the server keeps for itself it is BADARGUMENTS, as ClickHouse Keeper answers.
        """
        return Refusal(ErrorCode.BAD_ARGUMENTS if self.reserves(path) else ErrorCode.NO_NODE)

    def expand(self, acl: tuple[Acl, ...] | None) -> Rights:
        """The rights by the ACL that the client sent. Raises Refusal as `acl.expand` does."""
        sent, identities, schemes, rights = self._expanded
        if acl == sent and self.identities is identities and self.sender.schemes is schemes:
            return rights
        rights = expand(acl, self.identities, self.sender.schemes, self.pause)
        if acl and len(acl) <= _SHORT_ACL:
            self._expanded = acl, self.identities, self.sender.schemes, rights
        return rights

    def check_quota(self, path: str, count: int, size: int) -> None:
        """Check whether so many nodes and bytes may be added. Raises QUOTAEXCEEDED."""
        warnings = self.warnings if self.wants_reply else []  # only the sender logs them
        enforce = self.sender.enforces_quota
        check(self.tree.quotas, path, count, size, warnings, enforce=enforce, pause=self.pause)

    def search_refused(self, path: str) -> None:
        """Report that a subtree is refused only because others were searched in vain."""
        self.searches_refused += 1
        if self.wants_reply:  # only the sender logs it
            self.warnings.append(SearchRefused(path, self.session_id))

    @property
    def may_search(self) -> int:
        """Nodes that the request may still search, though it may be in vain."""
        return IN_VAIN - max(0, self.paid_at - self.zxid) * IN_VAIN_PER_REQUEST - self.searched

    def session(self) -> Session:
        """The session of the request."""
        return self._sessions[self.session_id]

    def session_named(self, session_id: int) -> Session:
        """An existing session."""
        return self._sessions[session_id]

    # -- changes: whether they are allowed has been checked --------------------------------------------------

    def create(
        self, path: str, above: str, parent: Node, data: bytes | None, rights: Rights, owner: int
    ) -> Node:
        """Create a node below `parent`, whose path is `above` (DataTree.createNode)."""
        zxid = self.zxid
        now = self.sender.clock
        tree = self.tree
        touched = self._digest.touched
        if not isinstance(parent, FullNode):
            parent = full_node(self.nodes, above)
        created = parent.created
        self._undo.append((_uncreate, path, above, created, parent.pzxid))
        if above not in touched:
            self._digest.touch(above, parent, self.pause)
        touched.add(path)
        node = new_node(data, rights, owner, zxid, now)
        # As Tree.attach, inline.
        self.nodes[path] = node
        tree.data_size += len(path) + len(data) if data else len(path)
        if rights is not OPEN:
            tree.acl_size += rights.size
        if owner:
            tree.index_owner(path, owner)
            self.ttl_nodes_created += ttl_of(owner) > 0
        children = parent.children
        if children is None:
            parent.children = {path: None}
        else:
            children[path] = None
        parent.created = created + 1 if created != _MAX_INT else wrap_int(created + 1)
        parent.pzxid = zxid
        parent._stat = parent._names = None
        if tree.quotas or path.startswith(QUOTA_PATHS):
            self._quota_changes.append((tree.quotas.node_added, path, data))
        if self.watched:
            self.events.append(TreeEvent(_CREATED, path, rights, parent.rights))
        return node

    def delete(self, path: str, above: str, parent: Node, node: Node) -> None:
        """Delete a node without children (DataTree.deleteNode)."""
        tree = self.tree
        touched = self._digest.touched
        assert isinstance(parent, FullNode)  # it has a child
        self._undo.append((_undelete, path, above, node, parent.pzxid))
        if above not in touched:
            self._digest.touch(above, parent, self.pause)
        size, owner = node.size, node.owner
        if path not in touched:
            self._digest.touch(path, node, self.pause)
        # As Tree.detach, inline.
        del self.nodes[path]
        tree.data_size -= len(path) + size
        if node.rights is not OPEN:
            tree.acl_size -= node.rights.size
        if owner:
            tree.forget_owner(path, owner)
            if owner < 0:
                self.ttl_nodes_deleted += ttl_of(owner) > 0
        children = parent.children
        assert children is not None
        children.pop(path, None)
        if not len(children) % LOOK and is_sparse(children):  # or empty
            parent.children = dict.fromkeys(children) or None
        parent.pzxid = self.zxid
        parent._stat = parent._names = None
        if tree.quotas or path.startswith(QUOTA_PATHS):
            self._quota_changes.append((tree.quotas.node_removed, path, node.data))
        if self.watched:
            self.events.append(TreeEvent(_DELETED, path, node.rights, parent.rights))

    def set_data(self, path: str, node: Node, data: bytes | None) -> Node:
        """Give a node new data (DataTree.setData); returns the node as it is now."""
        tree = self.tree
        if path not in self._digest.touched:
            self._digest.touch(path, node, self.pause)
        tree.data_size += (len(data) if data else 0) - node.size
        if tree.quotas or path.startswith(QUOTA_PATHS):
            self._quota_changes.append((tree.quotas.changed, path, node.data, data))
        if self.watched:
            self.events.append(TreeEvent(_DATA_CHANGED, path, node.rights, OPEN))
        if not isinstance(node, FullNode):
            self._undo.append((_unset_packed, path, node))
            node = self.nodes[path] = node.written(data, self.zxid, self.sender.clock)
            return node
        version = node.version
        self._undo.append((_unset_data, path, node.data, version, node.mzxid, node.mtime))
        node.data = data
        node.version = version + 1 if version != _MAX_INT else wrap_int(version + 1)
        node.mzxid = self.zxid
        node.mtime = self.sender.clock
        node._stat = None
        return node

    def set_acl(self, path: str, node: Node, rights: Rights) -> Node:
        """Give a node a new ACL (DataTree.setACL); watches do not fire for it."""
        self._undo.append((_put_acl, path, node.rights, node.aversion))
        self._digest.touch(path, node, self.pause)
        if node.size > BYTES_PER_STEP:  # it may be copied into the other form
            self.pause.spend(node.size // BYTES_PER_STEP)
        return _put_acl(self, path, rights, wrap_int(node.aversion + 1))

    def assign(self, path: str, node: Node, value: Stored) -> Node:
        """Give a node the owner and the Stat of `value`; its data and its ACL stay.

        Only for changes of the source that the tree follows: no transaction of ZooKeeper's log does this, so
        `pipeline.follow.recording` fails at it in any other request.
        """
        self._undo.append((_assign, path, stat_of(node)))
        if path not in self._digest.touched:
            self._digest.touch(path, node, self.pause)
        return _assign(self, path, value)

    def delete_ephemerals(self, session_id: int) -> None:
        """Delete what a session owns (DataTree.killSession)."""
        owned = self.tree.ephemerals.get(session_id)
        self.pause.clear(self.deleted_ephemerals)
        self.deleted_ephemerals = self.pause.sorted_texts(owned or ())
        if owned is None:
            return
        for some in self.pause.batches(self.deleted_ephemerals):
            for above, siblings in groupby(some, parent_of):
                self.delete_siblings(above, list(siblings))
            owned.difference_update(some)
        del self.tree.ephemerals[session_id]

    def delete_siblings(self, above: str, paths: list[str]) -> None:
        """Delete some ephemerals below a parent, at most a step's: as `delete`, but for `Tree.ephemerals`."""
        tree, digest, known = self.tree, self._digest, self.nodes
        nodes = [known[path] for path in paths]
        parent = known[above]
        assert isinstance(parent, FullNode)  # it has children
        children = parent.children
        assert children is not None
        self._undo += zip(repeat(_undelete), paths, repeat(above), nodes, repeat(parent.pzxid))
        digest.touch(above, parent, self.pause)
        digest.take_siblings(paths, nodes, self.pause)
        for path in paths:
            del known[path]
            del children[path]
        tree.data_size -= sum(map(len, paths)) + total_size(nodes)
        tree.acl_size -= sum(map(_acl_size, nodes))
        # A multiple of LOOK was left meanwhile, as `delete` asks after each.
        if not children or (-len(children) % LOOK < len(paths) and is_sparse(children)):
            parent.children = dict.fromkeys(children) or None
        parent.pzxid = self.zxid
        parent._stat = parent._names = None
        if tree.quotas or paths[0].startswith(QUOTA_PATHS):
            removed = tree.quotas.node_removed
            self._quota_changes += [
                (removed, path, node.data) for path, node in zip(paths, nodes, strict=True)
            ]
        if self.watched:
            rights = parent.rights
            self.events += [
                new_tuple(TreeEvent, (_DELETED, path, node.rights, rights))
                for path, node in zip(paths, nodes, strict=True)
            ]

    def open_session(self, session: Session) -> None:
        """Add a new session."""
        self._undo.append((_unopen, session))
        self._sessions[session.id] = session
        self._digest.add_session(session)

    def close_session(self, session: Session) -> None:
        """Remove a session and its ephemerals."""
        self._undo.append((_unclose, session))
        self._digest.take_session(session)
        del self._sessions[session.id]
        self.delete_ephemerals(session.id)

    def attach_session(self, session: Session, incarnation: str, timeout_ms: int) -> None:
        """Attach a session to another proxy, or give it another timeout."""
        self._undo.append((_unattach, session, session.incarnation, session.timeout_ms))
        self._digest.take_session(session)
        session.incarnation = incarnation
        session.timeout_ms = timeout_ms
        self._digest.add_session(session)

    def attach_sessions(self, sessions: Sequence[Session], former: str, incarnation: str) -> int:
        """Attach sessions of one incarnation to another; returns by how much the digest has grown.

        Much faster than one by one.
        """
        grown = 0
        for some in self.pause.batches(sessions, _ATTACHED_PER_STEP):
            grown += self._digest.attach_sessions(some, former, incarnation)
            self._undo.append((_unattach_all, some, former, incarnation))
            for session in some:
                session.incarnation = incarnation
        if len(sessions) > _MANY:
            self.many = self.zxid, len(sessions)
        return grown

    # -- the end of a request --------------------------------------------------------------------------------

    @property
    def has_changed(self) -> bool:
        """Whether the request has changed anything."""
        return bool(self._undo)

    def commit(self) -> None:
        """Keep the changes of the request."""
        self.searched = 0
        if self._quota_changes:
            for count, *change in self.pause.each(self._quota_changes):
                count(self.pause, *change)
            self._quota_changes.clear()
            self.tree.data_size += self.tree.quotas.settle(self.pause)
        if len(self._undo) > _MANY:
            self.many = self.zxid, len(self._undo)
            self.pause.clear(self._undo)
        else:
            self._undo.clear()

    def rollback(self) -> None:
        """Undo all changes of the request. For the digest, the touched nodes are hashed again."""
        if self.searched:
            # Not more: beyond it only a few nodes are searched, which the request's bytes pay for.
            self.paid_at = self.zxid + -(-min(IN_VAIN, IN_VAIN - self.may_search) // IN_VAIN_PER_REQUEST)
            self.searched = 0
        if self._undo:
            self.many = self.zxid, len(self._undo)
            for undo, *former in self.pause.each(self._undo[::-1]):
                undo(self, *former)
            self.pause.clear(self._undo)
        self._quota_changes.clear()
        self.events.clear()


_acl_size = attrgetter("rights.size")
_MAX_INT = (1 << 31) - 1
# Freeing more changes than this is slow.
_MANY = 512
# Sessions that are attached in about the time of one step.
_ATTACHED_PER_STEP = 4


# The functions that undo a change. All later changes were undone before, so each finds the tree as its change
# left it. They name nodes by path, since a node may have the other form by then.


def _uncreate(tx: Transaction, path: str, above: str, created: int, pzxid: int) -> None:
    tx.ttl_nodes_created -= ttl_of(tx.tree.detach(path).owner) > 0
    parent = full_node(tx.nodes, above)
    parent.created = created
    parent.pzxid = pzxid


def _undelete(tx: Transaction, path: str, above: str, node: Node, pzxid: int) -> None:
    tx.tree.attach(path, node)
    tx._digest.touched.add(path)
    tx.ttl_nodes_deleted -= ttl_of(node.owner) > 0
    full_node(tx.nodes, above).pzxid = pzxid


def _unset_packed(tx: Transaction, path: str, node: PackedNode) -> None:
    tx.tree.data_size += node.size - tx.nodes[path].size
    tx.nodes[path] = node


def _unset_data(tx: Transaction, path: str, data: bytes | None, version: int, mzxid: int, mtime: int) -> None:
    node = full_node(tx.nodes, path)
    tx.tree.data_size += len(data or b"") - node.size
    node.data = data
    node.version = version
    node.mzxid = mzxid
    node.mtime = mtime
    node.changed()


def _put_acl(tx: Transaction, path: str, rights: Rights, aversion: int) -> Node:
    node = full_node(tx.nodes, path)
    tx.tree.acl_size += rights.size - node.rights.size
    node.rights = rights
    node.aversion = aversion
    return _packed(tx, path, node)


def _packed(tx: Transaction, path: str, node: FullNode) -> Node:
    node.changed()
    packed = tx.nodes[path] = node.packed()
    return packed


def _assign(tx: Transaction, path: str, value: Stored) -> Node:
    node = full_node(tx.nodes, path)
    _, _, owner, czxid, mzxid, pzxid, ctime, mtime, version, created, aversion = value.fields()
    if node.owner != owner:
        if node.owner:
            tx.tree.forget_owner(path, node.owner)
        if owner:
            tx.tree.index_owner(path, owner)
    node.owner = owner
    node.czxid, node.mzxid, node.pzxid = czxid, mzxid, pzxid
    node.ctime, node.mtime = ctime, mtime
    node.version, node.created, node.aversion = version, created, aversion
    return _packed(tx, path, node)


def _unopen(tx: Transaction, session: Session) -> None:
    tx._digest.take_session(session)
    del tx._sessions[session.id]


def _unclose(tx: Transaction, session: Session) -> None:
    tx._sessions[session.id] = session
    tx._digest.add_session(session)


def _unattach_all(tx: Transaction, sessions: Sequence[Session], former: str, incarnation: str) -> None:
    tx._digest.attach_sessions(sessions, incarnation, former)
    for session in sessions:
        session.incarnation = former


def _unattach(tx: Transaction, session: Session, incarnation: str, timeout_ms: int) -> None:
    tx._digest.take_session(session)
    session.incarnation = incarnation
    session.timeout_ms = timeout_ms
    tx._digest.add_session(session)
