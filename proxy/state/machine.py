"""The state machine: it evaluates the requests of the log's entries, one after another.

ZooKeeper's PrepRequestProcessor and FinalRequestProcessor, as far as writes go. The effects
of clients' requests on the tree are in `ops`, those of proxies' own requests in `proxy_requests`.
"""

import logging
from collections.abc import Iterable, Mapping

from codec.constants import ErrorCode, OpCode
from codec.errors import MalformedPacket
from codec.named import new_tuple
from proxy.state import level
from proxy.state.level import UnknownLevel
from proxy.state.operation import WriteOperation
from proxy.state.ops import EXTENDED, PLAIN
from proxy.state.ops.unreadable import code_of, spends_zxid
from proxy.state.outcome import DONE, CarriedOver, Disagreement, Outcome, Refusal, SessionChange
from proxy.state.proxy_requests import PROXY_REQUESTS
from proxy.state.state import State
from schema.entry import Entry, Kind, RequestFields, Rules

log = logging.getLogger(__name__)

#: Entries between two digests that servers compare.
CHECKPOINT_EVERY = 32
# Nodes that are hashed together; more would block the event loop for more than a millisecond.
_MOST_TOUCHED = 1024

_CLIENT = int(Kind.CLIENT)
_KEEPER = int(Rules.KEEPER)
_SYNC = int(OpCode.SYNC)
_CLOSE_SESSION = int(OpCode.CLOSE_SESSION)


_EXPIRED = Outcome(int(ErrorCode.SESSION_EXPIRED), b"")
_MOVED = Outcome(int(ErrorCode.SESSION_MOVED), b"")
_UNIMPLEMENTED = Outcome(int(ErrorCode.UNIMPLEMENTED), b"")
_FAILED_EVERYWHERE = Outcome(int(ErrorCode.SYSTEM_ERROR), b"")
_THROTTLED = Outcome(int(ErrorCode.THROTTLED_OP), b"")


