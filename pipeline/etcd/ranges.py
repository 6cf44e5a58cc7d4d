"""How the znodes of a prefix are cut into pieces that can be read one by one, at one revision.

etcd walks over all keys of a range even where a limit cuts the answer (etcd #11057), so pieces are bounded by
keys. Two kinds: a span holds all that lies below neighbouring children of one node, a block some children
themselves. A span's znodes and its counters are one range each; schema/README.md says why.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pipeline.etcd.load import count, insist
from proxy.etcd.interface import Etcd
from proxy.etcd.model import Get
from schema.keys import Keyspace
from schema.paths import ROOT

_TIMEOUT = 60.0
_CHILDREN_AT_ONCE = 200_000  # keys of one reply; each costs some 100 bytes


class Piece(NamedTuple):
    """Key ranges without the prefix's node or counter space before them, so [start, end) fits both.

    For a block the range is of node keys only, `<parent>//<name>`, and `parent` is set.
    """

    start: bytes
    end: bytes
    parent: str | None  # of a block; None for a span
    size: int  # znodes


def group(pieces: Iterable[Piece], size: int) -> list[list[Piece]]:
    """Pieces in their order, as many together as make about `size` znodes."""
    groups: list[list[Piece]] = []
    filled = size
    for piece in pieces:
        if filled + piece.size > size:
            groups.append([])
            filled = 0
        groups[-1].append(piece)
        filled += piece.size
    return groups


async def plan(etcd: Etcd, keys: Keyspace, revision: int, size: int) -> list[Piece]:
    """Pieces of at most `size` znodes each that hold all znodes but the root. Raises EtcdError."""
    planner = _Planner(etcd, keys, revision, size)
    await planner.span(b"/", b"0", ROOT)
    return planner.pieces


class _Planner:
    def __init__(self, etcd: Etcd, keys: Keyspace, revision: int, size: int) -> None:
        self.pieces: list[Piece] = []
        self._etcd = etcd
        self._keys = keys
        self._revision = revision
        self._size = size

    async def span(self, start: bytes, end: bytes, only: str | None, children: Sequence[bytes] = ()) -> None:
        """Cut what lies in [start, end): below the node `only`, or below each of `children`."""
        size = await count(self._etcd, self._keys.nodes + start, self._keys.nodes + end, self._revision)
        if not size:
            return
        if size <= self._size:
            self.pieces.append(Piece(start, end, None, size))
        elif only is not None:
            await self._below(only)
        else:
            await self._spans(children, 2)

    async def _below(self, path: str) -> None:
        """Cut what lies below one node: its children as blocks, what is below them as spans."""
        parent = b"" if path == ROOT else path.encode()
        start = parent + b"//"
        names: list[bytes] = []
        more = True
        while more:
            get = Get(
                self._keys.nodes + start,
                self._keys.nodes + parent + b"/0",
                self._revision,
                keys_only=True,
                limit=_CHILDREN_AT_ONCE,
            )
            page = await insist(lambda get=get: self._etcd.range(get, _TIMEOUT))  # type: ignore[misc]
            more = page.more
            skip = len(self._keys.nodes) + len(parent) + 2
            names += [pair.key[skip:] for pair in page.kvs]
            if page.kvs:
                start = page.kvs[-1].key[len(self._keys.nodes) :] + b"\0"
        for first in range(0, len(names), self._size):
            part = names[first : first + self._size]
            self.pieces.append(
                Piece(parent + b"//" + part[0], parent + b"//" + part[-1] + b"\0", path, len(part))
            )
        # In the order of their subtrees' keys; the block of the children lies between those of "-" and "a".
        below = sorted(parent + b"/" + name + b"/" for name in names)
        block = parent + b"//"
        for side in ([key for key in below if key < block], [key for key in below if key > block]):
            if side:
                parts = max(1, -(-await self._size_of(side) // self._size))
                await self._spans(side, parts)

    async def _spans(self, children: Sequence[bytes], parts: int) -> None:
        """Cut what lies below neighbouring children into about `parts` spans, as many children in each."""
        step = max(1, -(-len(children) // parts))
        for first in range(0, len(children), step):
            some = children[first : first + step]
            only = some[0][:-1].decode() if len(some) == 1 else None
            await self.span(some[0], _end_of(some[-1]), only, some)

    async def _size_of(self, children: Sequence[bytes]) -> int:
        nodes = self._keys.nodes
        return await count(self._etcd, nodes + children[0], nodes + _end_of(children[-1]), self._revision)


def _end_of(subtree: bytes) -> bytes:
    return subtree[:-1] + b"0"  # '0' follows '/'
