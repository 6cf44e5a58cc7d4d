"""The state at a moment: a snapshot, and the entries since it, applied by the machine that serves."""

import logging

from archive.files import container, segment
from archive.files.catalog import ArchiveError, Catalog, Run, Way
from archive.files.moment import By, Moment
from archive.files.names import Segment
from archive.files.segment import Content
from archive.files.small_files import complete_up_to
from archive.files.store import Missing, Store
from proxy.log.load.replay import Execute, Place
from proxy.state.level import UnknownLevel
from proxy.state.machine import Machine
from proxy.support.memory import uncollected
from schema.entry import Entry, Written, decode_entry
from schema.errors import BadValue

log = logging.getLogger(__name__)

_TRIES = 5


def state_at(store: Store, moment: Moment) -> Machine:
    """Raises NotArchived, ArchiveError."""
    with uncollected():
        for again in reversed(range(_TRIES)):
            try:
                return _state(store, _way(store, moment), moment)
            except Missing:  # the open segment has grown meanwhile, or retention has deleted a file
                if not again:
                    raise
    raise AssertionError


def _way(store: Store, moment: Moment) -> Way:
    """How the state of a moment is made. Raises NotArchived, StoreError."""
    catalog = Catalog(store.list())
    return catalog.way(moment, {run.name: complete_up_to(store, run) for run in catalog.runs})


def _state(store: Store, way: Way, moment: Moment) -> Machine:
    machine = base(store, way)
    for each in way.segments:
        if each.end.entries > machine.entries:
            replay(machine, read(store, way.run, each), moment)
    return machine


def base(store: Store, way: Way) -> Machine:
    """The nearest snapshot that can be read. Raises ArchiveError, StoreError."""
    for snapshot in way.snapshots:
        try:
            return container.load(snapshot, store.get(way.run.path(snapshot)))
        except (BadValue, UnknownLevel) as error:
            log.error("%s cannot be read: %s", way.run.path(snapshot), error)
    raise ArchiveError("no snapshot before that moment can be read (see the errors above)")


def read(store: Store, run: Run, each: Segment) -> Content:
    """A segment. Raises ArchiveError, StoreError."""
    name = run.path(each)
    try:
        return segment.load(each, store.get(name))
    except BadValue as error:
        raise ArchiveError(
            f"{name} cannot be read: {error}. `zketcd archive verify` lists all damage"
        ) from error


def entry_of(record: Written) -> Entry:
    """Raises ArchiveError."""
    try:
        return decode_entry(record.value)
    except BadValue as error:
        raise _unusable(record, error) from error


def _unusable(record: Written, error: Exception) -> ArchiveError:
    return ArchiveError(f"entry {record.number} of {record.incarnation} cannot be applied: {error}")


def replay(
    machine: Machine, content: Content, moment: Moment, upto: int = 1 << 62, execute: Execute | None = None
) -> None:
    """Apply what the machine lacks, up to the moment and to so many entries in all. Raises ArchiveError.

    At a zxid it may stop within an entry. The state after all of them is compared with the archiver's.
    `execute`: for callers that look at each request.
    """
    position = content.start.position
    if content.start.entries > machine.entries:
        raise ArchiveError(f"the entries {machine.entries + 1} to {content.start.entries} are missing")
    applied = machine.entries - content.start.entries
    for record in content.records[:applied]:
        position = max(position, record.position)
    for record, clock in zip(content.records[applied:], content.clocks[applied:], strict=True):
        position = max(position, record.position)
        entry = entry_of(record)
        if (
            machine.entries >= upto
            or (moment.by is By.TIME and clock > moment.value)
            or (moment.by is By.POSITION and position > moment.value)
        ):
            return
        try:
            machine.begin(record.incarnation, record.number, entry.clock, entry.rules)
            for index, request in enumerate(entry.requests):
                if moment.by is By.ZXID and machine.zxid >= moment.value:
                    return
                if execute is None:
                    machine.execute(request)
                else:
                    place = Place(record.position, record.incarnation, record.number, index)
                    execute(machine, entry, request, place)
        except (AssertionError, UnknownLevel) as error:
            raise _unusable(record, error) from error
        machine.end()
    if machine.entries < upto and machine.digest.settle(machine.tree.nodes) != content.digest:
        raise ArchiveError(
            f"the entries {content.start.entries + 1} to {machine.entries} make another state than the"
            " archiver had"
        )
