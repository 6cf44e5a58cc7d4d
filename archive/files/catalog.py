"""What an archive holds, from the names of its files alone: runs, and the way to a moment."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from archive.files import names
from archive.files.moment import By, Moment, shown
from archive.files.names import Point, Segment, Snapshot


class ArchiveError(Exception):
    """The archive cannot answer; the message says why and what to do."""


class NotArchived(ArchiveError):
    """The archive has no state of that moment."""


class Run:
    """A part of the archive without a gap."""

    def __init__(self, name: str, snapshots: Sequence[Snapshot], segments: Iterable[Segment]) -> None:
        self.name = name
        self.snapshots = sorted(snapshots)
        #: Where the run begins.
        self.begin = self.snapshots[0].at
        #: Those that a replay reads, in order.
        self.segments: list[Segment] = []
        #: Those whose entries others have as well: an archiver that was killed has left them.
        self.superseded: list[Segment] = []
        #: Numbers of entries between which segments are missing.
        self.holes: list[tuple[int, int]] = []
        reached = self.begin.entries
        for segment in sorted(segments, key=lambda each: (each.first, -each.end.entries)):
            if segment.end.entries <= reached:
                self.superseded.append(segment)
                continue
            if segment.first > reached:
                self.holes.append((reached, segment.first))
            self.segments.append(segment)
            reached = segment.end.entries

    @property
    def cluster(self) -> int:
        """The id of etcd's cluster."""
        return int(self.name.rpartition("-")[2], 16)

    @property
    def begun(self) -> int:
        """When it was begun: milliseconds since 1970."""
        return _begun(self.name)

    @property
    def end(self) -> Point:
        """Where the run ends."""
        return self.segments[-1].end if self.segments else self.snapshots[-1].at

    def snapshot_before(self, entries: int) -> list[Snapshot]:
        """The snapshots that a state after so many entries can be made from, the nearest first."""
        return [each for each in reversed(self.snapshots) if each.at.entries <= entries]

    def path(self, file: Segment | Snapshot) -> str:
        """The name of a file in the store."""
        return f"{self.name}/{file.name}"


def _begun(run: str) -> int:
    """Raises ValueError for a folder that is named like a run, with an impossible date."""
    return int(datetime.fromisoformat(run.partition("-")[0]).timestamp() * 1000)


def _has_date(run: str) -> bool:
    """Whether its name's date is possible; `names.is_run` looks at its form alone."""
    try:
        _begun(run)
    except ValueError:
        return False
    return True


class Way(NamedTuple):
    """How a state is made."""

    run: Run
    snapshots: list[Snapshot]  # the first that can be read is the base
    segments: list[Segment]  # that may have to be replayed, up to the moment


class Catalog:
    """All runs, the oldest first."""

    def __init__(self, files: Iterable[str]) -> None:
        found: dict[str, tuple[list[Snapshot], list[Segment]]] = {}
        for name in files:
            parsed = names.parse(name)
            if parsed is None:
                continue
            run, file = parsed
            snapshots, segments = found.setdefault(run, ([], []))
            if isinstance(file, Snapshot):
                snapshots.append(file)
            elif file is not None:
                segments.append(file)
        # A run without a snapshot was begun, and its archiver was killed.
        self.runs = [
            Run(name, *parts) for name, parts in sorted(found.items()) if parts[0] and _has_date(name)
        ]

    def check_filled(self) -> None:
        """Raises NotArchived."""
        if not self.runs:
            raise NotArchived("the archive is empty: `zketcd archive URL` fills it")

    def way(self, moment: Moment, complete: Mapping[str, Point]) -> Way:
        """The way to a moment. `complete`: what is known of each run. Raises NotArchived."""
        self.check_filled()
        errors = {}
        for run in self._likely(moment):
            try:
                return self._way_in(run, moment, complete)
            except NotArchived as error:
                errors[run.name] = error
        if errors:
            raise errors[max(errors)]
        begin = self.runs[0].begin
        raise NotArchived(
            f"{moment} is before the archive begins: {shown(begin.clock)}, zxid 0x{begin.zxid:x},"
            f" position {begin.position}"
        )

    def _likely(self, moment: Moment) -> list[Run]:
        """The runs that begin before the moment, the best first.

        After a restore of etcd two runs have the same entries up to the backup, and different ones since. At
        a time, the tree was that of the run that was being written; zxids continue above the former run's.
        """
        if moment.by is By.NOW:
            return self.runs[-1:]
        found = [run for run in self.runs if getattr(run.begin, moment.by.value) <= moment.value]
        if moment.by is By.TIME:
            written = [run for run in found if run.begun <= moment.value]
            return written[::-1] + [run for run in found if run.begun > moment.value]
        return found if moment.by is By.ZXID else found[::-1]

    def _way_in(self, run: Run, moment: Moment, complete: Mapping[str, Point]) -> Way:
        last = next((at for at, each in enumerate(run.segments) if not _is_before(each.end, moment)), None)
        if last is None and moment.by is not By.NOW:
            self._check_known(run, moment, complete.get(run.name, run.end))
        segments = run.segments if last is None else run.segments[: last + 1]
        first = run.begin.entries if not segments else segments[-1].first
        if last is None:
            first = run.end.entries
        snapshots = run.snapshot_before(first)
        if not snapshots:
            raise NotArchived(f"the files of {moment} were deleted (--keep)")
        return Way(run, snapshots, segments)

    def _check_known(self, run: Run, moment: Moment, known: Point) -> None:
        """Nothing has happened after the run's last entry, as far as it is known to be complete."""
        if moment.by is By.ZXID:
            late = moment.value > run.end.zxid
        elif moment.by is By.TIME:
            late = moment.value > max(known.clock, run.end.clock)
        else:
            late = moment.value > max(known.position, run.end.position)
        if not late:
            return
        at = f"{shown(known.clock)}, zxid 0x{run.end.zxid:x}, position {known.position}"
        following = next((other for other in self.runs if other.name > run.name), None)
        if following is not None:
            raise NotArchived(
                f"{moment} lies in a gap of the archive: it ends at {at}, and begins again at"
                f" {shown(following.begin.clock)}, zxid 0x{following.begin.zxid:x}"
            )
        raise NotArchived(f"{moment} is not archived yet: the archive is complete up to {at}")


def _is_before(end: Point, moment: Moment) -> bool:
    """Whether entries after `end` may be wanted."""
    if moment.by is By.NOW:
        return True
    value: int = getattr(end, moment.by.value)
    # Later entries may have the same clock or position as the last one, but not its zxid.
    return value < moment.value if moment.by is By.ZXID else value <= moment.value
