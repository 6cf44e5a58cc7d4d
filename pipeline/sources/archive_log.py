"""The log in an archive as a table of traffic: `archive/` keeps months of it outside etcd.

    spark.read.format("zketcd-archive").load("/var/backups/zketcd/archive")

Options, besides the archive's URL:
results              true: replay the log for zxid, result, paths as made and growth; a task for each
                     snapshot of the archive, with the tree in its memory. false: rows say what the requests
                     say; a task for some segments. By default true for a table, false for a stream
since, until         of tables: a time (UTC), or how long ago (10m, 3d): rows of this time by the archive's
                     clock, the proxy's or the archiver's if that is less; both ends included
segmentsPerTask      segments (about 1 MiB) that one task reads with results=false, 16
startingOffsets      of streams: earliest (default) or latest
maxEntriesPerTrigger of streams: entries of the log in one batch; default: all there are
failOnDataLoss       true (default): end with an error where the archive has a gap

The driver lists the names of the files, which say what each holds. Tasks read the files.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from archive.files import container
from archive.files.catalog import ArchiveError, Catalog, Run
from archive.files.moment import NOW, By, moment
from archive.files.names import Segment, Snapshot
from archive.files.segment import Content
from archive.files.store import Store, existing
from archive.past import state as past
from pipeline.errors import Failure
from pipeline.sources.log_options import LogOptions
from pipeline.traffic.outcomes import Recorder
from pipeline.traffic.requests import row
from pipeline.traffic.table import TrafficRow
from proxy.log.load.replay import Place
from proxy.state.level import UnknownLevel
from proxy.state.machine import Machine
from proxy.support.environment import clock_ms
from proxy.support.memory import uncollected
from schema.entry import Written
from schema.errors import BadValue

if TYPE_CHECKING:
    import pyarrow

_SEGMENTS = 16
_EVER = (-(1 << 62), 1 << 62)


class ArchiveOptions(NamedTuple):
    """The parsed options."""

    url: str
    log: LogOptions
    since: int  # milliseconds since 1970
    until: int

    @classmethod
    def of(cls, given: Mapping[str, str], *, results: bool) -> "ArchiveOptions":
        """Parse the options. `results`: the default of that option. Raises ValueError for invalid ones."""
        if not given.get("path"):
            raise ValueError(
                'the format "zketcd-archive" needs an archive: .load("/path") or .load("s3://...")'
            )
        return cls(
            given["path"],
            LogOptions.of(given, "segmentsPerTask", _SEGMENTS, results=results),
            _time(given, "since", _EVER[0]),
            _time(given, "until", _EVER[1]),
        )

    def catalog(self) -> Catalog:
        """What the archive holds. Raises Failure."""
        try:
            found = Catalog(existing(self.url).list())
            found.check_filled()
        except ArchiveError as error:
            raise Failure(f"{self.url}: {error}") from error
        return found


class Stretch(NamedTuple):
    """Entries of one run that one task reads: those after the first `first` ones, up to `end`."""

    run: str
    segments: tuple[Segment, ...]
    first: int
    end: int
    base: Snapshot | None  # a replay begins there; None: rows say what the requests say


class ArchiveReader:
    """Reads the whole archive, or the wanted time of it."""

    def __init__(self, options: ArchiveOptions) -> None:
        self.options = options

    @property
    def bytes(self) -> int:
        """Of all segments, compressed. Raises Failure."""
        try:
            files = existing(self.options.url).list()
        except ArchiveError as error:
            raise Failure(f"{self.options.url}: {error}") from error
        return sum(size for name, size in files.items() if name.endswith(".log"))

    def partitions(self) -> list[Stretch]:
        """Stretches with entries of the wanted time. Raises Failure."""
        found: list[Stretch] = []
        for run in self.options.catalog().runs:
            found += stretches(self.options, run, run.begin.entries, run.end.entries)
        return found

    def read(self, partition: Stretch) -> "Iterator[pyarrow.RecordBatch]":
        """One stretch's rows. Raises Failure."""
        return batches_of(self.options, partition)


