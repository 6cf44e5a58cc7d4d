"""Spark's data source "zketcd": an etcd prefix as tables, and the guarded load of one.

Reading: option `table` is `znodes` (default), `sessions`, or `traffic` or `changes`: the log, also as a
stream (zketcd_log.py). A DataFrame of znodes or sessions is the tree at the position of its `load()`, in all
scans of all actions. `subtree`: only rows of this path and those below it. Reading writes nothing: the log
after the newest snapshot is replayed in memory.
Writing: znodes only. mode("overwrite") deletes an existing tree; `zxid` is the old server's last. The tree is
served only after all is written.
Both take the options of pipeline.etcd.options.Connection.
"""

import asyncio
from collections.abc import Iterator, MutableMapping

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from pipeline.etcd.limits import Limits
from pipeline.etcd.options import Connection
from pipeline.etcd.room import room_of
from pipeline.sources.log_options import number
from pipeline.sources.spark import SparkReader, SparkWriter, struct_of
from pipeline.sources.zketcd_log import SCHEMAS, TrafficOptions, TrafficReader
from pipeline.sources.zketcd_stream import TrafficStream
from pipeline.sources.zketcd_tree import (
    PARTITION,
    Pages,
    ZketcdReader,
    ZketcdWriter,
    intend,
    revision_of,
    tree_as_of,
)
from pipeline.table import SESSIONS, ZNODES, ZnodeRow
from schema.paths import ROOT
from schema.zxids import next_epoch

_TABLES = {"znodes": ZNODES, "sessions": SESSIONS, **SCHEMAS}


class ZketcdSource(DataSource):
    """An etcd prefix."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.options = options
        self._revision = 0  # of load(); 0 if the user has given the schema

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "zketcd"

    def schema(self) -> StructType:
        """The schema of the requested table. Raises ValueError for an unknown one."""
        table = self.options.get("table", "znodes")
        if table not in _TABLES:
            raise ValueError(f"the option table must be one of {', '.join(_TABLES)}, not {table!r}")
        if table not in SCHEMAS and not self._revision:
            # Spark keeps this object with the DataFrame, and plans each scan of it with a copy.
            self._revision = asyncio.run(revision_of(Connection.from_options(self.options)))
        return struct_of(_TABLES[table])

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the whole prefix at one position, or of the log."""
        subtree = self.options.get("subtree", ROOT)
        if (log := SCHEMAS.get(self.options.get("table", ""))) is not None:
            options = TrafficOptions.of(self.options, results=True)
            return SparkReader(TrafficReader(options), log, schema, subtree)
        size = number(self.options, "partition-size", PARTITION)
        if not size:
            raise ValueError("the option partition-size must be above 0")
        table = self.options.get("table", "znodes")
        connection = Connection.from_options(self.options)
        # Here and not in partitions(), whose results are not sent to the workers.
        seen = asyncio.run(tree_as_of(connection, self._revision))
        return _TreeReader(ZketcdReader(connection, seen, table, size), _TABLES[table], schema, subtree)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Follows the log."""
        return TrafficStream(self.options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Plan a load, which the first task begins. Raises ValueError, LoadRefused, EtcdError."""
        missing = set(ZnodeRow._fields) - set(schema.fieldNames())
        if missing:
            raise ValueError(f"no table of znodes: the columns {', '.join(sorted(missing))} are missing")
        connection = Connection.from_options(self.options)
        limits = Limits(
            number(self.options, "max-txn-ops", Limits().max_txn_ops),
            number(self.options, "max-request-bytes", Limits().max_request_bytes),
        )
        zxid = _zxid(self.options)
        next_epoch(zxid)  # raises if there is none, before anything is deleted
        intent = asyncio.run(intend(connection, overwrite=overwrite))
        return SparkWriter(ZketcdWriter(connection, limits, intent, zxid, asyncio.run(room_of(connection))))


class _TreeReader(SparkReader):
    plain: ZketcdReader

    def batches(self, partition: Pages | bytes) -> Iterator[pa.RecordBatch]:
        """The batches without the pages that have no wanted path, which are not decoded."""
        return self.plain.read(partition, self.selection)


def _zxid(options: MutableMapping[str, str]) -> int:
    text = options.get("zxid", "0")
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"the option zxid must be a number, such as 0x500000000, not {text!r}") from None
