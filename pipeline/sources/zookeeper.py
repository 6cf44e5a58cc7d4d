"""The data source "zookeeper": a data directory of ZooKeeper as tables.

    spark.read.format("zookeeper").load("/var/lib/zookeeper")

Options, beside the directory (dataDir or its version-2):
table       znodes (default), sessions, transactions
dataLogDir  where the logs are, if elsewhere
snapshot    the name of the snapshot to start from, instead of the newest valid one
repair      damage to accept, separated by commas: tail, gap (pipeline.formats.directory)
splitBytes  how large a partition's run of a file is; 16 MiB

Directories must be readable under one path on the driver and the workers. What the bytes mean is known to
pipeline.formats.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, InputPartition
from pyspark.sql.types import StructType

from pipeline.formats import directory, log, transactions
from pipeline.formats.compression import opened
from pipeline.formats.directory import REPAIRS, Survey
from pipeline.formats.snapshot import SnapshotReader
from pipeline.sources.batches import NodeBatches, of_rows
from pipeline.sources.zookeeper_sink import ZooKeeperWriter
from pipeline.sources.zookeeper_sink import options_of as sink_options_of
from pipeline.table import SESSIONS, TRANSACTIONS, ZNODES, AclRow, TransactionRow, ZnodeRow

SPLIT_BYTES = 16 << 20
_TABLES = {"znodes": ZNODES, "sessions": SESSIONS, "transactions": TRANSACTIONS}
# Nodes that the logs touch travel in the plan; so many a partition.
_NODES = 4000


class Options(NamedTuple):
    """The options, understood."""

    path: str
    table: str
    log_path: str | None
    snapshot: str | None
    repair: frozenset[str]
    split_bytes: int

    def survey(self) -> Survey:
        """The directory's state. Raises BadFile."""
        return directory.survey(self.path, self.log_path, chosen=self.snapshot, repair=self.repair)


def options_of(given: MutableMapping[str, str]) -> Options:
    """Raises ValueError for what cannot be."""
    if "path" not in given:
        raise ValueError('the format "zookeeper" needs a directory: .load("/path")')
    table = given.get("table", "znodes")
    if table not in _TABLES:
        raise ValueError(f"there is no table {table}, but {', '.join(_TABLES)}")
    repair = frozenset(filter(None, given.get("repair", "").split(",")))
    if repair - REPAIRS:
        raise ValueError(f"repair is {', '.join(sorted(REPAIRS))}, not {', '.join(sorted(repair - REPAIRS))}")
    split_bytes = int(given.get("splitBytes", SPLIT_BYTES))
    if split_bytes <= 0:
        raise ValueError("splitBytes must be above 0")
    log_path = given.get("dataLogDir")
    return Options(
        local_path(given["path"]),
        table,
        None if log_path is None else local_path(log_path),
        given.get("snapshot"),
        repair,
        split_bytes,
    )


def local_path(path: str) -> str:
    """A path, or a file: URL, as an absolute path."""
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return str(Path(path).absolute())


class ZooKeeperSource(DataSource):
    """`spark.read.format("zookeeper")`; the options are this module's."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "zookeeper"

    def schema(self) -> StructType:
        """As table.py says."""
        return _TABLES[options_of(self.options).table]

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the table that the options name."""
        options = options_of(self.options)
        if options.table == "sessions":
            return _SessionReader(options)
        if options.table == "transactions":
            return _TransactionReader(options)
        return _ZnodeReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Writes a snapshot (zookeeper_sink)."""
        if "path" not in self.options:
            raise ValueError('the format "zookeeper" needs a directory: .save("/path")')
        folder = local_path(self.options["path"])
        return ZooKeeperWriter(sink_options_of(self.options, folder, overwrite), schema)


class _Run(InputPartition):
    """A run of a snapshot's records."""

    def __init__(self, file: str, run: directory.Run, acls: dict[int, tuple[AclRow, ...]]) -> None:
        self.file = file
        self.run = run
        self.acls = acls


class _Rows(InputPartition):
    """Nodes as the logs leave them."""

    def __init__(self, nodes: Sequence[ZnodeRow]) -> None:
        self.nodes = nodes


class _ZnodeReader(DataSourceReader):
    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Runs of the snapshot, and what the logs change."""
        found = self._options.survey()
        plan = directory.plan(found, self._options.split_bytes)
        return [
            *(_Run(found.snapshot, run, plan.acls) for run in plan.runs),
            *(_Rows(plan.nodes[start : start + _NODES]) for start in range(0, len(plan.nodes), _NODES)),
        ]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """One partition's nodes."""
        if isinstance(partition, _Rows):
            yield from of_rows(partition.nodes, ZNODES)
            return
        assert isinstance(partition, _Run)
        start, end, left_out = partition.run
        batches = NodeBatches(partition.file, partition.acls)
        with opened(partition.file) as source:
            # A compressed file has to be read from its start.
            reader = SnapshotReader(source, partition.file, 0 if end is None else start)
            if end is None:
                reader.head()
            while True:
                run = reader.nodes(end)
                if run.offsets:
                    yield batches.batch(run, left_out)
                if run.last or (end is not None and run.end >= end):
                    break


class _SessionReader(DataSourceReader):
    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """All in one."""
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """All sessions."""
        return of_rows(self._options.survey().sessions, SESSIONS)


class LogRun(InputPartition):
    """Entries of a log."""

    def __init__(self, file: str, start: int, end: int) -> None:
        self.file = file
        self.start = start
        self.end = end


class _TransactionReader(DataSourceReader):
    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Every log that there is, in runs."""
        _, logs = directory.files(self._options.path, self._options.log_path)
        runs: list[InputPartition] = []
        for file in logs:
            found = directory.read_log(file, last=file is logs[-1], repair=self._options.repair)
            with opened(file) as source:
                bounds = log.splits(source, log.HEADER_SIZE, self._options.split_bytes, found.end)
            runs += (LogRun(file, start, end) for start, end in pairwise(bounds))
        return runs

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """One run's transactions."""
        assert isinstance(partition, LogRun)
        return of_rows(log_rows(partition), TRANSACTIONS)


def log_rows(run: LogRun) -> Iterator[TransactionRow]:
    """The transactions of a run. Raises BadFile."""
    with opened(run.file) as source:
        for entry in log.entries(source, run.file, run.start, run.end):
            yield from transactions.rows(entry, run.file, Path(run.file).name)
