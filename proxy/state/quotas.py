"""Quotas: how many nodes and bytes are below a path that has a quota, and its limits.

As in ZooKeeper, a quota of /a consists of two nodes: /zookeeper/quota/a/zookeeper_limits, which a client
writes, and /zookeeper/quota/a/zookeeper_stats, whose data each server updates in memory, without any change
in the log. Without any quota, a request only costs the lookup in an empty dict.
"""

import re
from itertools import islice, zip_longest
from typing import NamedTuple

from codec.constants import ErrorCode
from proxy.state.by_path import ByPath
from proxy.state.java_numbers import read_long
from proxy.state.node import Node, full_node
from proxy.state.outcome import QuotaExceeded, Refusal, Warned
from proxy.state.pause import NO_PAUSE, Pause
from proxy.state.subtree import WALK_COSTS, WALKED_PER_STEP, below, scan
from schema.paths import ZOOKEEPER, parent_of

QUOTA_PATHS = "/zookeeper/quota/"
_LIMITS = "zookeeper_limits"
_STATS = "zookeeper_stats"
# The numbers of quotas that are gone are kept for so many characters of their paths; a short one counts as
# 1,024.
_KEPT = 1 << 20
_SHORT = 1 << 10
# So many nodes are counted in turn: below a quota, and below the next one above it but not below it.
_IN_TURN = 64


class QuotaLimits(NamedTuple):
    """The limits of a quota; -1 is no limit. A hard limit replaces the soft one."""

    soft_count: int = -1
    soft_bytes: int = -1
    hard_count: int = -1
    hard_bytes: int = -1


class Quota:
    """The numbers of one path, which include its own node, and its limits."""

    __slots__ = ("bytes", "count", "counted", "has_limits", "limits", "stats")

    def __init__(self) -> None:
        self.count = self.bytes = 0
        self.counted = False  # False: the numbers have to be counted first
        self.stats: str | None = None  # the path of the stats node, if it exists
        self.has_limits = False  # whether the other node exists
        self.limits: QuotaLimits | None = None  # None: malformed, or missing

    def add(self, count: int, size: int) -> None:
        """So many nodes and bytes are new."""
        self.count += count
        self.bytes += size


