"""What a znode takes in the state machine: bytes and objects, as Python's own allocator counts them."""

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from typing import NamedTuple

from bench.scenarios.memory import nodes
from proxy.state.capture import load, new_machine, pages
from proxy.state.machine import Machine
from schema.entry import Entry, Kind, Request, encode_terms

_PER_ENTRY = 512
_TIME_MS = 1_700_000_000_000
_INCARNATION = "bench"
_SESSION = 1


class Znode(NamedTuple):
    """What one takes on the average, its directory's share with it."""

    bytes: float
    """Without those of its path and data."""
    blocks: float
    """Of memory, small objects' and large ones'."""


def loaded(count: int) -> Znode:
    """What one takes that was loaded from a snapshot: `count` of 100 bytes, a thousand in a directory."""
    machine = _applied(count)
    captured = pages(machine)
    node_pages, session_pages = list(captured.node_pages), list(captured.session_pages)
    del machine
    return _weighed(lambda: load(node_pages, session_pages, captured.state), count)


def applied(count: int) -> Znode:
    """What one takes that a client has created."""
    return _weighed(lambda: _applied(count), count)


def _weighed(make: Callable[[], Machine], count: int) -> Znode:
    gc.collect()
    blocks = sys.getallocatedblocks()
    tracemalloc.start()
    try:
        machine = make()
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    gc.collect()
    blocks = sys.getallocatedblocks() - blocks
    own = sum(len(path) + len(node.data or b"") for path, node in machine.tree.nodes.items())
    return Znode((taken - own) / count, blocks / count)


def _applied(count: int) -> Machine:
    machine = new_machine(1)
    for number, requests in enumerate(_entries(count), 1):
        machine.apply(_INCARNATION, number, Entry(_TIME_MS + number, 0, 0, 0, requests))
    return machine


def _entries(count: int) -> Iterator[list[Request]]:
    requests = [Request(int(Kind.OPEN), _SESSION, 0, (), encode_terms(30_000, bytes(16)))]
    for opcode, body in nodes(count):
        requests.append(Request(int(Kind.CLIENT), _SESSION, opcode, (), body))
        if len(requests) >= _PER_ENTRY:
            yield requests
            requests = []
    yield requests
