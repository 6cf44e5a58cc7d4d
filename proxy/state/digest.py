"""A number that two servers compare: the sum of a hash of every node, of every session and of the budgets.

The nodes' part is ZooKeeper's own digest (DigestCalculator, version 2), so it can be compared with its
snapshots and its log. It is kept up to date lazily: when a node is touched for the first time since the last
`settle`, its hash is subtracted; `settle` adds the new hashes of the touched nodes. So a parent in which a
thousand nodes are created is hashed once.
"""

import zlib
from collections.abc import Mapping, Sequence
from io import BytesIO
from itertools import repeat, starmap
from operator import attrgetter
from struct import Struct

from codec.longs import unsigned
from proxy.state.budgets import Budgets
from proxy.state.node import FullNode, Node, PackedNode, digested_parts
from proxy.state.pause import BYTES_PER_STEP, NO_PAUSE, Pause
from proxy.state.sessions import Session
from schema.pages import NodePage
from schema.paths import ROOT, ZOOKEEPER

_DIGESTED = ("czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "created", "aversion", "owner")
_stat_of = attrgetter(*_DIGESTED)
_pack_stat = Struct(">qqqqqiiiq").pack
_DIGESTED_BYTES = 60
_LARGE = BYTES_PER_STEP
_pack_session = Struct(">qi").pack
_session_head = attrgetter("id", "timeout_ms")
_password_hash_of = attrgetter("password_hash")
_crc32 = zlib.crc32
# The nodes below belong to the server itself, and do not count.
_UNCOUNTED = ZOOKEEPER + "/"


def node_hash(path: str, node: Node) -> int:
    """The hash of one node (DigestCalculator.calculateDigest)."""
    if path.startswith(_UNCOUNTED):
        return 0
    raw = path.encode() if path != ROOT else b""
    return _crc32(raw + node.digested())


def page_hash(page: NodePage) -> int:
    """The sum of the hashes of a page's nodes: much faster than `node_hash` of each."""
    paths = page.raw_paths
    if paths[0] == b"/":
        paths = [b"", *paths[1:]]
    stats = map(BytesIO(page.rows(*_DIGESTED)).read, repeat(_DIGESTED_BYTES, page.count))
    hashes = map(_crc32, map(b"".join, zip(page.data, stats, strict=True)), map(_crc32, paths))
    first, last = page.paths[0], page.paths[-1]
    if first.startswith(_UNCOUNTED) or last.startswith(_UNCOUNTED) or first < _UNCOUNTED < last:
        return sum(
            value for path, value in zip(page.paths, hashes, strict=True) if not path.startswith(_UNCOUNTED)
        )
    return sum(hashes)


def session_hash(session: Session) -> int:
    """The hash of one session. ZooKeeper's digest has no sessions."""
    head = _pack_session(session.id, session.timeout_ms)
    return _crc32(session.incarnation.encode(), _crc32(session.password_hash, _crc32(head)))


def _hash_by_incarnation(sessions: Sequence[Session], *incarnations: str) -> list[int]:
    """The sum of the sessions' hashes with each of these incarnations: much faster than `session_hash`."""
    heads = map(_crc32, starmap(_pack_session, map(_session_head, sessions)))
    crcs = list(map(_crc32, map(_password_hash_of, sessions), heads))
    return [sum(map(_crc32, repeat(incarnation.encode()), crcs)) for incarnation in incarnations]


class Digest:
    """The sum of all hashes except those of the budgets, and of the nodes in `touched`."""

    __slots__ = ("_budgets", "_large", "_total", "all_touched", "touched")

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets
        self._total = 0
        # Of nodes with much data that were touched: what has the data, and the hash of path and data. A few
        # bytes set an ACL, create a child, or set other data and fail, of very many of them, again and again.
        self._large: dict[str, tuple[object, int]] = {}
        self.touched: set[str] = set()
        #: Gets what was touched each time the digest is settled: for who wants to know all that has changed.
        self.all_touched: set[str] | None = None

    def reset(self, total: int) -> None:
        """Set the digest to one that was computed from scratch, without budgets."""
        self._total = total
        self.touched.clear()

    def touch(self, path: str, node: Node, pause: Pause = NO_PAUSE) -> None:
        """An existing node is about to change or to be deleted. A new node is only added to `touched`."""
        if path not in self.touched:
            self.touched.add(path)
            is_large = node.size > _LARGE
            self._total -= self._large_hash(path, node, pause) if is_large else node_hash(path, node)

    def take_siblings(self, paths: Sequence[str], nodes: Sequence[Node], pause: Pause = NO_PAUSE) -> None:
        """Existing nodes below one parent are about to be deleted. An undone deletion has to touch them."""
        if (
            FullNode in map(type, nodes)
            or max(map(len, nodes)) > _LARGE  # type: ignore[arg-type]
            or paths[0].startswith(_UNCOUNTED)
            or not self.touched.isdisjoint(paths)
        ):
            for path, node in zip(paths, nodes, strict=True):
                self.touch(path, node, pause)
            return
        if self.all_touched is not None:
            self.all_touched.update(paths)
        digested = map(b"".join, map(digested_parts, nodes))
        self._total -= sum(map(_crc32, digested, map(_crc32, map(str.encode, paths))))

    def add_session(self, session: Session) -> None:
        """A session was added, or has changed."""
        self._total += session_hash(session)

    def take_session(self, session: Session) -> None:
        """A session is about to change, or to be removed."""
        self._total -= session_hash(session)

    def attach_sessions(self, sessions: Sequence[Session], former: str, incarnation: str) -> int:
        """Sessions of one incarnation go to another; returns by how much the digest has grown."""
        before, after = _hash_by_incarnation(sessions, former, incarnation)
        self._total += after - before
        return after - before

    def settle(self, nodes: Mapping[str, Node], pause: Pause = NO_PAUSE) -> int:
        """The digest as of now; nothing may change meanwhile."""
        return unsigned(self.without_budgets(nodes, pause) + self._budgets.hash())

    def without_budgets(self, nodes: Mapping[str, Node], pause: Pause = NO_PAUSE) -> int:
        """That of znodes and sessions."""
        total = self._total
        for path in pause.each(self.touched):
            node = nodes.get(path)
            if node is not None and node.size > _LARGE:
                total += self._large_hash(path, node, pause)
                continue
            if self._large:
                self._large.pop(path, None)
            if node is not None:
                total += node_hash(path, node)
        if self.all_touched is not None:
            self.all_touched |= self.touched
        self.touched.clear()
        self._total = unsigned(total)
        return self._total

    def _large_hash(self, path: str, node: Node, pause: Pause) -> int:
        """`node_hash`, for which the data is hashed once."""
        if path.startswith(_UNCOUNTED):
            return 0
        holder = node if isinstance(node, PackedNode) else node.data
        known, value = self._large.get(path, (None, 0))
        if known is not holder:
            pause.spend(node.size // BYTES_PER_STEP)
            value = _crc32(node.data or b"", _crc32(path.encode() if path != ROOT else b""))
            self._large[path] = holder, value
        return _crc32(_pack_stat(*_stat_of(node)), value)


def whole(nodes: Mapping[str, Node], sessions: Mapping[int, Session]) -> int:
    """The digest from scratch, without budgets."""
    total = sum(node_hash(path, node) for path, node in nodes.items())
    return unsigned(total + sum(map(session_hash, sessions.values())))
