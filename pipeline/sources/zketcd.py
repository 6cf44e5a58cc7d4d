"""Spark's data source "zketcd": an etcd prefix as tables, and a guarded load into one.

Reading: option `table` is `znodes` (default) or `sessions`; `revision` fixes the state (default: now).
Writing: znodes only. mode("overwrite") lets a tree that is there go; `zxid` is the old server's last. The
tree is served only once all is written. With `load` (a fence's revision) the caller begins and finishes the
load. Both: the options of pipeline.etcd.options.Connection.
"""

import asyncio
from collections.abc import Iterator, MutableMapping
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

from pipeline.batches import ROWS, batch_of, rows_of
from pipeline.etcd import load, ranges
from pipeline.etcd import read as reading
from pipeline.etcd.limits import Limits
from pipeline.etcd.options import Connection
from pipeline.etcd.records import puts_of
from pipeline.table import SESSIONS, ZNODES, ZnodeRow
from proxy.etcd.model import Put

if TYPE_CHECKING:
    import pyarrow as pa

_TABLES = {"znodes": ZNODES, "sessions": SESSIONS}
_PARTITION = 50_000  # znodes: enough to be worth a task, and etcd finds a page of them at once


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
        """A reader of the whole prefix at one revision."""
        connection = Connection.from_options(self.options)
        size = _number(self.options, "partition-size", _PARTITION)
        if not size:
            raise ValueError("the option partition-size must be above 0")
        return ZketcdReader(
            connection,
            self.options.get("table", "znodes"),
            _number(self.options, "revision", 0),
            size,
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Begin a load, or take part in the one that the caller has begun."""
        missing = set(ZnodeRow._fields) - set(schema.fieldNames())
        if missing:
            raise ValueError(f"no table of znodes: the columns {', '.join(sorted(missing))} are missing")
        connection = Connection.from_options(self.options)
        limits = Limits(
            _number(self.options, "max-txn-ops", Limits().max_txn_ops),
            _number(self.options, "max-request-bytes", Limits().max_request_bytes),
        )
        zxid = _zxid(self.options)
        joined = _number(self.options, "load", 0)
        if joined:
            fence = load.Fence(joined, 0)
        else:
            load.first_zxid(zxid)  # refuses where there is none, before anything is let go
            fence = asyncio.run(_begin(connection, overwrite=overwrite))
        return ZketcdWriter(connection, limits, fence, zxid, publishes=not joined)


@dataclass
class Pieces(InputPartition):
    """What one task reads."""

    seen: reading.Survey
    pieces: list[ranges.Piece]
    with_root: bool


class ZketcdReader(DataSourceReader):
    """Reads the tables of a prefix."""

    def __init__(self, connection: Connection, table: str, revision: int, size: int) -> None:
        self._connection = connection
        self._table = table
        self._revision = revision
        self._size = size

    def partitions(self) -> list[InputPartition]:
        """Key ranges of about equal numbers of znodes, all at one revision."""
        seen, pieces = asyncio.run(self._plan())
        groups = ranges.group(pieces, self._size) or [[]]
        return [Pieces(seen, some, with_root=index == 0) for index, some in enumerate(groups)]

    async def _plan(self) -> tuple[reading.Survey, list[ranges.Piece]]:
        keys = self._connection.keys
        async with self._connection.client() as etcd:
            seen = await reading.survey(etcd, keys, self._revision)
            if self._table == "sessions":
                return seen, []
            return seen, await ranges.plan(etcd, keys, seen.revision, self._size)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a partition."""
        assert isinstance(partition, Pieces)
        with asyncio.Runner() as runner:
            if self._table == "sessions":
                yield from (tuple(session.row) for session in runner.run(self._sessions(partition.seen)))
                return
            pages = self._pages(partition)
            while (page := runner.run(_next(pages))) is not None:
                for first in range(0, len(page), ROWS):
                    yield batch_of(page[first : first + ROWS])

    async def _sessions(self, seen: reading.Survey) -> list[reading.Session]:
        async with self._connection.client() as etcd:
            return await reading.sessions(etcd, self._connection.keys, seen.revision)

    async def _pages(self, partition: Pieces) -> Any:
        keys = self._connection.keys
        async with self._connection.client() as etcd:
            if partition.with_root:
                yield [await reading.root(etcd, keys, partition.seen)]
            for piece in partition.pieces:
                async for page in reading.rows(etcd, keys, partition.seen, piece):
                    yield page


@dataclass
class Written(WriterCommitMessage):
    """What one task has written."""

    nodes: int
    max_zxid: int


class ZketcdWriter(DataSourceArrowWriter):
    """Writes znodes under the fence of one load."""

    def __init__(
        self, connection: Connection, limits: Limits, fence: load.Fence, zxid: int, *, publishes: bool
    ) -> None:
        self._connection = connection
        self._limits = limits
        self._fence = fence
        self._zxid = zxid
        self._publishes = publishes

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Write the rows of one partition; a task that is run again writes the same once more."""
        return asyncio.run(self._write(iterator))

    async def _write(self, batches: Iterator["pa.RecordBatch"]) -> Written:
        written = Written(0, 0)
        keys = self._connection.keys

        def puts() -> Iterator[Put]:
            for batch in batches:
                for row in rows_of(batch):
                    written.nodes += 1
                    written.max_zxid = max(written.max_zxid, row.czxid, row.mzxid, row.pzxid)
                    yield from puts_of(keys, row)

        async with self._connection.client() as etcd:
            await load.write(etcd, keys, self._fence, puts(), self._limits)
        return written

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the tree, if this is the whole load."""
        if self._publishes:
            asyncio.run(self._finish([message for message in messages if isinstance(message, Written)]))

    async def _finish(self, parts: list[Written]) -> None:
        keys = self._connection.keys
        async with self._connection.client() as etcd:
            await load.check_count(etcd, keys, sum(part.nodes for part in parts))
            await load.finish(etcd, keys, self._fence, max([self._zxid, *(part.max_zxid for part in parts)]))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave the target as it is: unserved, and free for another load."""


async def _begin(connection: Connection, *, overwrite: bool) -> load.Fence:
    async with connection.client() as etcd:
        return await load.begin(etcd, connection.keys, overwrite=overwrite)


async def _next(pages: Any) -> list[ZnodeRow] | None:
    page: list[ZnodeRow] | None = await anext(pages, None)
    return page


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
