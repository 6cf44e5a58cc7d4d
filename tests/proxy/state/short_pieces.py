"""Everything that can be done in pieces is done in pieces, as short as can be."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from proof.simulation.seams import LENGTHS
from proxy.state.machine import Machine
from proxy.state.outcome import DONE, Outcome
from proxy.state.pieces import Unfinished
from schema.entry import Request


@contextmanager
def short_pieces() -> Iterator[None]:
    """While this lasts."""
    patches = [mock.patch.object(importlib.import_module(name), length, 1) for name, length in LENGTHS]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


def executed(machine: Machine, request: Request, own: bool = True) -> tuple[Outcome, int]:
    """The outcome, and in how many pieces; meanwhile nothing may be seen that is not said to change."""
    machine.in_pieces = True
    zxid = machine.zxid
    before = _shown(machine)
    try:
        return machine.execute(request, own=own), 0
    except Unfinished as long:
        work = long.work
    pieces = 0
    outcome = DONE
    while True:
        try:
            next(work)
        except StopIteration as end:
            outcome = end.value
            break
        pieces += 1
        assert machine.zxid == zxid
        assert machine.changing is not None
        now = _shown(machine)
        changed = {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}
        assert {path for path in changed if not path.startswith("/zookeeper")} <= set(machine.changing)
    machine.begin_events()
    assert machine.changing is None
    machine.publish_zxid()
    return outcome, pieces


def _shown(machine: Machine) -> dict[str, tuple[bytes | None, bytes, object]]:
    """What reads show of each node."""
    nodes = machine.tree.nodes
    return {path: (node.data, node.stat(), frozenset(node.children or ())) for path, node in nodes.items()}
