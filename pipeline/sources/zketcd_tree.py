"""A tree in etcd, read and written in partitions."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from pipeline.etcd import load
from pipeline.etcd import read as reading
from pipeline.etcd.limits import Limits
from pipeline.etcd.load import Load
from pipeline.etcd.options import Connection
from pipeline.etcd.publish import publish
from pipeline.etcd.read import Survey
from pipeline.etcd.settle import settled
from pipeline.etcd.writer import Part, write
from pipeline.sources.batches import of_rows
from pipeline.table import SESSIONS

PARTITION = 50_000  # znodes: enough to be worth a task


class Pages(NamedTuple):
    """What one task reads."""

    seen: Survey
    first: int
    end: int


class ZketcdReader:
    """Reads the tables of a prefix: `znodes` or `sessions`, all of one snapshot."""

    def __init__(
        self,
        connection: Connection,
        table: str = "znodes",
        size: int = PARTITION,
        seen: Survey | None = None,
    ) -> None:
        self._connection = connection
        self._table = table
        self._size = size
        self._seen = seen

    def partitions(self) -> list[Pages]:
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

    def read(self, partition: Pages) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        with asyncio.Runner() as runner:
            if self._table == "sessions":
                rows = [session.row for session in runner.run(self._sessions(partition.seen))]
                yield from of_rows(rows, SESSIONS)
                return
            pages = self._pages(partition)
            while (page := runner.run(_next(pages))) is not None:
                yield page

    async def _sessions(self, seen: Survey) -> list[reading.Session]:
        async with self._connection.client() as etcd:
            return await reading.sessions(etcd, self._connection.keys, seen)

    async def _pages(self, wanted: Pages) -> AsyncIterator[pa.RecordBatch]:
        numbers = range(wanted.first, wanted.end)
        async with self._connection.client() as etcd:
            async for page in reading.pages(etcd, self._connection.keys, wanted.seen, numbers):
                yield page


class ZketcdWriter:
    """Writes znodes under the fence of one load, and publishes them."""

    def __init__(self, connection: Connection, limits: Limits, begun: Load, zxid: int) -> None:
        self._connection = connection
        self._limits = limits
        self._begun = begun
        self._zxid = zxid

    def write(self, batches: Iterator[pa.RecordBatch]) -> Part:
        """Write the rows of one partition."""
        return write_part(self._connection, self._begun, self._limits, batches)

    def commit(self, parts: Sequence[Part]) -> None:
        """Publish the tree."""
        asyncio.run(self._publish(parts))

    async def _publish(self, parts: Sequence[Part]) -> None:
        async with self._connection.client() as etcd:
            keys = self._connection.keys
            zxid = load.first_zxid(max([self._zxid, self._begun.zxid, *(part.max_zxid for part in parts)]))
            await publish(etcd, keys, self._begun, parts, zxid, (), self._limits)

    def abort(self) -> None:
        """Leave the target as it is: unserved, and free for another load."""


def write_part(
    connection: Connection, begun: Load, limits: Limits, batches: Iterator[pa.RecordBatch]
) -> Part:
    """Write the rows of one task, on a worker."""

    async def all_rows() -> Part:
        async with connection.client() as etcd:
            return await write(etcd, connection.keys, begun, batches, limits)

    return asyncio.run(all_rows())


async def begin(connection: Connection, *, overwrite: bool) -> Load:
    """Take the prefix for a load. Raises LoadRefused, EtcdError."""
    async with connection.client() as etcd:
        return await load.begin(etcd, connection.keys, overwrite=overwrite)


async def _next(pages: AsyncIterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return await anext(pages, None)