def stretches(options: ArchiveOptions, run: Run, first: int, end: int) -> list[Stretch]:
    """The run's entries after the first `first` ones, up to `end`, as far as they are of the wanted time."""
    wanted = [
        each
        for start, each in zip([run.begin, *(each.end for each in run.segments)], run.segments, strict=False)
        if each.end.clock >= options.since
        and start.clock <= options.until
        and each.first < end
        and each.end.entries > first
    ]
    if not wanted:
        return []
    first, end = max(first, wanted[0].first), min(end, wanted[-1].end.entries)
    if options.log.results:
        return _replays(run, first, end)
    share = options.log.share
    groups = [wanted[at : at + share] for at in range(0, len(wanted), share)]
    bounds = [first, *(min(end, group[-1].end.entries) for group in groups)]
    return [
        Stretch(run.name, tuple(group), start, upto, None)
        for group, start, upto in zip(groups, bounds, bounds[1:], strict=False)
        if upto > start
    ]


def _replays(run: Run, first: int, end: int) -> list[Stretch]:
    """A stretch from each snapshot to the next one."""
    snapshots = run.snapshot_before(end)[::-1]
    ends = [*(each.at.entries for each in snapshots[1:]), end]
    found = []
    for base, upto in zip(snapshots, ends, strict=True):
        start, upto = max(first, base.at.entries), min(end, upto)
        if upto > start:
            needed = (s for s in run.segments if s.end.entries > base.at.entries and s.first < upto)
            found.append(Stretch(run.name, tuple(needed), start, upto, base))
    return found


def batches_of(options: ArchiveOptions, stretch: Stretch) -> "Iterator[pyarrow.RecordBatch]":
    """One stretch's rows. Raises Failure."""
    from pipeline.traffic.arrow import batches

    for rows in rows_of(options, stretch):
        yield from batches(rows)


def rows_of(options: ArchiveOptions, stretch: Stretch) -> Iterator[list[TrafficRow]]:
    """One stretch's rows, those of each segment together, without pyarrow. Raises Failure."""
    try:
        yield from _rows(existing(options.url), options, stretch)
    except ArchiveError as error:
        raise Failure(str(error)) from error


def _rows(store: Store, options: ArchiveOptions, stretch: Stretch) -> Iterator[list[TrafficRow]]:
    """The rows of each segment."""
    run = Run(stretch.run, [stretch.base or _nowhere(stretch)], [])
    if stretch.base is None:
        reached = stretch.first
        for each in stretch.segments:
            content = past.read(store, run, each)
            first, end = _wanted(options, stretch, content)
            yield [
                row(entry, request, Place(record.position, record.incarnation, record.number, index))
                for record in _between(content, max(reached, first), end)
                for entry in (past.entry_of(record),)
                for index, request in enumerate(entry.requests)
            ]
            reached = max(reached, content.end.entries)
        return
    with uncollected():
        machine = _loaded(store, run, stretch.base)
        for each in stretch.segments:
            rows: list[TrafficRow] = []
            content = past.read(store, run, each)
            first, end = _wanted(options, stretch, content)
            if machine.entries < first:
                past.replay(machine, content, NOW, first)
            if machine.entries >= first:
                past.replay(machine, content, NOW, end, Recorder({}, rows.append).execute)
            yield rows


def _wanted(options: ArchiveOptions, stretch: Stretch, content: Content) -> tuple[int, int]:
    """How many entries are before the stretch's ones of the wanted time, and up to their end."""
    first = content.start.entries + bisect_left(content.clocks, options.since)
    end = content.start.entries + bisect_right(content.clocks, options.until)
    return max(stretch.first, first), min(stretch.end, end)


def _loaded(store: Store, run: Run, base: Snapshot) -> Machine:
    try:
        return container.load(base, store.get(run.path(base)))
    except (BadValue, UnknownLevel) as error:
        raise ArchiveError(
            f"{run.path(base)} cannot be read: {error}. The option results=false reads the log without it"
        ) from error


def _between(content: Content, first: int, end: int) -> Sequence[Written]:
    start = content.start.entries
    return content.records[max(0, first - start) : max(0, end - start)]


def _nowhere(stretch: Stretch) -> Snapshot:
    """A run needs a snapshot; this one is not read."""
    return Snapshot(stretch.segments[0].end)


def _time(given: Mapping[str, str], name: str, default: int) -> int:
    if name not in given:
        return default
    found = moment(given[name], clock_ms())
    if found.by is not By.TIME:
        raise ValueError(f"{name} is a time such as 2026-11-23T03:12 or how long ago, not {given[name]!r}")
    return found.value
