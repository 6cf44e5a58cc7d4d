"""The data source "zookeeper": a data directory of ZooKeeper as tables.

    spark.read.format("zookeeper").load("/var/lib/zookeeper")

Options, beside the directory (dataDir or its version-2):
table       znodes (default), sessions, transactions
dataLogDir  where the logs are, if elsewhere
snapshot    the name of the snapshot to start from, instead of the newest valid one
repair      damage to accept, separated by commas: tail, gap (pipeline.formats.directory)
splitBytes  how large a partition's run of a file is; 16 MiB

Instead of a directory, zk://host:port,... is a running ensemble (zookeeper_wire). To write: zookeeper_sink.

Directories must be readable under one path on the driver and the workers. What the bytes mean is known to
pipeline.formats.
"""

from collections.abc import Iterator, Sequence

import pyarrow
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from pipeline.formats import directory
from pipeline.formats.compression import opened
from pipeline.formats.snapshot import SnapshotReader
from pipeline.sources.batches import NodeBatches, of_rows
from pipeline.sources.options import TABLES, Options, local_path, options_of
from pipeline.sources.zookeeper_log import LogReader, LogStream
from pipeline.sources.zookeeper_sink import ZooKeeperWriter
from pipeline.sources.zookeeper_sink import options_of as sink_options_of
from pipeline.sources.zookeeper_wire import WireReader, ensemble_of, is_url
from pipeline.table import SESSIONS, ZNODES, AclRow, ZnodeRow

# Nodes that the logs touch travel in the plan; so many a partition.
_NODES = 4000


class ZooKeeperSource(DataSource):
    """`spark.read.format("zookeeper")`; the options are this module's."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "zookeeper"

    def schema(self) -> StructType:
        """As table.py says."""
        if is_url(self.options.get("path", "")):
            ensemble_of(self.options)
            if self.options.get("table", "znodes") != "znodes":
                raise ValueError("a running ensemble tells its znodes only")
            return ZNODES
        return TABLES[options_of(self.options).table]

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the table that the options name."""
        if is_url(self.options.get("path", "")):
            return WireReader(ensemble_of(self.options))
        options = options_of(self.options)
        if options.table == "sessions":
            return _SessionReader(options)
        if options.table == "transactions":
            return LogReader(options)
        return _ZnodeReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Follows the log."""
        return LogStream(options_of(self.options))

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
