"""The names of an archive's files. A listing of them is the archive's catalog: nothing else names its parts.

<run>/<first>-<point>.log        a segment: the entries after the first `first` ones, up to a point
<run>/<first>-<point>.paths      its index
<run>/<point>.snapshot           a state
<run>/complete                   up to when the run is known to be complete
<run>/prefix                     the tree's prefix in etcd, and a checksum
clock                            the archive's own clock, by which retention goes
<run>                            UTC time at which it began, and etcd's cluster id
<point>                          entries, position, zxid, clock

Equal names mean equal entries. So two archivers do no harm, and what was put twice is the same.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

COMPLETE = "complete"
CLOCK = "clock"
PREFIX = "prefix"
_LOG, _PATHS, _SNAPSHOT = ".log", ".paths", ".snapshot"
_POINT = r"(\d{16})-(\d{16})-([0-9a-f]{16})-(\d{16})"
_RUN = re.compile(r"\d{8}T\d{6}\.\d{3}Z-[0-9a-f]{16}")
_SEGMENT_NAME = re.compile(rf"(\d{{16}})-{_POINT}\.log")
_SNAPSHOT_NAME = re.compile(rf"{_POINT}\.snapshot")


class Point(NamedTuple):
    """A place between two entries of the log."""

    entries: int  # before it, since the tree began
    position: int  # etcd's revision at which the last of them took effect
    zxid: int
    clock: int  # the largest one of the entries before it, or the archiver's if that is less: ms since 1970

    def __str__(self) -> str:
        return f"{self.entries:016d}-{self.position:016d}-{self.zxid:016x}-{self.clock:016d}"


class Segment(NamedTuple):
    """Entries between two points."""

    first: int  # entries before it
    end: Point

    @property
    def name(self) -> str:
        """The name of its file, without the run."""
        return f"{self.first:016d}-{self.end}{_LOG}"

    @property
    def index_name(self) -> str:
        """The name of its index."""
        return self.name.removesuffix(_LOG) + _PATHS


class Snapshot(NamedTuple):
    """The state at a point."""

    at: Point

    @property
    def name(self) -> str:
        """The name of its file, without the run."""
        return f"{self.at}{_SNAPSHOT}"


def is_run(name: str) -> bool:
    """Whether a directory with this name is a run."""
    return _RUN.fullmatch(name) is not None


def parse(name: str) -> tuple[str, Segment | Snapshot | None] | None:
    """(run, what a file is: None for the small ones); None for a file that is not the archive's."""
    run, _, file = name.partition("/")
    if not is_run(run):
        return None
    if found := _SEGMENT_NAME.fullmatch(file):
        first, *point = found.groups()
        return run, Segment(int(first), _point(point))
    if found := _SNAPSHOT_NAME.fullmatch(file):
        return run, Snapshot(_point(found.groups()))
    return run, None


def _point(groups: Sequence[str]) -> Point:
    entries, position, zxid, clock = groups
    return Point(int(entries), int(position), int(zxid, 16), int(clock))
