"""A tree in etcd, read and written in partitions."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa

from pipeline.batches import of_rows
from pipeline.etcd import columns, load
from pipeline.etcd import read as in_etcd
from pipeline.etcd.limits import Limits
from pipeline.etcd.load import Intent, Load
from pipeline.etcd.options import Connection
from pipeline.etcd.publish import publish
from pipeline.etcd.read import TreeAt
from pipeline.etcd.requests import read
from pipeline.etcd.room import Looks, Room
from pipeline.etcd.tree import tree_at
from pipeline.etcd.writer import Part, write
from pipeline.job import Meter, Runner
from pipeline.plain import plain
from pipeline.sources.selection import EVERYTHING, Selection
from pipeline.table import SESSIONS
from proxy.etcd.model import Get
from schema.zxids import epoch_begun_at

PARTITION = 50_000  # znodes: enough for a task


class Pages(NamedTuple):
    """Pages of the snapshot that one task reads."""

    first: int
    end: int


class ZketcdReader:
    """Reads the tables of a prefix, `znodes` or `sessions`, as of one revision."""

    def __init__(
        self, connection: Connection, seen: TreeAt | None, table: str = "znodes", size: int = PARTITION
    ) -> None:
        """`seen`: the tree, if it is known already; else `prepare` has to be called."""
        self._connection = connection
        self._known = seen
        self._table = table
        self._size = size

    def __getstate__(self) -> dict[str, Any]:
        """Without the pages of changed nodes, which workers get as partitions."""
        known = self._known
        if known is not None and known.changed is not None:
            known = known._replace(changed=known.changed._replace(pages=()))
        return {**self.__dict__, "_known": known}

    def prepare(self, runner: Runner) -> None:
        """Replay the log behind the newest snapshot. Raises NotReadable, EtcdError."""
        if self._known is None:
            connection = self._connection
            self._known = runner.once(
                "replay", "requests", None, lambda meter: asyncio.run(tree_as_of(connection, meter=meter))
            )

    @property
    def seen(self) -> TreeAt:
        """The tree."""
        assert self._known is not None, "prepare was not called"
        return self._known

    def partitions(self) -> list[Pages | bytes]:
        """Neighbouring pages with about equal numbers of znodes, and the pages of nodes changed since."""
        seen = self.seen
        if self._table == "sessions":
            return [Pages(0, 0)]
        found: list[Pages | bytes] = [] if seen.changed is None else list(seen.changed.pages)
        if seen.snapshot is not None:
            pages = seen.snapshot.node_pages
            step = max(1, self._size * pages // max(1, seen.snapshot.nodes))
            found += [Pages(first, min(first + step, pages)) for first in range(0, pages, step)]
        return found

    def read(self, partition: Pages | bytes, selection: Selection = EVERYTHING) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, of znodes without the pages that have no path of the selection."""
        if isinstance(partition, bytes):
            yield columns.decode(partition)
            return
        if self._table == "sessions":
            yield from of_rows([session.row for session in asyncio.run(self._sessions())], SESSIONS)
        else:
            yield from plain(self._pages(partition, selection))

    async def _sessions(self) -> list[in_etcd.Session]:
        async with self._connection.client() as etcd:
            return await in_etcd.sessions(etcd, self._connection.keys, self.seen)

    async def _pages(self, wanted: Pages, selection: Selection) -> AsyncGenerator[pa.RecordBatch]:
        numbers = range(wanted.first, wanted.end)
        async with self._connection.client() as etcd:
            async for page in in_etcd.pages(
                etcd, self._connection.keys, self.seen, numbers, selection.may_match
            ):
                yield page


async def revision_of(connection: Connection) -> int:
    """etcd's revision now. Raises EtcdError."""
    async with connection.client() as etcd:
        return (await read(etcd, Get(connection.keys.tree, keys_only=True))).revision


async def tree_as_of(connection: Connection, revision: int = 0, meter: Meter | None = None) -> TreeAt:
    """The tree as of a revision, or of now. Raises NotReadable, EtcdError."""
    async with connection.client() as etcd:
        return await tree_at(etcd, connection.keys, revision, None if meter is None else meter.add)


class ZketcdWriter:
    """Writes znodes under the fence of one load, which its first task begins, and publishes them."""

    def __init__(
        self, connection: Connection, limits: Limits, intent: Intent, zxid: int, room: Room | None
    ) -> None:
        """`room`: etcd's before the load."""
        self._connection = connection
        self._limits = limits
        self._intent = intent
        self._zxid = zxid
        self._room = room

    def write(self, batches: Iterator[pa.RecordBatch]) -> Part:
        """Write the rows of one partition. Raises LoadRefused, EtcdError."""
        first = next(batches, None)  # if the rows cannot be made, the existing tree must stay
        rows = chain([] if first is None else [first], batches)
        return write_part(self._connection, asyncio.run(self._begin()), self._limits, rows, self._room)

    def commit(self, parts: Sequence[Part]) -> None:
        """Publish the tree. Raises LoadRefused, EtcdError."""
        asyncio.run(self._publish(parts))

    async def _begin(self) -> Load:
        async with self._connection.client() as etcd:
            return await load.begin(etcd, self._connection.keys, intent=self._intent)

    async def _publish(self, parts: Sequence[Part]) -> None:
        keys = self._connection.keys
        begun = await self._begin()
        async with self._connection.client() as etcd:
            await load.clear(etcd, keys, begun)  # the task that began may have died before all was cleared
            last = max([self._zxid, begun.zxid, *(part.max_zxid for part in parts)])
            zxid = epoch_begun_at(time.time(), last)
            await publish(etcd, keys, begun, parts, zxid, (), self._limits)

    def abort(self) -> None:
        """Leave the target as it is: not served, and free for another load."""


def write_part(
    connection: Connection, begun: Load, limits: Limits, batches: Iterator[pa.RecordBatch], room: Room | None
) -> Part:
    """Write the rows of one task, on a worker. `room`: etcd's before the load."""

    async def all_rows() -> Part:
        async with connection.client() as etcd:
            return await write(etcd, connection.keys, begun, batches, limits, Looks(etcd, room))

    return asyncio.run(all_rows())


async def intend(connection: Connection, *, overwrite: bool) -> Intent:
    """Plan a load of the prefix. Raises LoadRefused, EtcdError."""
    async with connection.client() as etcd:
        return await load.intend(etcd, connection.keys, overwrite=overwrite)
