"""Which connections watch what, and which of them a change notifies.

Watches by path, of the kinds and modes of ZooKeeper's DataTree: one-shot data watches (getData and
exists) and child watches (getChildren); persistent ones, which are both and stay; recursive ones, which are
data watches of a whole subtree and stay. A watcher is a connection; firing yields notifications, sending is
not done here.

ZooKeeper keeps two WatchManagers, for data and children, each with all modes. Here every mode has a table of
its own, so that the plain case stays plain: a persistent watch always stands in both managers, a recursive
one in that of data alone.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

from codec.constants import EventType, WatcherType
from codec.jute import Acl
from schema.paths import ROOT, parent_of

_ALL = 1 << 62  # more watches than there can be
# The key of a null path, which ZooKeeper's tables hold like any other; no node has it, so it never fires.
_NULL = "null"


class TreeEvent(NamedTuple):
    """One change that watches fire for, and what the client must be allowed to READ to be notified."""

    kind: int  # an EventType
    path: str
    acl: tuple[Acl, ...]  # the node's at that moment
    parent_acl: tuple[Acl, ...]


class Watcher(Protocol):
    """A connection as the watch table sees it."""

    @property
    def session_id(self) -> int:
        """The connection's session."""

    def notify(self, kind: int, path: str, zxid: int, acl: Sequence[Acl]) -> None:
        """Send one watch event, unless the ACL withholds the node from this client."""


class _Table:
    """Watches of one kind and mode, found by path and by watcher."""

    __slots__ = ("by_path", "by_watcher")

    def __init__(self) -> None:
        self.by_path: dict[str, dict[Watcher, None]] = {}  # a dict keeps the order in which they were set
        self.by_watcher: dict[Watcher, set[str]] = {}

    def add(self, path: str, watcher: Watcher) -> None:
        self.by_path.setdefault(path, {})[watcher] = None
        self.by_watcher.setdefault(watcher, set()).add(path)

    def take(self, path: str) -> Collection[Watcher]:
        """The watchers of a path, whose watches are used up thereby."""
        watchers = self.by_path.pop(path, None)
        if watchers is None:
            return ()
        for watcher in watchers:
            paths = self.by_watcher[watcher]
            paths.discard(path)
            if not paths:
                del self.by_watcher[watcher]
        return watchers

    def remove(self, path: str, watcher: Watcher) -> bool:
        """Take one watch away; whether it was there."""
        watchers = self.by_path.get(path)
        if watchers is None or watcher not in watchers:
            return False
        del watchers[watcher]
        if not watchers:
            del self.by_path[path]
        paths = self.by_watcher[watcher]
        paths.discard(path)
        if not paths:
            del self.by_watcher[watcher]
        return True

    def drop(self, watcher: Watcher, most: int) -> int:
        """Take away so many watches of a connection; how many more might have been taken."""
        paths = self.by_watcher.get(watcher)
        if paths is None:
            return most
        while paths and most:
            path = paths.pop()
            watchers = self.by_path[path]
            del watchers[watcher]
            if not watchers:
                del self.by_path[path]
            most -= 1
        if not paths:
            del self.by_watcher[watcher]
        return most


