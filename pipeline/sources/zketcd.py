"""Spark's data source "zketcd": an etcd prefix as tables, and the guarded load of one.

Reading: option `table` is `znodes` (default) or `sessions`. What is read is one snapshot. If the tree's log
has gone on since the newest one, a snapshot is written first. `snapshot` names one that holds all that is
wanted (survey_option).
Writing: znodes only. mode("overwrite") deletes a tree that is there; `zxid` is the old server's last. The
tree is served only once all is written.
Both take the options of pipeline.etcd.options.Connection.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from pipeline.etcd import load
from pipeline.etcd import read as reading
from pipeline.etcd.limits import Limits
from pipeline.etcd.load import Load
from pipeline.etcd.options import Connection
from pipeline.etcd.publish import publish
from pipeline.etcd.read import Survey
from pipeline.etcd.settle import settled
from pipeline.etcd.writer import Part, write
from pipeline.table import SESSIONS, ZNODES, ZnodeRow
from schema.record import SnapshotRef

if TYPE_CHECKING:
    import pyarrow as pa

_TABLES = {"znodes": ZNODES, "sessions": SESSIONS}
_PARTITION = 50_000  # znodes: enough to be worth a task


class ZketcdSource(DataSource):
    """An etcd prefix."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.options = options

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "zketcd"

    def schema(self) -> StructType:
        """That of the table asked for. Raises ValueError for an unknown one."""
        table = self.options.get("table", "znodes")
        if table not in _TABLES:
            raise ValueError(f"the option table must be one of {', '.join(_TABLES)}, not {table!r}")
        return _TABLES[table]

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the whole prefix at one position."""
        size = _number(self.options, "partition-size", _PARTITION)
        if not size:
            raise ValueError("the option partition-size must be above 0")
        return ZketcdReader(
            Connection.from_options(self.options),
            self.options.get("table", "znodes"),
            size,
            survey_of(self.options["snapshot"]) if "snapshot" in self.options else None,
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Begin a load."""
        missing = set(ZnodeRow._fields) - set(schema.fieldNames())
        if missing:
            raise ValueError(f"no table of znodes: the columns {', '.join(sorted(missing))} are missing")
        connection = Connection.from_options(self.options)
        limits = Limits(
            _number(self.options, "max-txn-ops", Limits().max_txn_ops),
            _number(self.options, "max-request-bytes", Limits().max_request_bytes),
        )
        zxid = _zxid(self.options)
        load.first_zxid(zxid)  # refuses where there is none, before anything is deleted
        return ZketcdWriter(connection, limits, asyncio.run(_begin(connection, overwrite=overwrite)), zxid)


def survey_option(seen: Survey) -> str:
    """The option `snapshot` for a survey."""
    return json.dumps([seen.revision, list(seen.snapshot), seen.proxies])


def survey_of(option: str) -> Survey:
    """The reverse. Raises ValueError."""
    revision, snapshot, proxies = json.loads(option)
    return Survey(revision, SnapshotRef(*snapshot), proxies)


@dataclass
class Pages(InputPartition):
    """What one task reads."""

    seen: Survey
    first: int
    end: int


class ZketcdReader(DataSourceReader):
    """Reads the tables of a prefix."""

    def __init__(self, connection: Connection, table: str, size: int, seen: Survey | None) -> None:
        self._connection = connection
        self._table = table
        self._size = size
        self._seen = seen

    def partitions(self) -> list[InputPartition]:
        """Neighbouring pages of about equal numbers of znodes, all of one snapshot."""
        seen = self._seen or asyncio.run(self._settled())
        if self._table == "sessions":
            return [Pages(seen, 0, 0)]
        pages = seen.snapshot.node_pages
        step = max(1, self._size * pages // max(1, seen.snapshot.nodes))
        return [Pages(seen, first, min(first + step, pages)) for first in range(0, pages, step)]

    async def _settled(self) -> Survey:
        async with self._connection.client() as etcd:
            return await settled(etcd, self._connection.keys)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a partition."""
        assert isinstance(partition, Pages)
        with asyncio.Runner() as runner:
            if self._table == "sessions":
                yield from (tuple(session.row) for session in runner.run(self._sessions(partition.seen)))
                return
            pages = self._pages(partition)
            while (page := runner.run(_next(pages))) is not None:
                yield page

    async def _sessions(self, seen: Survey) -> list[reading.Session]:
        async with self._connection.client() as etcd:
            return await reading.sessions(etcd, self._connection.keys, seen)

    async def _pages(self, wanted: Pages) -> AsyncIterator["pa.RecordBatch"]:
        numbers = range(wanted.first, wanted.end)
        async with self._connection.client() as etcd:
            async for page in reading.pages(etcd, self._connection.keys, wanted.seen, numbers):
                yield page


@dataclass
class Written(WriterCommitMessage):
    """What one task has written."""

    part: Part


class ZketcdWriter(DataSourceArrowWriter):
    """Writes znodes under the fence of one load, and publishes them."""

    def __init__(self, connection: Connection, limits: Limits, begun: Load, zxid: int) -> None:
        self._connection = connection
        self._limits = limits
        self._begun = begun
        self._zxid = zxid

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Write the rows of one partition."""
        return Written(write_part(self._connection, self._begun, self._limits, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the tree."""
        parts = [message.part for message in messages if isinstance(message, Written)]
        asyncio.run(self._publish(parts))

    async def _publish(self, parts: list[Part]) -> None:
        async with self._connection.client() as etcd:
            keys = self._connection.keys
            zxid = load.first_zxid(max([self._zxid, *(part.max_zxid for part in parts)]))
            await publish(etcd, keys, self._begun, parts, zxid, (), self._limits)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave the target as it is: unserved, and free for another load."""


def write_part(
    connection: Connection, begun: Load, limits: Limits, batches: Iterator["pa.RecordBatch"]
) -> Part:
    """Write the rows of one task, on a worker."""

    async def all_rows() -> Part:
        async with connection.client() as etcd:
            return await write(etcd, connection.keys, begun, batches, limits)

    return asyncio.run(all_rows())


async def _begin(connection: Connection, *, overwrite: bool) -> Load:
    async with connection.client() as etcd:
        return await load.begin(etcd, connection.keys, overwrite=overwrite)


async def _next(pages: AsyncIterator["pa.RecordBatch"]) -> "pa.RecordBatch | None":
    return await anext(pages, None)


def _number(options: MutableMapping[str, str], name: str, default: int) -> int:
    text = options.get(name, str(default))
    if not text.isdigit():
        raise ValueError(f"the option {name} must be a whole number, not {text!r}")
    return int(text)


def _zxid(options: MutableMapping[str, str]) -> int:
    text = options.get("zxid", "0")
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"the option zxid must be a number, such as 0x500000000, not {text!r}") from None
