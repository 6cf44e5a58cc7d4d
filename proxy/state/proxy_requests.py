"""The requests of proxies and operators: of sessions, due nodes, levels, budgets and copies.

They are like operations, but each counts its zxid itself. A request returns the changes of sessions.
"""

from collections.abc import Callable, Iterable
from operator import attrgetter

from codec.constants import ErrorCode
from proxy.state.followed import apply_followed
from proxy.state.level import UnknownLevel
from proxy.state.ops.delete_container import delete_due
from proxy.state.outcome import CarriedOver, Refusal, SessionChange
from proxy.state.sessions import Session
from proxy.state.state import State
from schema.budgets import decode_rule
from schema.entry import (
    Kind,
    RequestFields,
    decode_carry_over,
    decode_close,
    decode_epoch,
    decode_forget,
    decode_level,
    decode_node_due,
    decode_terms,
)
from schema.followed import decode_followed
from schema.zxids import next_epoch

_MOST_UNDONE = 16  # restores
_id_of = attrgetter("id")


def _open(state: State, request: RequestFields) -> Iterable[SessionChange]:
    """A client begins a session."""
    timeout_ms, password_hash = decode_terms(request.body)
    if request.session_id in state.sessions:
        raise Refusal(ErrorCode.SYSTEM_ERROR)  # two proxies drew the same id: the later client connects again
    tx = state.transaction
    session = Session(request.session_id, timeout_ms, password_hash, tx.sender.incarnation)
    tx.open_session(session)
    state.zxid += 1
    return [SessionChange(session.id, "", tx.sender.incarnation)]


def _attach(state: State, request: RequestFields) -> Iterable[SessionChange]:
    """A client continues a session at the sender. A wrong password is answered as by ZooKeeper."""
    timeout_ms, password_hash = decode_terms(request.body)
    session = state.sessions.get(request.session_id)
    if session is None or session.password_hash != password_hash:
        raise Refusal(ErrorCode.SESSION_EXPIRED)
    former = session.incarnation
    tx = state.transaction
    tx.attach_session(session, tx.sender.incarnation, timeout_ms)
    return [SessionChange(session.id, former, tx.sender.incarnation)]


def _close(state: State, request: RequestFields) -> Iterable[SessionChange]:
    """A session has timed out, or an administrator ends it."""
    session = state.sessions.get(request.session_id)
    if session is None:
        raise Refusal(ErrorCode.SESSION_EXPIRED)
    reason, holder = decode_close(request.body)
    if holder and session.incarnation != holder:
        raise Refusal(ErrorCode.SESSION_MOVED)
    state.transaction.close_session(session)
    state.zxid += 1
    return [SessionChange(session.id, session.incarnation, None, reason)]


def _carry_over(state: State, request: RequestFields) -> Iterable[CarriedOver]:
    """Sessions of another incarnation go to the sender: the same proxy anew, or the process after it."""
    old = decode_carry_over(request.body).old
    tx = state.transaction
    new = tx.sender.incarnation
    moved = [session for session in tx.pause.each(state.sessions.values()) if session.incarnation == old]
    tx.attach_sessions(moved, old, new)
    return [CarriedOver(old, new, [*map(_id_of, moved)])]


def _node_due(state: State, request: RequestFields) -> Iterable[SessionChange]:
    """A container or TTL node is due."""
    delete_due(state.transaction, decode_node_due(request.body))
    state.zxid += 1
    return ()


def _epoch(state: State, request: RequestFields) -> Iterable[SessionChange]:
    """The tree was restored from a backup: zxids continue above all that clients may have seen."""
    cluster_id, at_least = decode_epoch(request.body)
    if cluster_id != state.cluster_id or at_least > state.zxid:
        kept, state.zxid = state.zxid, next_epoch(max(state.zxid, at_least))
        state.undone = (*state.undone, range(kept + 1, state.zxid))[-_MOST_UNDONE:]
        state.cluster_id = cluster_id
    return ()


def _raise_level(state: State, request: RequestFields) -> Iterable[SessionChange]:
    """The tree gets a new level: from here on its rules apply."""
    wanted = decode_level(request.body).level
    if wanted > state.level:
        if wanted not in state.known_levels:
            raise UnknownLevel(wanted, state.known_levels)
        state.level = wanted
    return ()


def _forget(state: State, request: RequestFields) -> Iterable[SessionChange]:
    """An incarnation is over: no entry of it will follow."""
    incarnation = decode_forget(request.body).incarnation
    state.applied.pop(incarnation, None)
    state.budgets.forget(incarnation)
    return ()


def _budget(state: State, request: RequestFields) -> Iterable[SessionChange]:
    """An operator sets or removes a budget."""
    rule = decode_rule(request.body)
    sender = state.transaction.sender
    state.budgets.set(rule, sender.incarnation, sender.clock)
    return ()


def _followed(state: State, request: RequestFields) -> Iterable[SessionChange]:
    """The source that the tree follows has changed. Changes of any other state have no effect."""
    changes = decode_followed(request.body)
    if changes.after != state.zxid:
        raise Refusal(ErrorCode.BAD_VERSION)
    made = apply_followed(state.transaction, changes)
    state.zxid = changes.zxid
    return made


PROXY_REQUESTS: dict[int, Callable[[State, RequestFields], Iterable[SessionChange | CarriedOver]]] = {
    Kind.OPEN: _open,
    Kind.ATTACH: _attach,
    Kind.CLOSE: _close,
    Kind.CARRY_OVER: _carry_over,
    Kind.NODE_DUE: _node_due,
    Kind.EPOCH: _epoch,
    Kind.LEVEL: _raise_level,
    Kind.FORGET: _forget,
    Kind.FOLLOWED: _followed,
    Kind.BUDGET: _budget,
}