class Quotas(ByPath[Quota]):
    """All quotas, by path, and some that are gone: a client may set one again and again.

    Each ancestor of a deep path may have a quota. So changes are added up by parent, and those by the nearest
    quota above; the sum of each quota goes to the next one above it, once a request.
    """

    __slots__ = ("_added", "_gone", "_gone_size", "_nodes", "_stale")

    def __init__(self, nodes: dict[str, Node]) -> None:
        super().__init__()
        self._nodes = nodes
        self._added: dict[str, tuple[int, int]] = {}  # nodes and bytes, by path, since the last `settle`
        # Paths of quotas to be counted, or whose stats node is to be updated.
        self._stale: dict[str, None] = {}
        self._gone: dict[str, int] = {}  # what each counts of `_KEPT`, the oldest first
        self._gone_size = 0  # their sum

    def node_added(self, pause: Pause, path: str, data: bytes | None) -> None:
        """A node was added."""
        self._add(path, 1, _size(path, data))
        self.note(pause, path, data, present=True)

    def node_removed(self, pause: Pause, path: str, data: bytes | None) -> None:
        """A node was removed."""
        self._add(path, -1, -_size(path, data))
        self.note(pause, path, None, present=False)

    def changed(self, pause: Pause, path: str, before: bytes | None, after: bytes | None) -> None:
        """A node gets other data."""
        self._add(path, 0, _size(path, after) - _size(path, before))
        self.note(pause, path, after, present=True)

    def note(self, pause: Pause, path: str, data: bytes | None, *, present: bool) -> None:
        """If the node is one of a quota's two nodes, record its content."""
        if not path.startswith(QUOTA_PATHS):
            return
        of, _, name = path[len(QUOTA_PATHS) - 1 :].rpartition("/")
        if not of or name not in (_LIMITS, _STATS):
            return  # ZooKeeper has no quota on its root
        quota = self.get(of)
        if quota is None:
            quota = self[of] = Quota()
        self._gone_size -= self._gone.pop(of, 0)
        if name == _LIMITS:
            quota.has_limits = present
            quota.limits = read_limits(data, pause) if present else None
        else:
            quota.stats = path if present else None
        if quota.has_limits or quota.stats:
            self._stale[of] = None
        elif quota.counted:
            self._keep(of)
        else:
            del self[of]

    def _keep(self, path: str) -> None:
        """Go on counting a quota that is gone, instead of the oldest ones."""
        self._gone[path] = size = max(len(path), _SHORT)
        self._gone_size += size
        while self._gone_size > _KEPT:
            oldest = next(iter(self._gone))
            self._gone_size -= self._gone.pop(oldest)
            del self[oldest]

    def settle(self, pause: Pause = NO_PAUSE) -> int:
        """Count what was added, and new quotas, and update the stats nodes; by how many bytes these grew."""
        self._spread(pause)
        growth = 0
        for path in pause.each(pause.sorted(self._stale, len)[::-1]):  # what is counted ends the next walk
            quota = self.get(path)
            if quota is None:
                continue
            if not quota.counted:
                self._count(path, quota, pause)
            if quota.stats:
                node = full_node(self._nodes, quota.stats)
                data = b"count=%d,bytes=%d" % (quota.count, quota.bytes)
                growth += len(data) - node.size
                node.data = data
                node.changed()
        self._stale.clear()
        return growth

    def limited(self, path: str, pause: Pause = NO_PAUSE) -> str | None:
        """The path itself or its nearest ancestor with limits (DataTree.getMaxPrefixWithQuota)."""
        found = pause.each(self.upwards(path, pause))
        return next((above for above in found if self[above].has_limits), None)

    def _add(self, path: str, count: int, size: int) -> None:
        if count or size:
            _add(self._added, path, count, size)

    def _spread(self, pause: Pause) -> None:
        """Add what was added to all counted quotas above it."""
        if not self:
            self._added.clear()
            return
        by_parent: dict[str, tuple[int, int]] = {}
        for path, (count, size) in pause.each(self._added.items()):
            if path in self:
                self._add_to(path, count, size)
            _add(by_parent, parent_of(path), count, size)
        self._added.clear()
        # The sum of each quota, which goes on to the next one above it: a path may have thousands.
        sums: dict[str, tuple[int, int]] = {}
        above: dict[str, str | None] = {}
        for parent in pause.each(pause.sorted_texts(by_parent)):  # neighbours are found faster
            found = self.from_parent(parent, pause)
            if not found:
                continue
            _add(sums, found[0], *by_parent[parent])
            for quota, following in zip_longest(found, islice(found, 1, None)):
                if quota in above:
                    break
                above[quota] = following
                pause.spend(1)
        for quota in pause.each(pause.sorted(above, len)[::-1]):
            count, size = sums[quota]
            self._add_to(quota, count, size)
            following = above[quota]
            if following is not None:
                _add(sums, following, count, size)

    def _add_to(self, path: str, count: int, size: int) -> None:
        quota = self[path]
        if quota.counted:
            quota.add(count, size)
            self._stale[path] = None

    def _count(self, path: str, quota: Quota, pause: Pause) -> None:
        """Count a quota: what is below it, or all else below the nearest counted one, which ends first."""
        nodes = self._nodes
        quota.count = quota.bytes = 0
        if path in nodes:
            around = pause.each(self.from_parent(parent_of(path), pause))
            above = next(filter(self._is_counted, around), None)
            found = self._walk(path, above, pause)
            if found is None:
                is_own = path.startswith(ZOOKEEPER)
                for some in scan(nodes, path, pause):
                    sizes = [_size_of(each, node) if is_own else node.size for each, node in some]
                    quota.add(len(some), sum(sizes))
            else:
                quota.add(*found)
        quota.counted = True

    def _walk(self, path: str, above: str | None, pause: Pause) -> tuple[int, int] | None:
        """The numbers of a path. None if it takes as long as to scan the tree."""
        nodes, ends = self._nodes, self._is_counted
        inside, outside = Quota(), Quota()
        inside.add(1, _size_of(path, nodes[path]))
        walks = [(inside, below(nodes, path, ends))]
        if above is not None:
            outside.add(1, _size_of(above, nodes[above]))
            walks.append((outside, below(nodes, above, ends, {path})))
        for _ in range(len(nodes) // WALK_COSTS // _IN_TURN + 1):
            for sums, paths in walks:
                some = list(islice(paths, _IN_TURN))
                for each in some:
                    known = self.get(each)
                    if known is not None and known.counted:
                        sums.add(known.count, known.bytes)
                    else:
                        sums.add(1, _size_of(each, nodes[each]))
                pause.spend(_IN_TURN // WALKED_PER_STEP)
                if len(some) < _IN_TURN:
                    if sums is inside or above is None:
                        return inside.count, inside.bytes
                    whole = self[above]
                    return whole.count - outside.count, whole.bytes - outside.bytes
        return None

    def _is_counted(self, path: str) -> bool:
        quota = self.get(path)
        return quota is not None and quota.counted


def _add(sums: dict[str, tuple[int, int]], path: str, count: int, size: int) -> None:
    more, larger = sums.get(path, (0, 0))
    sums[path] = more + count, larger + size


def _size(path: str, data: bytes | None) -> int:
    """The bytes that a node counts: 0 for a stats node, which each count of a quota above it changes."""
    return 0 if _is_stats(path) else len(data or b"")


def _size_of(path: str, node: Node) -> int:
    return 0 if _is_stats(path) else node.size


def _is_stats(path: str) -> bool:
    return path.startswith(QUOTA_PATHS) and path.endswith("/" + _STATS)


def check(
    quotas: Quotas,
    path: str,
    count: int,
    size: int,
    warnings: list[Warned],
    *,
    enforce: bool,
    pause: Pause = NO_PAUSE,
) -> None:
    """Warn of a quota that `count` nodes and `size` bytes more would exceed (ZooKeeperServer.checkQuota).

    Raises QUOTAEXCEEDED for a hard limit if hard limits are enforced. As in ZooKeeper, the numbers are those
    before the request, also for all parts of a multi.
    """
    limited = quotas.limited(path, pause)
    if limited is None:
        return
    quota = quotas[limited]
    limits = quota.limits
    if limits is None:
        if enforce:
            raise Refusal(ErrorCode.MARSHALLING_ERROR)  # ZooKeeper fails with an exception here
        return
    if not quota.stats:
        return
    for what, more, now, soft, hard in (
        ("count", count, quota.count, limits.soft_count, limits.hard_count),
        ("bytes", size, quota.bytes, limits.soft_bytes, limits.hard_bytes),
    ):
        limit = hard if hard > -1 else soft
        if more and limit > -1 and now + more > limit:
            kind = "hard" if hard > -1 else "soft"
            warnings.append(QuotaExceeded(limited, f"{what} would be {now + more}, {kind} limit {limit}"))
            if hard > -1 and enforce:
                raise Refusal(ErrorCode.QUOTA_EXCEEDED)


_PAIR = re.compile("[^,;]+")


def read_limits(data: bytes | None, pause: Pause = NO_PAUSE) -> QuotaLimits | None:
    """The limits of a node's data as StatsTrack reads them; None if it fails on the data."""
    if data is None:
        return None
    found: dict[str, int] = {}
    # Java's split drops empty strings at the end: "bytes=5=" has two parts, "count=" one
    text = data.decode("utf-8", "replace").rstrip(",;")
    if text[:1] in (",", ";"):  # before it is an empty pair
        return None
    for some in pause.batches(_PAIR.finditer(text)):
        for pair in some:
            parts = pair[0].rstrip("=").split("=", 2)
            if len(parts) < 2:
                return None
            number = read_long(parts[1] or "-1")
            if number is None or not -(1 << 63) <= number < 1 << 63:
                return None
            found[parts[0]] = number
    return QuotaLimits(
        found.get("count", -1),
        found.get("bytes", -1),
        found.get("countHardLimit", -1),
        found.get("byteHardLimit", -1),
    )
