"""Turns the changes of zketcd's state machine, request by request, into transactions of ZooKeeper's log.

Pure. A transaction has the changes that a request has made, in their order, not the request itself. So
requests that ZooKeeper does not have (Keeper's) become plain creates and deletes. A refused request becomes
an error, of which ZooKeeper's log has only the zxid.
"""

from typing import Any

from codec.constants import OpCode
from codec.longs import signed
from pipeline.errors import Failure
from pipeline.table import AclRow, TransactionRow
from proxy.state.digest import session_hash
from proxy.state.machine import Machine
from proxy.state.outcome import Outcome
from proxy.state.recording import Recorded, What, keep_changes
from schema.entry import Kind, Request
from schema.znode import CONTAINER_OWNER, session_of


class Recorder:
    """Makes transactions of a machine's changes."""

    def __init__(self, machine: Machine) -> None:
        """From here on `machine` records."""
        self._machine = machine
        self._zxid = machine.zxid
        self._changes = keep_changes(machine)
        #: The sessions' part of the digest, which ZooKeeper's digest does not have.
        self._sessions_digest = sum(map(session_hash, machine.sessions.values()))

    def digest(self) -> int:
        """The digest of the nodes without sessions, as ZooKeeper's: a signed long."""
        total = self._machine.digest.without_budgets(self._machine.tree.nodes) - self._sessions_digest
        return signed(total)

    def taken(self, request: Request, outcome: Outcome) -> list[TransactionRow]:
        """The transaction of the request that was executed last; no rows if it had no zxid.

        Raises Failure for changes that no transaction of ZooKeeper can make. A jump becomes an error.
        """
        before, self._zxid = self._zxid, self._machine.zxid
        self._sessions_digest += sum(change.sessions_digest for change in self._changes)
        changes = [change for change in self._changes if change.what != What.ATTACHED]
        self._changes.clear()
        if self._zxid == before:
            return []
        plain = self._row(request)
        if not changes or is_jump(request):
            return [plain._replace(type=OpCode.ERROR, error=outcome.err)]
        first, kinds = changes[0], {change.what for change in changes}
        if first.what == What.CLOSED:
            paths = tuple(change.path for change in changes[1:])
            rows = [plain._replace(type=OpCode.CLOSE_SESSION, paths=paths)]
        elif first.what == What.OPENED:
            rows = [plain._replace(type=OpCode.CREATE_SESSION, timeout_ms=first.timeout_ms)]
        elif len(changes) == 1 and first.what != What.STAT:
            rows = [_filled(plain, first)]
            if request.kind == Kind.NODE_DUE:
                rows = [rows[0]._replace(type=OpCode.DELETE_CONTAINER)]
        elif kinds <= _IN_MULTI:
            rows = [_filled(plain._replace(part=part), change) for part, change in enumerate(changes)]
        else:
            names = ", ".join(sorted(kind.name for kind in kinds))
            raise Failure(f"zxid {self._zxid:#x}: no transaction of ZooKeeper's does {names} at once")
        return [*rows[:-1], rows[-1]._replace(digest=self.digest())]

    def _row(self, request: Request) -> TransactionRow:
        fields: dict[str, Any] = dict.fromkeys(TransactionRow._fields)
        fields |= {"zxid": self._zxid, "part": -1, "session_id": request.session_id, "cxid": 0}
        fields |= {
            "time": self._machine.transaction.sender.clock,
            "type": OpCode.ERROR,
            "file": "",
            "offset": 0,
        }
        return TransactionRow(**fields)


def is_jump(request: Request) -> bool:
    """Whether only a snapshot can express what a request did: zxids continue from a later one."""
    return request.kind in (Kind.EPOCH, Kind.FOLLOWED)


_IN_MULTI = frozenset({What.CREATED, What.DELETED, What.DATA})


def _create_of(owner: int) -> int:
    if owner == CONTAINER_OWNER:
        return OpCode.CREATE_CONTAINER
    return OpCode.CREATE if not owner or session_of(owner) else OpCode.CREATE_TTL


def _filled(plain: TransactionRow, change: Recorded) -> TransactionRow:
    acl = tuple(AclRow(*entry) for entry in change.acl) if change.acl else None
    row = plain._replace(path=change.path, data=change.data, acl=acl)
    if change.what == What.DATA:
        return row._replace(type=OpCode.SET_DATA, version=change.after)
    if change.what == What.ACL:
        return row._replace(type=OpCode.SET_ACL, data=None, version=change.after)
    if change.what == What.DELETED:
        return row._replace(type=OpCode.DELETE, parent_cversion=0, owner=0)
    return row._replace(
        type=_create_of(change.owner), parent_cversion=change.parent_created, owner=change.owner
    )
