"""The tree under a prefix as of one revision of etcd, read without writing anything.

If the log has entries after the newest snapshot, they are replayed in memory with the proxies' own state
machine. A reader then takes all nodes from the snapshot except those that the log has changed.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple, TypeAlias

from pipeline.etcd.read import Changed, TreeAt, has_log_behind, new_session
from pipeline.etcd.record import NotReadable, record_of
from proxy.etcd.interface import Etcd
from proxy.log.follow.catch_up import Loaded
from proxy.log.load.replay import Execute, Place
from proxy.log.load.start import NotInLog, Wanted, load_as_of
from proxy.log.record import Look, TreeNotServable
from proxy.state.machine import Machine
from proxy.support.memory import uncollected
from schema.entry import Entry, Request
from schema.keys import Keyspace
from schema.pages import split_nodes
from schema.record import TreeRecord

_TIMEOUT = 60.0  # seconds for an etcd that does not answer

Progress: TypeAlias = Callable[[int, int], object]
"""Called when so many requests more, of so many bytes, are applied."""


class Outline(NamedTuple):
    """What can be said of a tree without a replay."""

    tree: TreeAt | None  # None: the log has entries behind the newest snapshot
    nodes: int  # about
    bytes: int  # about


async def outline_of(etcd: Etcd, keys: Keyspace) -> Outline:
    """The tree as of now, as far as that is cheap. Raises NotReadable, EtcdError."""
    found, record = await record_of(etcd, keys)
    settled = await _settled(etcd, keys, found, record, found.revision)
    current = record.current
    return Outline(settled, 0 if current is None else current.nodes, 0 if current is None else current.bytes)


async def _settled(
    etcd: Etcd, keys: Keyspace, found: Look, record: TreeRecord, revision: int
) -> TreeAt | None:
    """The tree, if it is that of the newest snapshot."""
    current = record.current
    is_new = current is not None and current.position <= revision
    if is_new and not await has_log_behind(etcd, keys, current):
        return TreeAt(found.revision, current, len(found.proxies), None)
    return None


async def tree_at(etcd: Etcd, keys: Keyspace, revision: int = 0, progress: Progress | None = None) -> TreeAt:
    """The tree as of `revision`, or as of now. Raises NotReadable, EtcdError."""
    found, record = await record_of(etcd, keys)
    revision = revision or found.revision
    settled = await _settled(etcd, keys, found, record, revision)
    if settled is not None:
        return settled
    proxies = len(found.proxies)
    changed: set[str] = set()

    def again() -> Execute:
        changed.clear()
        return _Watch(changed, progress).execute

    try:
        with uncollected():
            wanted = Wanted(upto=revision)
            loaded = await load_as_of(etcd, keys, wanted, timeout=_TIMEOUT, executes=again)
    except NotInLog as error:
        raise NotReadable(
            f"{error}: two newer snapshots were made since revision {revision}. Read the tree again"
        ) from error
    except TreeNotServable as error:
        raise NotReadable(str(error)) from error
    return TreeAt(loaded.caught.revision, loaded.base, proxies, _changed(loaded, changed, revision))


class _Watch:
    """Executes requests, and records which nodes they change."""

    def __init__(self, touched: set[str], progress: Progress | None) -> None:
        self._touched = touched
        self._progress = progress

    def execute(self, machine: Machine, _entry: Entry, request: Request, _place: Place) -> None:
        """Apply the request to the machine. Raises UnknownLevel."""
        machine.digest.all_touched = self._touched
        machine.execute(request)
        if self._progress is not None:
            self._progress(1, len(request.body))


def _changed(loaded: Loaded, touched: set[str], position: int) -> Changed:
    machine = loaded.machine
    changed = machine.tree.nodes.keys() if loaded.base is None else touched | machine.digest.touched
    return changed_of(machine, changed, position)


def changed_of(machine: Machine, paths: Collection[str], position: int) -> Changed:
    """The nodes with these paths as a state has them, and its sessions."""
    nodes = machine.tree.nodes
    pages = split_nodes([(path, nodes[path]) for path in sorted(paths) if path in nodes])
    sessions = (
        new_session(session.id, session.timeout_ms, session.password_hash)
        for session in machine.sessions.values()
    )
    return Changed(position, frozenset(paths), tuple(pages), tuple(sessions), machine.zxid, len(nodes))
