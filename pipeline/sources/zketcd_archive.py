"""Spark's data source "zketcd-archive": an archive's log as a table of traffic, and as a stream.

archive_log.py has the options. A stream's offset is a run of the archive and a number of entries: the same
two offsets always give the same rows.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from archive.files.catalog import Run
from pipeline.errors import Failure
from pipeline.sources.archive_log import ArchiveOptions, ArchiveReader, Stretch, batches_of, stretches
from pipeline.sources.log_options import EARLIEST
from pipeline.sources.spark import SparkReader, struct_of
from pipeline.traffic.arrow import TRAFFIC
from schema.paths import ROOT

_log = logging.getLogger(__name__)


class ZketcdArchiveSource(DataSource):
    """`spark.read.format("zketcd-archive")`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "zketcd-archive"

    def schema(self) -> StructType:
        """The schema of the table of traffic."""
        return struct_of(TRAFFIC)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the archive. Raises ValueError."""
        options = ArchiveOptions.of(self.options, results=True)
        return SparkReader(ArchiveReader(options), TRAFFIC, schema, self.options.get("subtree", ROOT))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Follows the archive."""
        return ArchiveStream(self.options)


class _Offset(NamedTuple):
    """A place in an archive."""

    run: str
    entries: int


class ArchiveStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The archive as it grows."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)
        self._target: _Offset | None = None  # up to where a query with Trigger.AvailableNow reads

    def _options(self) -> ArchiveOptions:
        # Not in the constructor: Spark 4 loses errors that are raised there.
        for name in ("since", "until"):
            if name in self._given:
                raise ValueError(f"the option {name} is for tables: filter a stream's column time")
        return ArchiveOptions.of(self._given, results=False)

    def initialOffset(self) -> dict[str, Any]:
        """Where a new stream begins. Raises ValueError, Failure."""
        options = self._options()
        runs = options.catalog().runs
        if options.log.starting == EARLIEST:
            return _Offset(runs[0].name, runs[0].begin.entries)._asdict()
        return _end(runs)._asdict()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Entries, each of which has any number of rows. Raises ValueError."""
        most = self._options().log.most
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read up to the current end of the archive, also if a batch has to be repeated first."""
        self._target = _end(self._options().catalog().runs)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The offset after the newest entry, or after one batch. Raises Failure."""
        begin = _Offset(**start)
        runs = self._options().catalog().runs
        end = _end(runs) if self._target is None else self._target
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        found = begin
        for run, first, last in _parts(runs, begin, end):
            upto = last if most is None else min(last, first + most)
            found = _Offset(run.name, upto)
            if most is not None:
                most -= upto - first
                if most <= 0:
                    break
        return found._asdict()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The entries between two offsets. Raises Failure."""
        options = self._options()
        runs = options.catalog().runs
        found: list[Stretch] = []
        reached: _Offset = _Offset(**start)
        for run, first, last in _parts(runs, reached, _Offset(**end)):
            _check_whole(options, run, first, last, reached)
            found += stretches(options, run, first, last)
            reached = _Offset(run.name, last)
        return [InputPartition(stretch) for stretch in found]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """One partition's rows. Raises Failure."""
        # If there is no partition, Spark reads a None.
        return iter(()) if partition.value is None else batches_of(self._options(), partition.value)


def _end(runs: Sequence[Run]) -> _Offset:
    return _Offset(runs[-1].name, runs[-1].end.entries)


def _parts(runs: Sequence[Run], start: _Offset, end: _Offset) -> Iterator[tuple[Run, int, int]]:
    """Each run between two offsets, with the numbers of entries before and at the end of its part."""
    if all(run.name != start.run for run in runs):
        raise Failure(
            f"the run {start.run}, where the stream stood, is not in the archive any more (--keep). Begin"
            " with a new checkpoint"
        )
    for run in runs:
        if start.run <= run.name <= end.run:
            first = start.entries if run.name == start.run else run.begin.entries
            last = end.entries if run.name == end.run else run.end.entries
            if last > first:
                yield run, first, last


def _check_whole(options: ArchiveOptions, run: Run, first: int, last: int, reached: _Offset) -> None:
    """Raises Failure if entries of a part are lost, unless the user accepts that."""
    lost = [(low, high) for low, high in run.holes if low < last and high > first]
    if run.segments and run.segments[0].first > first:  # deleted by --keep
        lost.append((first, run.segments[0].first))
    if run.name != reached.run and run.begin.entries > reached.entries:
        lost.append((reached.entries, run.begin.entries))
    if not lost:
        return
    text = ", ".join(f"{low + 1} to {high}" for low, high in lost)
    if not options.log.lossy:
        raise Failure(
            f"the entries {text} of the log are not in the archive (a gap; `archive list` shows it). Set"
            " failOnDataLoss=false to continue without them"
        )
    _log.warning("continuing without the entries %s, which are not in the archive", text)