class WatchTable:
    """All watches of one proxy."""

    __slots__ = ("_all", "_by_type", "_some_last", "children", "data", "persistent", "recursive")

    def __init__(self) -> None:
        self.data = _Table()
        self.children = _Table()
        self.persistent = _Table()
        self.recursive = _Table()
        self._some_last = False  # whether there is anything in the last two
        self._all = (self.data, self.children, self.persistent, self.recursive)
        self._by_type = {
            WatcherType.CHILDREN: (self.children,),
            WatcherType.DATA: (self.data,),
            WatcherType.PERSISTENT: (self.persistent,),
            WatcherType.PERSISTENT_RECURSIVE: (self.recursive,),
            WatcherType.ANY: self._all,
        }

    def __bool__(self) -> bool:
        """Whether anybody watches anything."""
        return bool(
            self.data.by_path or self.children.by_path or self.persistent.by_path or self.recursive.by_path
        )

    def add_lasting(self, path: str | None, watcher: Watcher, *, recursive: bool) -> None:
        """Set a watch that stays: on a node and its children, or on all of a subtree (DataTree.addWatch)."""
        (self.recursive if recursive else self.persistent).add(_key(path), watcher)
        self._some_last = True

    def holds(self, path: str | None, watcher: Watcher, kind: WatcherType) -> bool:
        """Whether the connection has such a watch on exactly this path (DataTree.containsWatcher)."""
        return any(watcher in table.by_path.get(_key(path), ()) for table in self._by_type[kind])

    def remove(self, path: str | None, watcher: Watcher, kind: WatcherType) -> bool:
        """Take the connection's watches of a type off a path; and say whether any was there (removeWatch)."""
        removed = [table.remove(_key(path), watcher) for table in self._by_type[kind]]
        self._some_last = bool(self.persistent.by_path or self.recursive.by_path)
        return any(removed)

    def drop(self, watcher: Watcher, most: int = _ALL) -> bool:
        """Forget the watches of a connection that is gone, at most so many; whether these were all."""
        for table in self._all:
            most = table.drop(watcher, most)
        self._some_last = bool(self.persistent.by_path or self.recursive.by_path)
        return most > 0

    def fire(self, event: TreeEvent, zxid: int) -> None:
        """Notify the watchers of the change, in ZooKeeper's order (DataTree.createNode, deleteNode, setData).

        A client that may not READ the node gets no event (3.9.3).
        """
        kind, path, acl, parent_acl = event
        some_last = self._some_last
        if kind == EventType.NODE_CHILDREN_CHANGED:  # all that is known after a load
            for watcher in self._take_children(path):
                watcher.notify(kind, path, zxid, acl)
            return
        told = self.data.take(path)
        if some_last:
            told = self._with_lasting(path, told)
        for watcher in told:
            watcher.notify(kind, path, zxid, acl)
        if kind == EventType.NODE_DATA_CHANGED:
            return
        if kind == EventType.NODE_DELETED:
            for watcher in self._take_children(path):
                if watcher not in told:
                    watcher.notify(kind, path, zxid, acl)
        parent = parent_of(path)
        for watcher in self._take_children(parent) if some_last else self.children.take(parent):
            watcher.notify(EventType.NODE_CHILDREN_CHANGED, parent, zxid, parent_acl)

    def _with_lasting(self, path: str, told: Collection[Watcher]) -> Collection[Watcher]:
        """Also the persistent watchers of a path, and the recursive ones of it and of all above it.

        Each is notified once, however many of its watches match (WatchManager.triggerWatch).
        """
        everyone = dict.fromkeys(told)
        everyone.update(self.persistent.by_path.get(path, {}))
        recursive = self.recursive.by_path
        if recursive:
            for step in _upwards(path):
                if step in recursive:
                    everyone.update(recursive[step])
        return everyone

    def _take_children(self, path: str) -> Collection[Watcher]:
        """Whoever watches the children of a path; recursive watches do not."""
        told = self.children.take(path)
        lasting = self.persistent.by_path.get(path) if self._some_last else None
        return dict.fromkeys((*told, *lasting)) if lasting else told

    # -- for administrators: all but `total` count data watches only, as ZooKeeper's do ----------------------

    def counts(self) -> tuple[int, int, int]:
        """(connections that watch, paths watched, watches), as `wchs` reports them."""
        modes = self._data_modes()
        watchers = set().union(*(table.by_watcher for table in modes))
        paths = set().union(*(table.by_path for table in modes))
        return len(watchers), len(paths), _pairs(modes)

    def total(self) -> int:
        """How many watches there are, of data and of children, as `mntr` reports it."""
        return _pairs(self._data_modes()) + _pairs((self.children, self.persistent))

    def held(self) -> int:
        """How many watches there are, each kind by itself: quicker than `total`."""
        return sum([sum(map(len, table.by_watcher.values())) for table in self._all])

    def paths_by_watcher(self) -> Iterator[tuple[Watcher, set[str]]]:
        """The paths that each connection watches, as `wchc` lists them; watches may come and go meanwhile."""
        modes = self._data_modes()
        for watcher in dict.fromkeys(chain.from_iterable([table.by_watcher for table in modes])):
            paths = set[str]().union(*(table.by_watcher.get(watcher, ()) for table in modes))
            if paths:
                yield watcher, paths

    def watchers_by_path(self) -> Iterator[tuple[str, Collection[Watcher]]]:
        """The connections that watch each path, as `wchp` lists them; watches may come and go meanwhile."""
        modes = self._data_modes()
        for path in dict.fromkeys(chain.from_iterable([table.by_path for table in modes])):
            watchers = dict.fromkeys(chain.from_iterable([table.by_path.get(path, ()) for table in modes]))
            if watchers:
                yield path, watchers

    def _data_modes(self) -> tuple[_Table, ...]:
        """The tables that are parts of ZooKeeper's `dataWatches`."""
        return self.data, self.persistent, self.recursive


def _pairs(tables: Iterable[_Table]) -> int:
    """How many pairs of a connection and a path the tables hold together."""
    used = [table for table in tables if table.by_watcher]
    if len(used) == 1:
        return sum(map(len, used[0].by_watcher.values()))
    watchers = set().union(*(table.by_watcher for table in used))
    return sum(
        len(set().union(*(table.by_watcher.get(watcher, ()) for table in used))) for watcher in watchers
    )


def _key(path: str | None) -> str:
    return _NULL if path is None else path


def _upwards(path: str) -> Iterator[str]:
    """The path, its parent, and so on up to the root (PathParentIterator)."""
    yield path
    while path != ROOT:
        path = parent_of(path)
        yield path
