"""The watches of all connections, and which connections a change notifies.

Watches by path, of the kinds and modes of ZooKeeper's DataTree: one-shot data watches (getData and
exists) and child watches (getChildren); persistent ones, which are both and stay; recursive ones, which are
data watches of a whole subtree and stay. A watcher is a connection. To fire a watch calls the watcher, which
sends the event.

ZooKeeper has two WatchManagers, for data and children, each with all modes. Here every mode has a table of
its own, so that the common case stays simple: in ZooKeeper, a persistent watch is always in both managers, a
recursive one only in that of data.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, TypeVar

from codec.constants import EventType, WatcherType
from proxy.state.by_path import ByPath
from proxy.state.notifications import Sending, Watcher
from proxy.state.pause import BYTES_PER_STEP, NO_PAUSE, Pause
from proxy.state.rights import Rights
from proxy.state.sparse import LOOK, is_sparse
from schema.paths import ROOT, parent_of

_ALL = 1 << 62  # more watches than there can be
_MERGED_PER_STEP = 16  # watchers
# So many watchers are remembered at most, each with each of its paths; but always those of a few paths.
_MERGED = 1 << 14
_LEAST_MERGED = 4
#: So many watches, of the smaller tables, are compared to count them: that takes about a millisecond.
COMPARED = 4_000
# The key of a null path, which ZooKeeper's tables hold like any other; no node has it, so it never fires.
_NULL = "null"


_Key = TypeVar("_Key")
_Watchers: TypeAlias = Mapping[Watcher, None]
_NOBODY: _Watchers = MappingProxyType({})
#: Of one connection's watches: of data, of children, persistent, recursive.
Paths: TypeAlias = Sequence[Collection[str]]


class TreeEvent(NamedTuple):
    """A change that watches fire for. Only clients that `rights` let READ are notified."""

    kind: int  # an EventType
    path: str
    rights: Rights  # the node's at that moment
    parent_rights: Rights


class _Table:
    """Watches of one kind and mode, found by path and by watcher."""

    __slots__ = ("by_path", "by_watcher", "changed")

    def __init__(self) -> None:
        self.by_path: dict[str, dict[Watcher, None]] = {}  # a dict keeps the order in which they were set
        self.by_watcher: dict[Watcher, set[str]] = {}
        #: The paths whose watches were set or removed, of the connections whose changes are noted.
        self.changed: dict[Watcher, set[str]] = {}

    def add(self, path: str, watcher: Watcher) -> None:
        watchers = self.by_path.get(path)
        if watchers is None:
            watchers = self.by_path[path] = {}
        watchers[watcher] = None
        paths = self.by_watcher.setdefault(watcher, set())
        if watcher in self.changed and path not in paths:
            self.changed[watcher].add(path)
        paths.add(path)

    def take(self, path: str, pause: Pause) -> Collection[Watcher]:
        """Remove the watches of a path and return their watchers. Some may be dropped meanwhile."""
        watchers = self.by_path.pop(path, None)
        if watchers is None:
            return ()
        for watcher in pause.each(watchers):
            paths = self.by_watcher.get(watcher)
            if paths is not None:
                self._discard(path, watcher, paths)
        return watchers

    def remove(self, path: str, watcher: Watcher) -> bool:
        """Remove one watch; returns whether it existed."""
        watchers = self.by_path.get(path)
        if watchers is None or watcher not in watchers:
            return False
        del watchers[watcher]
        if not watchers:
            del self.by_path[path]
        self._discard(path, watcher, self.by_watcher[watcher])
        return True

    def _discard(self, path: str, watcher: Watcher, paths: set[str]) -> None:
        if watcher in self.changed:
            self.changed[watcher].add(path)
        paths.discard(path)
        if not paths:
            del self.by_watcher[watcher]
        elif not len(paths) % LOOK and is_sparse(paths):
            self.by_watcher[watcher] = set(paths)

    def drop(self, watcher: Watcher, most: int) -> int:
        """Remove at most so many watches of a connection; returns how many of `most` were not used."""
        paths = self.by_watcher.get(watcher)
        if paths is None:
            return most
        while paths and most:
            path = paths.pop()
            watchers = self.by_path.get(path)
            if watchers is not None:  # None: they are being removed
                del watchers[watcher]
                if not watchers:
                    del self.by_path[path]
            most -= 1
        if not paths:
            del self.by_watcher[watcher]
        return most


class _RecursiveTable(_Table):
    __slots__ = ()

    by_path: ByPath[dict[Watcher, None]]

    def __init__(self) -> None:
        super().__init__()
        self.by_path = ByPath()


class _Merged:
    """The recursive watchers of paths and their ancestors, for the events of one request.

    A session may end with 50,000 nodes below the same hundred watched ancestors, each with the same watchers.
    The same watchers are the same object, as far as possible.
    """

    def __init__(
        self, by_path: ByPath[dict[Watcher, None]], events: Collection[TreeEvent], pause: Pause
    ) -> None:
        self._by_path = by_path
        # Of paths that are watched, the last used at the end: the deepest common ancestor is always there.
        self._merged: OrderedDict[str, dict[Watcher, None]] = OrderedDict()
        self._uses: dict[int, int] = {}  # how many of them have an object, by its id
        self._size = 0  # paths, and watchers in all these objects
        # The nearest watched path of each parent, or "": found in the order of the paths, since events may
        # alternate between deep branches, as those of a subtree that is deleted level by level.
        self._nearest: dict[str, str] = {}
        parents = {parent_of(event.path) for event in pause.each(events) if event.path != ROOT}
        for parent in pause.each(pause.sorted_texts(parents)):
            steps = self._by_path.from_parent(parent, pause)
            self._nearest[parent] = steps[0] if steps else ""

    def of(self, path: str, pause: Pause) -> _Watchers:
        """Not to be changed. Some may be dropped meanwhile."""
        if path != ROOT:
            nearest = path if path in self._by_path else self._nearest[parent_of(path)]
            if not nearest:
                return _NOBODY
            if nearest in self._merged:
                self._merged.move_to_end(nearest)
                return self._merged[nearest]
        steps = self._by_path.upwards(path, pause)
        if not steps:
            return _NOBODY
        unknown = next((place for place, step in enumerate(steps) if step in self._merged), len(steps))
        found: dict[Watcher, None] = {}
        is_kept = unknown < len(steps)
        if is_kept:
            self._merged.move_to_end(steps[unknown])
            found = self._merged[steps[unknown]]
        merged = copied = 0
        for step in pause.each(steps[:unknown][::-1]):
            some = self._by_path.get(step, {})  # none: they were dropped meanwhile
            merged += len(some)
            pause.spend(len(some) // _MERGED_PER_STEP)
            if not some.keys() <= found.keys():
                if is_kept:
                    found = found.copy()
                    copied += len(found)
                    pause.spend(len(found) // _MERGED_PER_STEP)
                    is_kept = False
                found.update(some)
            if step is steps[0] or is_kept or copied + len(found) <= merged:
                self._keep(step, found)
                is_kept = True
        return found

    def _keep(self, step: str, found: dict[Watcher, None]) -> None:
        self._merged[step] = found
        uses = self._uses.get(id(found), 0)
        self._uses[id(found)] = uses + 1
        self._size += 1 if uses else 1 + len(found)
        while self._size > _MERGED and len(self._merged) > _LEAST_MERGED:
            oldest = self._merged.popitem(last=False)[1]
            self._uses[id(oldest)] -= 1
            self._size -= 1
            if not self._uses[id(oldest)]:
                del self._uses[id(oldest)]
                self._size -= len(oldest)


class _Lasting:
    """The persistent and recursive watchers of nodes, for the events of one request.

    The same watchers are the same object, as far as possible: then who may not READ the nodes costs nothing.
    """

    def __init__(self, table: "WatchTable", events: Collection[TreeEvent], pause: Pause) -> None:
        self._persistent = table.persistent.by_path
        self._recursive = table.recursive.by_path
        self._pause = pause
        # Most requests have one event.
        self._merged = (
            _Merged(self._recursive, events, pause) if self._recursive and len(events) > 1 else None
        )
        # By path, and id of the watchers that are left out, which the value keeps.
        self._copies: dict[tuple[str, int], tuple[_Watchers, Collection[Watcher]]] = {}
        self._size = 0

    def recursive(self, path: str) -> _Watchers:
        """The recursive watchers of a path and its ancestors."""
        if not self._recursive:
            return _NOBODY
        if self._merged is not None:
            return self._merged.of(path, self._pause)
        found: dict[Watcher, None] = {}
        for step in self._pause.each(self._recursive.upwards(path, self._pause)[::-1]):
            some = self._recursive.get(step, {})  # none: they were dropped meanwhile
            self._pause.spend(len(some) // _MERGED_PER_STEP)
            found.update(some)
        return found

    def persistent(self, path: str, others: _Watchers = _NOBODY) -> Collection[Watcher]:
        """The persistent watchers of a path that are not among others. Some may be dropped meanwhile."""
        watchers = self._persistent.get(path)
        if not watchers:
            return _NOBODY
        key = path, id(others)
        known = self._copies.get(key)
        if known is None:
            if self._size > _MERGED:
                self._copies.clear()
                self._size = 0
            self._size += len(watchers)
            self._pause.spend(len(watchers) // _MERGED_PER_STEP)
            copy = watchers.copy()
            known = self._copies[key] = others, _without(copy, others, self._pause) if others else copy
        return known[1]


def _without(watchers: Collection[Watcher], others: Collection[Watcher], pause: Pause) -> Collection[Watcher]:
    return {each: None for each in pause.each(watchers) if each not in others}


def _together(
    taken: Collection[Watcher], lasting: Sequence[Collection[Watcher]], pause: Pause
) -> list[Collection[Watcher]]:
    """Those that were taken and are not among the lasting ones, and these."""
    for some in lasting:
        if taken and some:
            taken = _without(taken, some, pause)
    return [taken, *lasting] if taken else [some for some in lasting if some]


class WatchTable:
    """All watches of one proxy."""

    __slots__ = ("_all", "_by_type", "children", "data", "persistent", "recursive")

    def __init__(self) -> None:
        self.data = _Table()
        self.children = _Table()
        self.persistent = _Table()
        self.recursive = _RecursiveTable()
        self._all = (self.data, self.children, self.persistent, self.recursive)
        self._by_type = {
            WatcherType.CHILDREN: (self.children,),
            WatcherType.DATA: (self.data,),
            WatcherType.PERSISTENT: (self.persistent,),
            WatcherType.PERSISTENT_RECURSIVE: (self.recursive,),
            WatcherType.ANY: self._all,
        }

    def __bool__(self) -> bool:
        """Whether there are any watches."""
        return bool(
            self.data.by_path or self.children.by_path or self.persistent.by_path or self.recursive.by_path
        )

    def add_lasting(self, path: str | None, watcher: Watcher, *, recursive: bool) -> None:
        """Set a watch that stays: on a node and its children, or on all of a subtree (DataTree.addWatch)."""
        (self.recursive if recursive else self.persistent).add(_key(path), watcher)

    def holds(self, path: str | None, watcher: Watcher, kind: WatcherType) -> bool:
        """Whether the connection has such a watch on exactly this path (DataTree.containsWatcher)."""
        return any(watcher in table.by_path.get(_key(path), ()) for table in self._by_type[kind])

    def remove(self, path: str | None, watcher: Watcher, kind: WatcherType) -> bool:
        """Remove the connection's watches of a type from a path; returns whether it had any (removeWatch)."""
        removed = [table.remove(_key(path), watcher) for table in self._by_type[kind]]
        return any(removed)

    def drop(self, watcher: Watcher, most: int = _ALL) -> bool:
        """Remove at most so many watches of a closed connection; returns whether these were all."""
        for table in self._all:
            most = table.drop(watcher, most)
        return most > 0

    def take_changes(self, watcher: Watcher) -> tuple[Paths, Paths]:
        """The watches that a connection has got since the last call, and those that it had and are gone.

        The first call has all; from then on changes are noted, until `forget_changes`.
        """
        got: list[set[str]] = []
        gone: list[set[str]] = []
        for table in self._all:
            now, changed = table.by_watcher.get(watcher, set()), table.changed.get(watcher)
            got.append(set(now) if changed is None else changed & now)
            gone.append(set() if changed is None else changed - now)
            table.changed[watcher] = set()
        return got, gone

    def count_changes(self, watcher: Watcher) -> int:
        """How many watches `take_changes` would return now."""
        return sum(
            [len(table.changed.get(watcher, table.by_watcher.get(watcher, ()))) for table in self._all]
        )

    def forget_changes(self) -> None:
        """Note no changes any more."""
        for table in self._all:
            table.changed = {}

    def change(self, watcher: Watcher, paths: Paths, *, are_added: bool) -> None:
        """Set watches that a connection has at another process, or remove them."""
        for table, some in zip(self._all, paths, strict=True):
            for path in some:
                if are_added:
                    table.add(path, watcher)
                else:
                    table.remove(path, watcher)

    def become(self, other: "WatchTable") -> None:
        """Take over the watches of another table, which is not used any more. There are none here yet."""
        for table, others in zip(self._all, other._all, strict=True):
            table.by_path, table.by_watcher = others.by_path, others.by_watcher

    def fire(self, events: Collection[TreeEvent], zxid: int, pause: Pause = NO_PAUSE) -> None:
        """Notify the watchers of changes, in ZooKeeper's order (DataTree.createNode, deleteNode, setData).

        A client that may not READ the node gets no event (3.9.3). No watches may be set meanwhile.
        """
        sending: Sending | None = None  # most often, nobody watches
        lasting = _Lasting(self, events, pause) if self.persistent.by_path or self.recursive.by_path else None
        for kind, path, rights, parent_rights in pause.each(events):
            if len(path) > BYTES_PER_STEP:
                pause.spend(len(path) // BYTES_PER_STEP)
            if kind == EventType.NODE_CHILDREN_CHANGED:  # nothing more is known after a load
                for watchers in self._take_children(path, lasting, pause):
                    sending = sending or Sending(zxid, pause)
                    sending.add(watchers, kind, path, rights)
                continue
            notified = self._take(path, lasting, pause)
            for watchers in notified:
                sending = sending or Sending(zxid, pause)
                sending.add(watchers, kind, path, rights)
            if kind == EventType.NODE_DATA_CHANGED:
                continue
            if kind == EventType.NODE_DELETED:
                taken = self.children.take(path, pause)  # the persistent ones are notified
                if taken:
                    sending = sending or Sending(zxid, pause)
                    for some in notified:
                        taken = _without(taken, some, pause)
                    sending.add(taken, kind, path, rights)
            parent = parent_of(path)
            for watchers in self._take_children(parent, lasting, pause):
                sending = sending or Sending(zxid, pause)
                sending.add(watchers, EventType.NODE_CHILDREN_CHANGED, parent, parent_rights)
        if sending is not None:
            sending.end()

    def _take(self, path: str, lasting: _Lasting | None, pause: Pause) -> list[Collection[Watcher]]:
        """The watchers of a path: the one-shot ones, the persistent ones, the recursive ones above it.

        Each is notified once, however many of its watches match (WatchManager.triggerWatch).
        """
        taken = self.data.take(path, pause)
        if lasting is None:
            return [taken] if taken else []
        recursive = lasting.recursive(path)
        return _together(taken, (lasting.persistent(path, recursive), recursive), pause)

    def _take_children(self, path: str, lasting: _Lasting | None, pause: Pause) -> list[Collection[Watcher]]:
        """The watchers of the children of a path, without those of recursive watches."""
        taken = self.children.take(path, pause)
        if lasting is None:
            return [taken] if taken else []
        return _together(taken, (lasting.persistent(path),), pause)

    # -- for administrators: except `total` and `held`, all count data watches only, as ZooKeeper does -------
    # What is watched in two ways counts once, unless there is too much to compare.

    def counts(self) -> tuple[int, int, int]:
        """(connections that watch, paths watched, watches), as `wchs` reports them."""
        modes = self._data_modes()
        watchers = _distinct([table.by_watcher for table in modes])
        paths = _distinct([table.by_path for table in modes])
        return watchers, paths, _pairs(modes)

    def total(self) -> int:
        """How many watches there are, of data and of children, as `mntr` reports it."""
        return _pairs(self._data_modes()) + _pairs((self.children, self.persistent))

    def held(self) -> int:
        """How many watches there are, counted by kind: faster than `total`."""
        return sum([sum(map(len, table.by_watcher.values())) for table in self._all])

    def paths_by_watcher(self) -> Iterator[tuple[Watcher, set[str]]]:
        """The paths that each connection watches, as `wchc` lists them. Watches may change meanwhile.

        A set changes with the watches.
        """
        modes = self._data_modes()
        for watcher in dict.fromkeys(chain.from_iterable([table.by_watcher for table in modes])):
            found = [paths for table in modes if (paths := table.by_watcher.get(watcher))]
            if found:
                yield watcher, found[0] if len(found) == 1 else found[0].union(*found[1:])

    def watchers_by_path(self, pause: Pause = NO_PAUSE) -> Iterator[tuple[str, Collection[Watcher]]]:
        """The connections that watch each path, as `wchp` lists them. Watches may change meanwhile."""
        modes = self._data_modes()
        listed: set[str] = set()
        # The one-shot watches, of which there are most, come last: their paths need not be remembered.
        for mode in reversed(modes):
            # A list of a million takes 20 ms, a dict of the paths of all modes 0.7 s.
            for path in chain.from_iterable(pause.batches(list(mode.by_path))):
                found = [watchers for table in modes if (watchers := table.by_path.get(path))]
                if found and path not in listed:
                    if mode is not self.data:
                        listed.add(path)
                    yield path, found[0] if len(found) == 1 else dict.fromkeys(chain.from_iterable(found))

    def _data_modes(self) -> tuple[_Table, ...]:
        """The tables that are parts of ZooKeeper's `dataWatches`."""
        return self.data, self.persistent, self.recursive


def _distinct(tables: Sequence[Mapping[_Key, object]]) -> int:
    """How many different keys the tables have together. Iterates over all tables except the largest."""
    largest, *others = sorted(tables, key=len, reverse=True)
    count = sum(map(len, others))
    if count <= COMPARED:
        count = len({key for table in others for key in table if key not in largest})
    return len(largest) + count


def _pairs(tables: Iterable[_Table]) -> int:
    """How many pairs of a connection and a path the tables hold together."""
    held = [table.by_watcher for table in tables if table.by_watcher]
    counts = sorted(sum(map(len, table.values())) for table in held)
    if sum(counts[:-1]) > COMPARED:
        return sum(counts)
    return sum(
        (-1) ** (size - 1) * _common(some)
        for size in range(1, len(held) + 1)
        for some in combinations(held, size)
    )


def _common(tables: Sequence[dict[Watcher, set[str]]]) -> int:
    """How many pairs are in each of the tables. Iterates over the fewest paths of each connection."""
    smallest, *others = sorted(tables, key=len)
    if not others:
        return sum(map(len, smallest.values()))
    return sum(
        len(set.intersection(*sorted((table[watcher] for table in tables), key=len)))
        for watcher in smallest
        if all(watcher in table for table in others)
    )


def _key(path: str | None) -> str:
    return _NULL if path is None else path
