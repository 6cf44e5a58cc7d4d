"""Applies changes of the source that the tree follows: the new states of its znodes and sessions."""

from itertools import chain

from proxy.state.outcome import SessionChange
from proxy.state.rights import rights_of
from proxy.state.sessions import Session
from proxy.state.transaction import Transaction
from schema.followed import Followed
from schema.pages import SessionValue
from schema.paths import parent_of
from schema.znode import Znode


def apply_followed(tx: Transaction, changes: Followed) -> list[SessionChange]:
    """Apply the changes; returns those of sessions. Raises KeyError if they do not fit the tree.

    First nodes are created and deleted, so that watches fire and quotas count. Then each changed node gets
    its Stat.
    """
    tx.zxid = changes.zxid
    nodes = tx.nodes
    for path in changes.deleted:
        above = parent_of(path)
        tx.delete(path, above, nodes[above], nodes[path])
    for path, value in changes.nodes:
        node = nodes.get(path)
        if node is None:
            above = parent_of(path)
            tx.create(path, above, nodes[above], value.data, rights_of(value.acl), value.owner)
        else:
            _set(tx, path, value, data=True, acl=True)
    for path, value in changes.data:
        _set(tx, path, value, data=True)
    for path, value in changes.acls:
        _set(tx, path, value, acl=True)
    for path, value in chain(*changes.changed):
        tx.assign(path, nodes[path], value)
    return _sessions(tx, changes)


def _set(tx: Transaction, path: str, value: Znode, *, data: bool = False, acl: bool = False) -> None:
    node = tx.nodes[path]
    # The ACL first: who may not read the new data must not see them pass.
    if acl and node.rights is not (rights := rights_of(value.acl)):
        node = tx.set_acl(path, node, rights)
    if data and node.data != value.data:
        tx.set_data(path, node, value.data)


def _sessions(tx: Transaction, changes: Followed) -> list[SessionChange]:
    ended = [tx.session_named(session_id) for session_id in changes.closed]
    for session in ended:
        tx.close_session(session)
    for value in changes.opened:
        tx.open_session(session_of_value(value))
    return [
        *(SessionChange(session.id, session.incarnation, None) for session in ended),
        *(SessionChange(value.session_id, "", value.incarnation) for value in changes.opened),
    ]


def session_of_value(value: SessionValue) -> Session:
    """The session that a page describes."""
    return Session(value.session_id, value.timeout_ms, value.password_hash, value.incarnation)
