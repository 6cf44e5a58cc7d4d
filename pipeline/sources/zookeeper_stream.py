"""The log as a stream: `spark.readStream.format("zookeeper")`.

A stream's offset is a log's name and a byte. It begins with the oldest existing log; a log that a server is
still writing is read up to its last complete entry. If a server has purged logs before they were read, the
stream ends with an error, since their entries are lost. The option maxBytesPerTrigger limits a batch, and so
the bytes that the driver walks over; the workers compare the checksums.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from pipeline.formats import directory, log
from pipeline.formats.compression import opened
from pipeline.formats.errors import BadFile
from pipeline.sources.options import LOG_TABLES, Options
from pipeline.sources.zookeeper_log import batches_of, runs_of


class LogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The log as it grows."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._target: dict[str, Any] | None = None  # the last offset of a query with Trigger.AvailableNow

    def initialOffset(self) -> dict[str, Any]:
        """The offset before the oldest log. Raises ValueError for another table: only a log is a stream."""
        # Not in the constructor: Spark 4 loses errors that are raised there.
        if self._options.table not in LOG_TABLES:
            raise ValueError(f"only table={' and table='.join(LOG_TABLES)} can be read as a stream")
        return {"log": "", "byte": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Bytes of the logs in one batch."""
        most = self._options.most_bytes
        return ReadAllAvailable() if most is None else ReadMaxBytes(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read up to the current end of the log, also if a batch has to be repeated first. Raises BadFile."""
        self._target = self._newest(self.initialOffset())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit | None) -> dict[str, Any]:
        """The offset after the last complete entry, or after one batch. Raises BadFile."""
        if isinstance(limit, ReadMaxBytes):
            found = self._after(start, limit.max_bytes)
            return found if self._target is None else min(found, self._target, key=_place)
        return self._newest(start) if self._target is None else max(start, self._target, key=_place)

    def _newest(self, start: dict[str, Any]) -> dict[str, Any]:
        files = self._files(start)
        if not files:
            return start
        newest = files[-1]
        end = _end(newest, start, last=True)
        if end is None:  # just created, without its header yet
            if len(files) == 1:
                return start
            newest = files[-2]
            end = _end(newest, start, last=False)
        return {"log": Path(newest).name, "byte": end}

    def _after(self, start: dict[str, Any], most: int) -> dict[str, Any]:
        """The offset after the entry with which a batch from `start` reaches `most` bytes, or the last."""
        offset = start
        files = self._files(start)
        for file in files:
            begin = _begin(file, offset)
            end = _end(file, offset, last=file is files[-1], most=most)
            if end is None:
                break
            offset = {"log": Path(file).name, "byte": end}
            most -= end - begin
            if most <= 0:
                break
        return offset

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Runs of the logs between two offsets. Raises BadFile."""
        runs: list[InputPartition] = []
        for file in self._files(start):
            name = Path(file).name
            first = _begin(file, start)
            last = end["byte"] if name == end["log"] else _end(file, start, last=False)
            if last is not None and last > first:
                runs += map(InputPartition, runs_of(file, first, last, self._options.split_bytes))
            if name == end["log"]:
                break
        return runs

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """One run's transactions. Raises BadFile."""
        # If there is no partition, Spark reads a None.
        return iter(()) if partition.value is None else batches_of(partition.value, self._options.table)

    def _files(self, start: dict[str, Any]) -> list[str]:
        """The logs from an offset on."""
        _, logs = directory.files(self._options.path, self._options.log_path)
        if not start["log"]:
            return logs
        for position, file in enumerate(logs):
            if Path(file).name == start["log"]:
                return logs[position:]
        raise BadFile(self._options.path, None, f"{start['log']}, where the stream stood, is gone")


def _place(offset: dict[str, Any]) -> tuple[int, int]:
    """The sort key of offsets: the log's first zxid, -1 before all logs, and the byte."""
    zxid = log.zxid_of(offset["log"])
    return -1 if zxid is None else zxid, offset["byte"]


def _begin(file: str, start: dict[str, Any]) -> int:
    """The first byte of a log that is after an offset."""
    at: int = start["byte"] if Path(file).name == start["log"] else log.HEADER_SIZE
    return at


def _end(file: str, start: dict[str, Any], last: bool, most: int | None = None) -> int | None:
    """The byte after the last complete entry, or after `most` bytes; None for a log without a header.

    Raises BadFile for damage in an older log. In the last log the server may still be writing.
    """
    if Path(file).stat().st_size < log.HEADER_SIZE:
        return None
    at = _begin(file, start)
    with opened(file) as source:
        log.check_header(source, file)
        if last:
            with contextlib.suppress(log.BadSum):
                for entry in log.entries(source, file, at):
                    at = entry.offset + log.entry_size(entry.body)
                    if most is not None and at - _begin(file, start) >= most:
                        break
            return at
        how = log.end_of(source, at, most)
        if how.torn is not None and most is None:
            raise BadFile(file, how.offset, how.torn)
        return how.offset
