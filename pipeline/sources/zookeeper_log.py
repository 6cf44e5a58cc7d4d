"""ZooKeeper's log as a table of transactions or of traffic; zookeeper_stream has it as a stream."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow

from pipeline.batches import of_rows
from pipeline.formats import directory, log, transactions
from pipeline.formats.compression import opened
from pipeline.sources.options import TRAFFIC_TABLE, Options
from pipeline.table import TRANSACTIONS, TransactionRow
from pipeline.traffic.arrow import batches as traffic_batches
from pipeline.traffic.table import TrafficRow
from pipeline.traffic.transactions import row as traffic_row


class LogRun(NamedTuple):
    """Entries of a log."""

    file: str
    start: int
    end: int


def log_rows(run: LogRun) -> Iterator[TransactionRow]:
    """The transactions of a run. Raises BadFile."""
    with opened(run.file) as source:
        for entry in log.entries(source, run.file, run.start, run.end):
            yield from transactions.rows(entry, run.file, Path(run.file).name)


def traffic_rows(run: LogRun) -> Iterator[TrafficRow]:
    """The requests of a run. Raises BadFile."""
    with opened(run.file) as source:
        for entry in log.entries(source, run.file, run.start, run.end):
            parts = list(transactions.rows(entry, run.file, Path(run.file).name))
            yield traffic_row(parts, len(entry.body))


def batches_of(run: LogRun, table: str) -> Iterator[pyarrow.RecordBatch]:
    """A run as one of LOG_TABLES. Raises BadFile."""
    if table == TRAFFIC_TABLE:
        return traffic_batches(traffic_rows(run))
    return of_rows(log_rows(run), TRANSACTIONS)


class LogReader:
    """Reads all existing logs."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[LogRun]:
        """Runs of the logs. Raises BadFile."""
        _, logs = directory.files(self._options.path, self._options.log_path)
        runs: list[LogRun] = []
        for file in logs:
            found = directory.read_log(file, last=file is logs[-1], repair=self._options.repair)
            runs += runs_of(file, log.HEADER_SIZE, found.end, self._options.split_bytes)
        return runs

    def read(self, partition: LogRun) -> Iterator[pyarrow.RecordBatch]:
        """One run's transactions. Raises BadFile."""
        return batches_of(partition, self._options.table)


def runs_of(file: str, start: int, end: int, step: int) -> list[LogRun]:
    """Runs of about `step` bytes between two bytes of a log."""
    with opened(file) as source:
        bounds = log.splits(source, start, step, end)
    return [LogRun(file, first, last) for first, last in pairwise(bounds)]