class Machine(State):
    """The whole state, and its changes by entries.

    To apply an entry: `begin`, `execute` for each request, `end`. What the last `execute` has done is
    in `session_changes`, and in `events` and `warnings` of the transaction: always the same lists.
    """

    def __init__(
        self,
        cluster_id: int,
        *,
        at_level: int = level.OF_NEW_TREES,
        known_levels: Iterable[int] = level.KNOWN,
    ) -> None:
        """An empty state without a root; `capture.new_machine` makes the state of a new tree."""
        super().__init__(cluster_id, at_level, known_levels)
        self.session_changes: list[SessionChange | CarriedOver] = []
        #: The path of the budget that refused the last request with THROTTLEDOP.
        self.throttled = ""
        self._writes: Mapping[int, WriteOperation] = PLAIN.writes
        self._entry_of = ""  # the incarnation whose entry is being applied; "" between two entries

    @property
    def whole_entries(self) -> Mapping[str, int]:
        """As `applied`, without an entry that is being applied: some of its requests may not be."""
        numbers = self.applied.copy()
        if self._entry_of in numbers:
            numbers[self._entry_of] -= 1
        return numbers

    def apply(self, incarnation: str, number: int, entry: Entry) -> list[Outcome]:
        """Apply a whole entry to whose requests no client of this server waits for replies."""
        self.begin(incarnation, number, entry.clock, entry.rules, entry.checkpoint, entry.digest)
        outcomes = [self.execute(request) for request in entry.requests]
        self.end()
        return outcomes

    def begin(
        self, incarnation: str, number: int, clock: int, rules: int, checkpoint: int = 0, digest: int = 0
    ) -> Disagreement | None:
        """Begin the next entry; returns a disagreement if its sender had another digest.

        Raises AssertionError unless the number is the incarnation's next.
        """
        last = self.applied.get(incarnation, 0)
        if number != last + 1:
            raise AssertionError(f"entry {number} of {incarnation} cannot follow its entry {last}")
        self.applied[incarnation] = number
        self._entry_of = incarnation
        self.transaction.enter(incarnation, clock, rules)
        self._writes = EXTENDED.writes if rules & _KEEPER else PLAIN.writes
        if self.budgets:
            self.budgets.enter(incarnation, clock)
        if checkpoint:
            for entries, ours in reversed(self.checkpoints):  # most often it is the last one
                if entries <= checkpoint:
                    if entries == checkpoint and ours != digest:
                        return Disagreement(incarnation, checkpoint, digest, ours)
                    break
        return None

    def execute(
        self, request: RequestFields, fields: object | None = None, wants_reply: bool = False
    ) -> Outcome:
        """Evaluate one request. `fields`: its body, if it was decoded before.

        A success without `wants_reply` is DONE.
        """
        tx = self.transaction
        if tx.events:
            tx.events.clear()
        if tx.warnings:
            tx.warnings.clear()
        if self.session_changes:
            self.session_changes.clear()
        if request.kind != _CLIENT:
            return self._execute_proxy_request(request)
        opcode = request.opcode
        session_id = request.session_id
        before = self.zxid
        # As ZooKeeper, which counts each request that it prepares, also those that it then refuses.
        if opcode != _SYNC:
            self.zxid += 1
        session = self.sessions.get(session_id)
        if session is None:
            return _EXPIRED
        if session.incarnation != tx.sender.incarnation:
            return _MOVED
        operation = self._writes.get(opcode)
        if operation is None:
            self.zxid = before
            return _UNIMPLEMENTED
        tx.zxid = self.zxid
        tx.session_id = session_id
        tx.identities = request.identities
        tx.wants_reply = wants_reply
        try:
            if fields is None:
                fields, _ = operation.decode(request.body, 0, tx.pause)
            costs = self.budgets.costs_of(operation.effect, fields, tx.pause) if self.budgets else None
            if costs and (spent := self.budgets.spent(costs)) is not None:
                # As ZooKeeper, which spends no zxid on a request that it throttles.
                self.zxid = before
                self.throttled = spent
                return _THROTTLED
            result = operation.apply(tx, fields)
            outcome = new_tuple(Outcome, (0, operation.reply(result))) if wants_reply else DONE
            if costs and tx.has_changed:
                self.budgets.take(costs)
            tx.commit()
        except Refusal as refusal:
            tx.rollback()
            outcome = Outcome(refusal.code, refusal.body)
        except MalformedPacket as error:
            tx.rollback()
            if not spends_zxid(opcode, error):
                self.zxid = before
            outcome = Outcome(code_of(operation, error), b"")
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - one request must not stop all servers for ever
            outcome = self._fail_everywhere(request, error)
        else:
            if opcode == _CLOSE_SESSION:
                self.session_changes.append(SessionChange(session_id, session.incarnation, None))
        if len(self.digest.touched) > _MOST_TOUCHED:
            self.digest.settle(self.tree.nodes, tx.pause)
        return outcome

    def sync(self, request: RequestFields, fields: object | None, incarnation: str) -> Outcome:
        """Evaluate a sync of this incarnation that is in no entry. Called between two entries."""
        self.transaction.enter(incarnation, 0, 0)
        return self.execute(request, fields, wants_reply=True)

    def end(self) -> None:
        """End the entry."""
        self._entry_of = ""
        self.entries += 1
        if self.entries % CHECKPOINT_EVERY == 0:
            self.checkpoints.append(
                (self.entries, self.digest.settle(self.tree.nodes, self.transaction.pause))
            )

    def _execute_proxy_request(self, request: RequestFields) -> Outcome:
        tx = self.transaction
        zxid = self.zxid
        tx.zxid = zxid + 1
        try:
            changes = PROXY_REQUESTS[request.kind](self, request)
            tx.commit()
        except Refusal as refusal:
            tx.rollback()
            return Outcome(refusal.code, refusal.body)
        except (MemoryError, UnknownLevel):
            raise
        except Exception as error:  # noqa: BLE001 - as above
            self.zxid = zxid
            return self._fail_everywhere(request, error)
        self.session_changes += changes
        if len(self.digest.touched) > _MOST_TOUCHED:
            self.digest.settle(self.tree.nodes, tx.pause)
        return DONE

    def _fail_everywhere(self, request: RequestFields, error: Exception) -> Outcome:
        """A defect of zketcd: the request has no effect, at this proxy and at every other one."""
        incarnation = self.transaction.sender.incarnation
        self.transaction.rollback()
        log.error(
            "an error in entry %d of %s: the request of kind %d, opcode %d, session %#x fails everywhere",
            self.applied.get(incarnation),
            incarnation,
            request.kind,
            request.opcode,
            request.session_id,
            exc_info=error,
        )
        return _FAILED_EVERYWHERE
