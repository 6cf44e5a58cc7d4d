"""The state machine: it evaluates the requests of the log's entries, one after another.

ZooKeeper's PrepRequestProcessor and FinalRequestProcessor, as far as writes go. What a client's request does
to the tree is in `ops`; the requests of the proxies themselves (sessions, due nodes, levels) are at the end.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from codec.constants import ErrorCode, OpCode
from codec.errors import MalformedPacket
from proxy.state import level
from proxy.state.difference import moving_sessions, tree_events
from proxy.state.digest import Digest
from proxy.state.digest import whole as whole_digest
from proxy.state.followed import apply_followed
from proxy.state.level import UnknownLevel
from proxy.state.operation import WriteOperation
from proxy.state.ops import EXTENDED, PLAIN
from proxy.state.ops.delete_container import delete_due
from proxy.state.ops.unreadable import code_of, spends_zxid
from proxy.state.outcome import DONE as DONE
from proxy.state.outcome import Disagreement as Disagreement
from proxy.state.outcome import Outcome as Outcome
from proxy.state.outcome import SessionChange as SessionChange
from proxy.state.pieces import AT_ONCE_BYTES, PIECE, Laborious, Unfinished, Work, whole
from proxy.state.refusal import Refusal
from proxy.state.sessions import Session
from proxy.state.transaction import Transaction
from proxy.state.tree import Tree
from proxy.state.watches import TreeEvent
from schema.entry import (
    Entry,
    Kind,
    Request,
    Rules,
    decode_attach,
    decode_carry_over,
    decode_close,
    decode_epoch,
    decode_forget,
    decode_level,
    decode_node_due,
    decode_open,
)
from schema.followed import decode_followed

log = logging.getLogger(__name__)

#: Entries between two digests that servers compare.
CHECKPOINT_EVERY = 32
# Digests that are remembered, for the entries of proxies that lag behind.
_CHECKPOINTS = 64
# Nodes whose hashes are outstanding; more would hold everything up for more than a millisecond.
_MOST_TOUCHED = 1024

_CLIENT = int(Kind.CLIENT)
_KEEPER = int(Rules.KEEPER)
_SYNC = int(OpCode.SYNC)
_CLOSE_SESSION = int(OpCode.CLOSE_SESSION)


_EXPIRED = Outcome(int(ErrorCode.SESSION_EXPIRED), b"")
_MOVED = Outcome(int(ErrorCode.SESSION_MOVED), b"")
_UNIMPLEMENTED = Outcome(int(ErrorCode.UNIMPLEMENTED), b"")
_FAILED_EVERYWHERE = Outcome(int(ErrorCode.SYSTEM_ERROR), b"")
_new = tuple.__new__


class Machine:
    """The whole state, and how it comes from one to the next.

    An entry is `begin`, `execute` for each request, `end`. What came of the last `execute` or `become` is in
    `events`, `session_changes` and `warnings`.
    """

    def __init__(
        self, cluster_id: int, *, at_level: int = level.NEWEST, known_levels: Iterable[int] = level.KNOWN
    ) -> None:
        """An empty state, without even a root: `capture.new_machine` makes a whole one."""
        self.tree = Tree()
        self.sessions: dict[int, Session] = {}
        self.zxid = 0
        self.entries = 0  # applied since the tree began
        self.applied: dict[str, int] = {}  # the last entry's number, by incarnation
        self.level = at_level
        self.known_levels = frozenset(known_levels)
        self.cluster_id = cluster_id
        self.checkpoints: deque[tuple[int, int]] = deque(maxlen=_CHECKPOINTS)  # (entries, digest)
        self.digest = Digest()
        self.session_changes: list[SessionChange] = []  # always the same list, as those of the transaction
        self._tx = Transaction(self.tree, self.sessions, self.digest)
        #: Whether changes of the tree are collected in `events`.
        self.watched = False
        #: Whether the caller of `execute` takes `Unfinished`.
        self.in_pieces = False
        #: Whether a request is applied in part: the tree shows neither what was before it nor what it leaves.
        self.midway = False
        #: What the last request changed, in ZooKeeper's order; always the same list.
        self.events: list[TreeEvent] = self._tx.events
        #: Quotas that the last request exceeds: path, and what of it; always the same list.
        self.warnings: list[tuple[str, str]] = self._tx.warnings
        self._writes: Mapping[int, WriteOperation] = PLAIN.writes
        self._next_zxid = 0  # where a request that is applied in pieces takes `zxid`
        self._changing: Collection[str] | None = ()
        self._incarnation = ""  # whose entry is being applied
        self._number = 0

    # -- what the shell asks ---------------------------------------------------------------------------------

    @property
    def last_checkpoint(self) -> tuple[int, int]:
        """(entries, digest) for entries that this proxy sends; (0, 0) if there is none yet."""
        return self.checkpoints[-1] if self.checkpoints else (0, 0)

    @property
    def transaction(self) -> Transaction:
        """What changes the state."""
        return self._tx

    def use_transaction(self, make: Callable[[Tree, dict[int, Session], Digest], Transaction]) -> None:
        """Change the state by another kind of transaction from now on (one that records changes, say)."""
        self._tx = make(self.tree, self.sessions, self.digest)
        self.events = self._tx.events
        self.warnings = self._tx.warnings

    @property
    def ended(self) -> Sequence[str]:
        """The ephemerals of the session that ended last, for the audit log."""
        return self._tx.ended

    @property
    def next_zxid(self) -> int:
        """The zxid of a request that is `Unfinished`."""
        return self._next_zxid

    @property
    def changing(self) -> Collection[str] | None:
        """While `midway`: the paths of at least all nodes that the request has changed; None for all."""
        return self._changing

    def compute_digest(self) -> int:
        """The digest from scratch."""
        return whole_digest(self.tree.nodes, self.sessions)

    # -- taking over a state ---------------------------------------------------------------------------------

    def reset_digest(self, nodes_digest: int | None = None) -> int:
        """Set the digest to that of the state, computed from scratch unless that of the nodes is given."""
        self.digest.reset(self.compute_digest() if nodes_digest is None else nodes_digest)
        if nodes_digest is not None:
            for session in self.sessions.values():
                self.digest.add_session(session)
        return self.digest.settle(self.tree.nodes)

    def become(self, other: "Machine") -> None:
        """Take over the state of a machine that was loaded aside, and tell the difference as events."""
        self.events.clear()
        if self.watched:
            self.events.extend(tree_events(self.tree.nodes, other.tree.nodes))
        self.session_changes[:] = whole(moving_sessions(self.sessions, other.sessions))
        self.replace(other)

    def replace(self, other: "Machine") -> None:
        """Take over the state of a machine that was loaded aside; what differs is for the caller to tell.

        `tree` and `sessions` stay the same objects, for those who read them.
        """
        self.warnings.clear()
        self.tree.become(other.tree)
        self.sessions.clear()
        self.sessions.update(other.sessions)
        self.zxid = other.zxid
        self.entries = other.entries
        self.applied = other.applied
        self.level = other.level
        self.cluster_id = other.cluster_id
        self.checkpoints = other.checkpoints
        self.digest = other.digest
        self._tx.work_on(self.tree, self.sessions, self.digest)

    # -- applying --------------------------------------------------------------------------------------------

    def apply(self, incarnation: str, number: int, entry: Entry) -> list[Outcome]:
        """Apply a whole entry, whose requests have no client here that waits for a reply."""
        self.begin(incarnation, number, entry.clock, entry.rules, entry.checkpoint, entry.digest)
        outcomes = [self.execute(request) for request in entry.requests]
        self.end()
        return outcomes

    def begin(
        self, incarnation: str, number: int, clock: int, rules: int, checkpoint: int = 0, digest: int = 0
    ) -> Disagreement | None:
        """Go on to the next entry; says whether its sender had come to another digest.

        Raises AssertionError unless the number is the incarnation's next.
        """
        last = self.applied.get(incarnation, 0)
        if number != last + 1:
            raise AssertionError(f"entry {number} of {incarnation} cannot follow its entry {last}")
        self.applied[incarnation] = number
        self._incarnation = incarnation
        self._number = number
        self._tx.enter(incarnation, clock, rules)
        self._writes = EXTENDED.writes if rules & _KEEPER else PLAIN.writes
        if checkpoint:
            for entries, ours in reversed(self.checkpoints):  # mostly it is the last one
                if entries <= checkpoint:
                    if entries == checkpoint and ours != digest:
                        return Disagreement(incarnation, checkpoint, digest, ours)
                    break
        return None

    def execute(self, request: Request, fields: object | None = None, own: bool = False) -> Outcome:
        """Evaluate one request. `own`: its reply is wanted; `fields`: what its body was decoded to before.

        Raises Unfinished, with `in_pieces`: its work is to be done, then comes `publish_zxid`.
        """
        tx = self._tx
        if self.events:
            self.events.clear()
        if self.warnings:
            self.warnings.clear()
        if self.session_changes:
            self.session_changes.clear()
        tx.watched = self.watched
        kind, session_id, opcode, identities, body = request
        if kind != _CLIENT:
            return self._execute_proxy_request(request)
        # As ZooKeeper, which counts whatever it prepares, also what it refuses then.
        if opcode != _SYNC:
            self.zxid += 1
        session = self.sessions.get(session_id)
        if session is None:
            return _EXPIRED
        if session.incarnation != self._incarnation:
            return _MOVED
        operation = self._writes.get(opcode)
        if operation is None:
            self.zxid -= 1
            return _UNIMPLEMENTED
        tx.zxid = self.zxid
        tx.session_id = session_id
        tx.identities = identities
        tx.own = own
        try:
            decode, apply, reply, decoding, _ = operation
            if fields is None:
                if decoding is not None and len(body) > AT_ONCE_BYTES:
                    raise Laborious
                fields, _ = decode(body, 0)
            result = apply(tx, fields)
            # `Outcome(...)` would go through a function written in Python.
            outcome = _new(Outcome, (0, reply(result))) if own else DONE
            tx.commit()
        except Refusal as refusal:
            tx.rollback()
            return Outcome(refusal.code, refusal.body)
        except MalformedPacket as error:
            if opcode != _SYNC and not spends_zxid(opcode, error):
                self.zxid -= 1
            return Outcome(code_of(opcode, error), b"")
        except Laborious:
            tx.rollback()
            self.zxid -= 1
            return self._at_length(self._executing(request, operation, own))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - one request must not stop all servers for ever
            return self._fail_everywhere(request, error)
        if opcode == _CLOSE_SESSION:
            self.session_changes.append(SessionChange(session_id, session.incarnation, None))
        if len(self.digest.touched) > _MOST_TOUCHED:
            self.digest.settle(self.tree.nodes)
        return outcome

    def end(self) -> None:
        """The entry is over."""
        self.entries += 1
        if self.entries % CHECKPOINT_EVERY == 0:
            self.checkpoints.append((self.entries, self.digest.settle(self.tree.nodes)))

    # -- requests that take long -----------------------------------------------------------------------------

    def begin_events(self) -> None:
        """While `midway`: watch events are sent from now on; those of an `Unfinished` one with its zxid."""
        self._changing = None

    def end_events(self) -> None:
        """They are sent, of what was applied at a stretch: its zxid can be seen already."""
        self._changing = ()

    def publish_zxid(self) -> None:
        """The watch events of an `Unfinished` request are sent: from now on clients may see its zxid."""
        self.zxid = self._next_zxid
        self._changing = ()

    def _at_length(self, work: Work[Outcome]) -> Outcome:
        self.digest.settle(self.tree.nodes)  # so that `touched` has the nodes of this request only
        self._changing = self.digest.touched
        if self.in_pieces:
            raise Unfinished(work)
        outcome = whole(work)
        self.publish_zxid()
        return outcome

    def _executing(self, request: Request, operation: WriteOperation, own: bool) -> Work[Outcome]:
        """As `execute` from where it begins to decode, in pieces. `zxid` stays as it is."""
        tx = self._tx
        opcode = request.opcode
        self._next_zxid = tx.zxid
        tx.watched = True  # watches may be set meanwhile
        _, apply, reply, decoding, applying = operation
        try:
            if decoding is None:
                fields, _ = operation.decode(request.body, 0)
            else:
                fields, _ = yield from decoding(request.body, 0)
            result = apply(tx, fields) if applying is None else (yield from applying(tx, fields))
            yield
            body = reply(result) if own else b""
            yield from tx.committing()
        except Refusal as refusal:
            yield from tx.rolling_back()
            return Outcome(refusal.code, refusal.body)
        except MalformedPacket as error:
            if not spends_zxid(opcode, error):
                self._next_zxid = self.zxid
            return Outcome(code_of(opcode, error), b"")
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            return self._fail_everywhere(request, error)
        if opcode == _CLOSE_SESSION:
            session_id = request.session_id
            self.session_changes.append(SessionChange(session_id, self._incarnation, None))
        yield from self._settling()
        return Outcome(0, body)

    def _executing_proxy_request(self, request: Request) -> Work[Outcome]:
        """As `_execute_proxy_request`, in pieces."""
        tx = self._tx
        zxid = self._next_zxid = self.zxid
        tx.watched = True
        try:
            if request.kind == Kind.CLOSE:
                session = self._closed(request)
                yield from tx.closing_session(session)
                self._next_zxid += 1
                changes: Iterable[SessionChange] = [SessionChange(session.id, session.incarnation, None)]
            else:
                changes = _PROXY_REQUESTS[request.kind](self, request)
                self.zxid, self._next_zxid = zxid, self.zxid
            yield from tx.committing()
        except Refusal as refusal:
            yield from tx.rolling_back()
            return Outcome(refusal.code, refusal.body)
        except (MemoryError, UnknownLevel):
            raise
        except Exception as error:  # noqa: BLE001 - as above
            self.zxid = self._next_zxid = zxid
            return self._fail_everywhere(request, error)
        self.session_changes += changes
        yield from self._settling()
        return DONE

    def _settling(self) -> Work[None]:
        if len(self.digest.touched) > PIECE:
            self._changing = frozenset(self.digest.touched)
            yield
            yield from self.digest.settling(self.tree.nodes)

    def _fail_everywhere(self, request: Request, error: Exception) -> Outcome:
        """A defect of ours: the request has no effect, here as at every other proxy."""
        self._tx.rollback()
        log.error(
            "an error in entry %d of %s: the request of kind %d, opcode %d, session %#x fails everywhere",
            self._number,
            self._incarnation,
            request.kind,
            request.opcode,
            request.session_id,
            exc_info=error,
        )
        return _FAILED_EVERYWHERE

    # -- requests of the proxies themselves: as operations, but they count zxids by themselves ---------------

    def _execute_proxy_request(self, request: Request) -> Outcome:
        tx = self._tx
        zxid = self.zxid
        tx.zxid = zxid + 1
        try:
            changes = _PROXY_REQUESTS[request.kind](self, request)
            tx.commit()
        except Refusal as refusal:
            tx.rollback()
            return Outcome(refusal.code, refusal.body)
        except Laborious:
            tx.rollback()
            self.zxid = zxid
            return self._at_length(self._executing_proxy_request(request))
        except (MemoryError, UnknownLevel):
            raise
        except Exception as error:  # noqa: BLE001 - as above
            self.zxid = zxid
            return self._fail_everywhere(request, error)
        self.session_changes += changes
        return DONE

    def _open(self, request: Request) -> Iterable[SessionChange]:
        """A client begins a session."""
        timeout_ms, password_hash = decode_open(request.body)
        if request.session_id in self.sessions:
            raise Refusal(ErrorCode.SYSTEM_ERROR)  # two proxies drew the same id: the later one draws again
        session = Session(request.session_id, timeout_ms, password_hash, self._incarnation)
        self._tx.open_session(session)
        self.zxid += 1
        return [SessionChange(session.id, "", self._incarnation)]

    def _attach(self, request: Request) -> Iterable[SessionChange]:
        """A client goes on with a session, here. A wrong password is answered as by ZooKeeper."""
        timeout_ms, password_hash = decode_attach(request.body)
        session = self.sessions.get(request.session_id)
        if session is None or session.password_hash != password_hash:
            raise Refusal(ErrorCode.SESSION_EXPIRED)
        former = session.incarnation
        self._tx.attach_session(session, self._incarnation, timeout_ms)
        return [SessionChange(session.id, former, self._incarnation)]

    def _close(self, request: Request) -> Iterable[SessionChange]:
        """A session has been silent for too long, or an administrator ends it."""
        session = self._closed(request)
        self._tx.close_session(session)
        self.zxid += 1
        return [SessionChange(session.id, session.incarnation, None)]

    def _closed(self, request: Request) -> Session:
        """The session that is to be ended. Raises SESSIONEXPIRED, SESSIONMOVED."""
        session = self.sessions.get(request.session_id)
        if session is None:
            raise Refusal(ErrorCode.SESSION_EXPIRED)
        holder = decode_close(request.body).holder
        if holder and session.incarnation != holder:
            raise Refusal(ErrorCode.SESSION_MOVED)
        return session

    def _carry_over(self, request: Request) -> Iterable[SessionChange]:
        """The sender goes on as another incarnation, with all sessions that are still its own."""
        old = decode_carry_over(request.body).old
        moved = sorted(session.id for session in self.sessions.values() if session.incarnation == old)
        for session_id in moved:
            session = self.sessions[session_id]
            self._tx.attach_session(session, self._incarnation, session.timeout_ms)
        return [SessionChange(session_id, old, self._incarnation) for session_id in moved]

    def _node_due(self, request: Request) -> Iterable[SessionChange]:
        """A container or TTL node is due."""
        delete_due(self._tx, decode_node_due(request.body))
        self.zxid += 1
        return ()

    def _epoch(self, request: Request) -> Iterable[SessionChange]:
        """The tree was restored from a backup: zxids go on above all that clients may have seen."""
        cluster_id, at_least = decode_epoch(request.body)
        if cluster_id != self.cluster_id or at_least > self.zxid:
            self.zxid = (max(self.zxid, at_least) >> 32) + 1 << 32
            self.cluster_id = cluster_id
        return ()

    def _raise_level(self, request: Request) -> Iterable[SessionChange]:
        """The rules change from here on."""
        wanted = decode_level(request.body).level
        if wanted > self.level:
            if wanted not in self.known_levels:
                raise UnknownLevel(wanted, self.known_levels)
            self.level = wanted
        return ()

    def _forget(self, request: Request) -> Iterable[SessionChange]:
        """No entry of an incarnation that is over will ever come."""
        self.applied.pop(decode_forget(request.body).incarnation, None)
        return ()

    def _followed(self, request: Request) -> Iterable[SessionChange]:
        """The ZooKeeper that the tree follows has gone on. Changes of any other state have no effect."""
        changes = decode_followed(request.body)
        if changes.after != self.zxid:
            raise Refusal(ErrorCode.BAD_VERSION)
        made = apply_followed(self._tx, changes)
        self.zxid = changes.zxid
        return made


_PROXY_REQUESTS: dict[int, Callable[[Machine, Request], Iterable[SessionChange]]] = {
    Kind.OPEN: Machine._open,
    Kind.ATTACH: Machine._attach,
    Kind.CLOSE: Machine._close,
    Kind.CARRY_OVER: Machine._carry_over,
    Kind.NODE_DUE: Machine._node_due,
    Kind.EPOCH: Machine._epoch,
    Kind.LEVEL: Machine._raise_level,
    Kind.FORGET: Machine._forget,
    Kind.FOLLOWED: Machine._followed,
}
