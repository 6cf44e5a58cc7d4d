"""The data source "zookeeper": a data directory of ZooKeeper as tables.

    spark.read.format("zookeeper").load("/var/lib/zookeeper")

Options, besides the directory (dataDir or its version-2):
table       znodes (default), sessions, transactions, traffic (pipeline.traffic)
dataLogDir  where the logs are, if elsewhere
snapshot    the name of the snapshot to start from, instead of the newest valid one
repair      damage to accept, separated by commas: tail, gap (pipeline.formats.directory)
splitBytes  how large a partition's run of a file is; 16 MiB
subtree     only rows of this path and those below it
maxBytesPerTrigger  of streams: bytes of the logs in one batch, at least one entry; all that there are

Instead of a directory, zk://host:port,... is a running ensemble (zookeeper_wire). To write: zookeeper_sink.

Directories must be readable under one path on the driver and the workers. pipeline.formats decodes the files.
"""

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceWriter
from pyspark.sql.types import StructType

from pipeline.addresses import is_ensemble
from pipeline.job import Reader
from pipeline.sources.options import LOG_TABLES, TABLES, local_path, options_of
from pipeline.sources.spark import SparkReader, SparkWriter, struct_of
from pipeline.sources.zookeeper_files import SessionReader, ZnodeReader
from pipeline.sources.zookeeper_log import LogReader
from pipeline.sources.zookeeper_sink import ZooKeeperWriter
from pipeline.sources.zookeeper_sink import options_of as sink_options_of
from pipeline.sources.zookeeper_stream import LogStream
from pipeline.sources.zookeeper_wire import WireReader, ensemble_of
from pipeline.table import ZNODES
from schema.paths import ROOT


class ZooKeeperSource(DataSource):
    """`spark.read.format("zookeeper")`; the options are this module's."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "zookeeper"

    def schema(self) -> StructType:
        """The schema of the table that the options name. Raises ValueError for an unknown one."""
        if is_ensemble(self.options.get("path", "")):
            ensemble_of(self.options)
            if self.options.get("table", "znodes") != "znodes":
                raise ValueError("a running ensemble tells its znodes only")
            return struct_of(ZNODES)
        return struct_of(TABLES[options_of(self.options).table])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the table that the options name."""
        subtree = self.options.get("subtree", ROOT)
        if is_ensemble(self.options.get("path", "")):
            return SparkReader(WireReader(ensemble_of(self.options)), ZNODES, schema, subtree)
        options = options_of(self.options)
        reader: Reader
        if options.table == "sessions":
            reader = SessionReader(options)
        elif options.table in LOG_TABLES:
            reader = LogReader(options)
        else:
            reader = ZnodeReader(options)
        return SparkReader(reader, TABLES[options.table], schema, subtree)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Follows the log."""
        return LogStream(options_of(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Writes a snapshot (zookeeper_sink)."""
        if "path" not in self.options:
            raise ValueError('the format "zookeeper" needs a directory: .save("/path")')
        folder = local_path(self.options["path"])
        options = sink_options_of(self.options, folder, overwrite)
        return SparkWriter(ZooKeeperWriter(options, schema.fieldNames()))
