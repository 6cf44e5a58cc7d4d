"""What a znode takes in the mirror: bytes and objects, as Python's own allocator counts them."""

import gc
import sys
import tracemalloc
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.workloads import DATA
from proxy.draft import SessionRecord
from proxy.etcd.model import KeyValue
from proxy.mirror import Mirror
from proxy.watches import WatchTable
from schema.keys import Keyspace
from schema.values import OPEN_ACL, TreeRecord, encode_counter, encode_node, encode_tree

_KEYS = Keyspace("/zketcd")
_PER_DIRECTORY = 1000
_TIME_MS = 1_700_000_000_000


class Znode(NamedTuple):
    """What one takes on the average, its directory's share with it."""

    bytes: float
    """Without those of its path and data."""
    blocks: float
    """Of memory, small objects' and large ones'."""


def of_a_znode(count: int) -> Znode:
    """Load a tree of `count` znodes of 100 bytes, a thousand in a directory."""
    mirror = Mirror(_KEYS, WatchTable(), _Nobody())
    mirror.load([KeyValue(_KEYS.tree, encode_tree(TreeRecord(True, ((0, 0),), 1)), 1, 1, 1, 0)])
    gc.collect()
    blocks = sys.getallocatedblocks()
    tracemalloc.start()
    try:
        mirror.load(_pairs(count))
        mirror.loaded(count)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    gc.collect()
    blocks = sys.getallocatedblocks() - blocks
    own = sum(len(path) + len(node.data or b"") for path, node in mirror.tree.nodes.items())
    return Znode((taken - own) / count, blocks / count)


def _pairs(count: int) -> Iterator[KeyValue]:
    for number in range(count):
        directory, index = divmod(number, _PER_DIRECTORY)
        path = f"/d{directory:06}"
        if index:
            path += f"/n{index:06}"
        else:
            yield KeyValue(_KEYS.counter(path), encode_counter(_PER_DIRECTORY - 1), number, number, 1, 0)
        value = encode_node(DATA, OPEN_ACL, 0, _TIME_MS + number, _TIME_MS + number, 0, 0)
        yield KeyValue(_KEYS.node(path), value, number + 2, number + 2, 1, 0)


class _Nobody:
    """Listens to the mirror, and has nothing to do with what it hears."""

    def session_changed(self, session_id: int, record: SessionRecord | None) -> None: ...

    def marked(self, marker: bytes, value: bytes) -> None: ...

    def lost(self, number: str, incarnation: str, paths: Sequence[str]) -> None: ...

    def applied(self, revision: int) -> None: ...
