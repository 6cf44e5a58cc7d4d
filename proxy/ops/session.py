"""What happens to sessions in etcd: opened, taken over from another connection or proxy, ended.

Pure write operations, committed in batches like all others: each is one guarded step in the one order.
"""

from collections.abc import Callable
from typing import NamedTuple, NoReturn

from codec.constants import ErrorCode
from proxy.acl import Caller
from proxy.draft import Draft
from proxy.operation import WriteOperation
from proxy.ops.stats import nothing
from proxy.refusal import Refusal
from schema.values import SessionValue

# Of etcd's 1.5 MiB for a request. A session with more ephemerals than that ends in several Txns, its record
# in the first one; any proxy does the rest (END_IF_GONE). ZooKeeper ends all in one transaction.
_ROOM = 1 << 20


class TakeOver(NamedTuple):
    """A client's wish to go on with a session: what it shows, and what the record would become.

    `wanted` tells whether the client still waits: while etcd was away it may have asked another proxy.
    """

    password_hash: str
    value: SessionValue
    wanted: Callable[[], bool]


def _not_on_the_wire(*_: object) -> NoReturn:
    raise AssertionError("session operations come from the proxy itself")


def _open(draft: Draft, caller: Caller, value: SessionValue) -> None:
    """Enter the record of a session whose lease has just been granted."""
    if draft.session(caller.session_id) is not None:
        raise Refusal(ErrorCode.SYSTEM_ERROR)  # another lease of this id: the caller draws a new one
    draft.change_session(caller.session_id, value)


def _take_over(draft: Draft, caller: Caller, wish: TakeOver) -> None:
    """Make this proxy the owner. SESSIONEXPIRED if it is gone or the password wrong, as ZooKeeper does.

    The timeout may shrink but, unlike ZooKeeper's, not grow: etcd cannot lengthen the lease, and the session
    would not outlive its proxy as long as promised.
    """
    if not wish.wanted():
        raise Refusal(ErrorCode.CONNECTION_LOSS)
    record = draft.session(caller.session_id)
    if record is None or record.value.password_hash != wish.password_hash:
        raise Refusal(ErrorCode.SESSION_EXPIRED)
    timeout = min(wish.value.timeout_ms, record.value.timeout_ms)
    draft.change_session(caller.session_id, wish.value._replace(timeout_ms=timeout))


def _end(draft: Draft, caller: Caller, owner: str | None) -> None:
    """End a session as ZooKeeper's closeSession: ephemerals and the record in one Txn, if they fit.

    With `owner`, only while the record is still that proxy's: a session that moved is not ours to end.
    """
    record = draft.session(caller.session_id)
    if record is not None:
        if owner is not None and record.value.owner != owner:
            raise Refusal(ErrorCode.SESSION_MOVED)
        draft.change_session(caller.session_id, None)
    draft.delete_ephemerals(caller.session_id, _ROOM)


def _end_if_gone(draft: Draft, caller: Caller, _fields: None) -> None:
    """Clear up after a session whose lease ran out; nothing to do if it is alive after all."""
    if draft.session(caller.session_id) is None:
        draft.delete_ephemerals(caller.session_id, _ROOM)


OPEN = WriteOperation(_not_on_the_wire, _open, nothing)
TAKE_OVER = WriteOperation(_not_on_the_wire, _take_over, nothing)
END = WriteOperation(_not_on_the_wire, _end, nothing, checks_first=False)
END_IF_GONE = WriteOperation(_not_on_the_wire, _end_if_gone, nothing, checks_first=False)
