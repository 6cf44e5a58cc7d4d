"""Reads a whole archive: all checksums, and whether each snapshot and its segments make the next snapshot."""

from collections.abc import Iterator
from typing import NamedTuple

from archive.files import container, segment
from archive.files.catalog import ArchiveError, Catalog, Run
from archive.files.index import Index
from archive.files.moment import NOW
from archive.files.names import Segment, Snapshot
from archive.files.store import Missing, Store
from archive.past.state import replay
from proxy.state.level import UnknownLevel
from proxy.state.machine import Machine
from proxy.support.memory import uncollected
from schema.errors import BadValue


class Finding(NamedTuple):
    """What was found in one file."""

    file: str
    error: str  # "": it is right


def verify(store: Store) -> Iterator[Finding]:
    """All files, the oldest first. Raises StoreError."""
    files = store.list()
    with uncollected():
        for run in Catalog(files).runs:
            yield from _run(store, run, files)


def _run(store: Store, run: Run, files: dict[str, int]) -> Iterator[Finding]:
    for first, last in run.holes:
        yield Finding(run.name, f"the segments with the entries {first + 1} to {last} are missing")
    machine: Machine | None = None
    snapshots = list(run.snapshots)
    for each in (*run.segments, None):
        content = None
        if each is not None:
            content, error = _segment(store, run, each, files)
            if error:
                yield Finding(run.path(each), error)
            if error or content is None:
                machine = None  # until the next snapshot
        # Snapshots within this segment, and before it.
        reach = 1 << 62 if each is None else each.end.entries
        if each is None:
            machine = None  # the segments up to a snapshot may not be written yet
        while snapshots and snapshots[0].at.entries <= reach:
            snapshot = snapshots.pop(0)
            finding = ""
            if machine is not None and content is not None:
                finding = _replayed(machine, content, snapshot.at.entries)
            machine, problem = _snapshot(store, run, snapshot, None if finding else machine)
            yield Finding(run.path(snapshot), finding or problem)
        if each is not None and content is not None and machine is not None:
            error = _replayed(machine, content, 1 << 62)
            if not error and machine.digest.settle(machine.tree.nodes) != content.digest:
                error = "the entries make another state than the archiver had"
            yield Finding(run.path(each), error)
            if error:
                machine = None
        elif content is not None and each is not None:
            yield Finding(run.path(each), "")
    for each in run.superseded:
        yield Finding(run.path(each), _segment(store, run, each, files)[1])


def _segment(
    store: Store, run: Run, each: Segment, files: dict[str, int]
) -> tuple[segment.Content | None, str]:
    try:
        content = segment.load(each, store.get(run.path(each)))
    except Missing:
        is_gone = each not in run.superseded and not _is_replaced(store, run, each)
        return None, "it was deleted meanwhile" if is_gone else ""
    except BadValue as error:
        return None, str(error)
    if f"{run.name}/{each.index_name}" in files:
        try:
            index = Index(store.get(f"{run.name}/{each.index_name}"))
        except (BadValue, Missing) as error:
            return content, f"its index cannot be read: {error}"
        missing = next((change.path for change in content.changes if not index.may_change(change.path)), None)
        if missing is not None:
            return content, f"its index lacks {missing}"
    return content, ""


def _is_replaced(store: Store, run: Run, each: Segment) -> bool:
    """Whether the archiver has written the open segment anew, with more entries, since all were listed."""
    runs = (now for now in Catalog(store.list()).runs if now.name == run.name)
    return any(other.first == each.first for now in runs for other in now.segments)


def _replayed(machine: Machine, content: segment.Content, upto: int) -> str:
    try:
        if content.end.entries > machine.entries:
            replay(machine, content, NOW, upto)
    except ArchiveError as error:
        return str(error)
    return ""


def _snapshot(
    store: Store, run: Run, snapshot: Snapshot, replayed: Machine | None
) -> tuple[Machine | None, str]:
    """The state to continue with, and what is wrong."""
    try:
        found = container.load(snapshot, store.get(run.path(snapshot)))
    except (BadValue, UnknownLevel, Missing) as error:
        return replayed, str(error)
    if replayed is None:
        return found, ""
    if replayed.entries != found.entries:
        return found, f"the segments before it end after {replayed.entries} entries"
    if replayed.digest.settle(replayed.tree.nodes) != found.digest.settle(found.tree.nodes):
        return found, "the snapshot before it and the segments since make another state"
    return found, ""
