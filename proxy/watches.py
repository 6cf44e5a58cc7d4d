"""Who watches what, and whom a change notifies.

Pure. One-shot watches by path, of two kinds as in ZooKeeper's DataTree: data watches (getData and exists) and
child watches (getChildren). A watcher is a connection; firing yields notifications, sending is not done here.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from codec.constants import EventType
from codec.jute import Acl
from schema.paths import parent_of


class Watcher(Protocol):
    """A connection as the watch table sees it."""

    def notify(self, kind: int, path: str, zxid: int, acl: Sequence[Acl]) -> None:
        """Send one watch event, unless the ACL withholds the node from this client."""


class _Table:
    """Watches of one kind, found by path and by watcher."""

    __slots__ = ("by_path", "by_watcher")

    def __init__(self) -> None:
        self.by_path: dict[str, dict[Watcher, None]] = {}  # a dict keeps the order in which they were set
        self.by_watcher: dict[Watcher, set[str]] = {}

    def add(self, path: str, watcher: Watcher) -> None:
        self.by_path.setdefault(path, {})[watcher] = None
        self.by_watcher.setdefault(watcher, set()).add(path)

    def take(self, path: str) -> Iterable[Watcher]:
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

    def drop(self, watcher: Watcher) -> None:
        for path in self.by_watcher.pop(watcher, ()):
            watchers = self.by_path[path]
            del watchers[watcher]
            if not watchers:
                del self.by_path[path]


class WatchTable:
    """All watches of one proxy."""

    __slots__ = ("children", "data")

    def __init__(self) -> None:
        self.data = _Table()
        self.children = _Table()

    def __bool__(self) -> bool:
        """Whether anybody watches anything."""
        return bool(self.data.by_path or self.children.by_path)

    def drop(self, watcher: Watcher) -> None:
        """Forget all watches of a connection that is gone."""
        self.data.drop(watcher)
        self.children.drop(watcher)

    def held_by(self, watcher: Watcher) -> tuple[Collection[str], Collection[str]]:
        """The paths on which a connection has data watches, and child watches."""
        return self.data.by_watcher.get(watcher, ()), self.children.by_watcher.get(watcher, ())

    def fire(self, kind: int, path: str, zxid: int, acl: Sequence[Acl], parent_acl: Sequence[Acl]) -> None:
        """Notify whoever watches the change, in ZooKeeper's order (DataTree.createNode, deleteNode, setData).

        `acl` is the node's, `parent_acl` its parent's: a client that may not READ gets no event (3.9.3).
        """
        if kind == EventType.NODE_CHILDREN_CHANGED:  # all that is known after a gap in the stream
            for watcher in self.children.take(path):
                watcher.notify(kind, path, zxid, acl)
            return
        told: Iterable[Watcher] = self.data.take(path)
        for watcher in told:
            watcher.notify(kind, path, zxid, acl)
        if kind == EventType.NODE_DATA_CHANGED:
            return
        if kind == EventType.NODE_DELETED:
            for watcher in self.children.take(path):
                if watcher not in told:
                    watcher.notify(kind, path, zxid, acl)
        parent = parent_of(path)
        for watcher in self.children.take(parent):
            watcher.notify(EventType.NODE_CHILDREN_CHANGED, parent, zxid, parent_acl)

    def counts(self) -> tuple[int, int, int]:
        """(connections that watch, paths watched, watches), as `wchs` tells them."""
        watchers = self.data.by_watcher.keys() | self.children.by_watcher.keys()
        paths = len(self.data.by_path) + len(self.children.by_path)
        total = sum(
            len(watchers) for table in (self.data, self.children) for watchers in table.by_path.values()
        )
        return len(watchers), paths, total
