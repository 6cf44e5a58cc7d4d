"""The whole state as pages of a snapshot, and back."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from proxy.state.digest import page_hash
from proxy.state.level import KNOWN, OF_NEW_TREES, UnknownLevel
from proxy.state.machine import Machine
from proxy.state.node import make_node, nodes_of
from proxy.state.pause import NO_PAUSE, Pause
from proxy.state.sessions import Session
from schema.errors import BadValue
from schema.fixed import fixed_nodes
from schema.pages import (
    NodePage,
    SessionValue,
    StateValue,
    decode_sessions,
    decode_state,
    encode_state,
    split_nodes,
    split_sessions,
)
from schema.pieces import cut, join


class Captured(NamedTuple):
    """The content of a snapshot. The pages are made one by one; the machine must not change meanwhile."""

    node_pages: Iterator[bytes]  # as values for etcd
    session_pages: Iterator[bytes]
    state: bytes
    digest: int


def new_machine(cluster_id: int, at_level: int = OF_NEW_TREES) -> Machine:
    """The state of a new tree: the nodes that every ZooKeeper has from the start."""
    machine = Machine(cluster_id, at_level=at_level)
    for path, node in fixed_nodes().items():
        machine.tree.attach(path, make_node(*node.fields()))
    machine.reset_digest()
    return machine


def pages(machine: Machine, pause: Pause = NO_PAUSE) -> Captured:
    """The whole state. Equal states give equal pages, whatever their history."""
    nodes = machine.tree.nodes
    paths = pause.sorted(nodes, str)
    sessions = sorted(machine.sessions.values(), key=lambda session: session.id)
    state = StateValue(
        machine.zxid,
        machine.entries,
        machine.level,
        machine.cluster_id,
        dict(machine.applied),
        tuple(machine.checkpoints),
        machine.budgets.value,
        machine.undone,
        paid_at if (paid_at := machine.transaction.paid_at) > machine.zxid else 0,
    )
    return Captured(
        cut(split_nodes((path, nodes[path]) for path in paths)),
        split_sessions(
            SessionValue(session.id, session.timeout_ms, session.password_hash, session.incarnation)
            for session in sessions
        ),
        encode_state(state),
        machine.digest.settle(nodes, pause),
    )


def load(
    node_pages: Iterable[bytes],
    session_pages: Iterable[bytes],
    state: bytes,
    digest: int | None = None,
    known_levels: Iterable[int] = KNOWN,
) -> Machine:
    """The machine of these pages, in any order, but pieces of one page in theirs.

    Raises BadValue for pages that are damaged, are not one whole tree, or have another digest; UnknownLevel.
    """
    value = decode_state(state)
    known = frozenset(known_levels)
    if value.level not in known:
        raise UnknownLevel(value.level, known)
    machine = Machine(value.cluster_id, at_level=value.level, known_levels=known)
    machine.zxid = value.zxid
    machine.entries = value.entries
    machine.applied.update(value.applied)
    machine.checkpoints.extend(value.checkpoints)
    machine.budgets.load(value.budgets)
    machine.undone = value.undone
    machine.transaction.paid_at = value.paid_at
    total = 0
    for page in join(node_pages):
        columns = NodePage(page)
        total += page_hash(columns)
        owners = columns.numbers("owner") if columns.has("owner") else ()
        machine.tree.enter_all(columns.paths, nodes_of(columns), owners, columns.data_bytes)
        machine.tree.acl_size += columns.acl_bytes()
    machine.tree.link_all()
    for page in session_pages:
        for session_id, timeout_ms, password_hash, incarnation in decode_sessions(page):
            machine.sessions[session_id] = Session(session_id, timeout_ms, password_hash, incarnation)
    found = machine.reset_digest(total)
    if digest is not None and found != digest:
        raise BadValue(f"the pages have the digest {found:016x} instead of {digest:016x}")
    return machine
