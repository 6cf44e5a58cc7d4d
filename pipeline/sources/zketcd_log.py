"""The log of a tree in etcd as a table, and as a stream: option `table` = `traffic`, or `changes` of znodes.

    spark.read.format("zketcd").option("table", "traffic").option("etcd", "http://etcd-1:2379").load()
    spark.readStream. ... the same

Options:
results              true: replay the log from the snapshot before it, for zxid, result, paths as made and
                     growth; one task. false: rows say what the requests say; many tasks. By default true
                     for a table, false for a stream. Changes are always replayed
startingOffsets      earliest (default) or latest: where a new stream begins
failOnDataLoss       true (default): end with an error if entries were truncated before the stream read them
maxEntriesPerTrigger entries of the log in one batch of a stream; default: all there are
entriesPerPartition  entries of the log in one task, 2000

A stream's offset is a mark of pipeline.etcd.log: the same two offsets always give the same rows.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow

from pipeline.batches import of_rows
from pipeline.etcd import log as etcd_log
from pipeline.etcd.log import Mark, Share
from pipeline.etcd.options import Connection
from pipeline.etcd.replayed import KeptState, replay, replayed
from pipeline.plain import plain
from pipeline.sources.log_options import LogOptions
from pipeline.table import schema_of
from pipeline.traffic.arrow import TRAFFIC, batches
from pipeline.traffic.changes import ChangeRecorder, ChangeRow
from pipeline.traffic.requests import row
from pipeline.traffic.table import TrafficRow
from proxy.log.load.replay import Execute, Place
from schema.entry import decode_entry

TABLE = "traffic"
CHANGES = "changes"
SCHEMAS = {TABLE: TRAFFIC, CHANGES: schema_of(ChangeRow)}
_ENTRIES = 2000


class TrafficOptions(NamedTuple):
    """The parsed options."""

    connection: Connection
    log: LogOptions
    table: str

    @classmethod
    def of(cls, given: Mapping[str, str], *, results: bool) -> "TrafficOptions":
        """Parse the options. `results`: the default of that option. Raises ValueError for invalid ones."""
        table = given.get("table", TABLE)
        log = LogOptions.of(given, "entriesPerPartition", _ENTRIES, results=results or table == CHANGES)
        if table == CHANGES and not log.results:
            raise ValueError("table=changes replays the log: it needs results=true")
        return cls(Connection.from_options(given), log, table)


class Sent(NamedTuple):
    """Entries whose rows show the requests as they were sent."""

    shares: Sequence[Share]


class Applied(NamedTuple):
    """Entries whose rows show the requests with their outcomes."""

    start: Mark
    end: Mark


Partition = Sent | Applied


class TrafficReader:
    """Reads the whole log."""

    def __init__(self, options: TrafficOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[Partition]:
        """Raises NotReadable, EtcdError."""
        return partitions_of(self._options, *asyncio.run(self._range()))

    async def _range(self) -> tuple[Mark, Mark]:
        async with self._options.connection.client() as etcd:
            return await etcd_log.whole(etcd, self._options.connection.keys)

    def read(self, partition: Partition) -> Iterator[pyarrow.RecordBatch]:
        """One partition's rows. Raises DataLost, TreeNotServable, BadValue, EtcdError."""
        return batches_of(self._options, partition)


def partitions_of(options: TrafficOptions, start: Mark, end: Mark) -> list[Partition]:
    """The entries between two marks."""
    shares = etcd_log.between(start, end, options.log.share)
    if options.log.results:
        return [Applied(start, end)] if shares else []
    return [Sent(share) for share in shares]


def batches_of(
    options: TrafficOptions, partition: Partition, kept: KeptState | None = None
) -> Iterator[pyarrow.RecordBatch]:
    """One partition's rows; a replay continues from `kept` if possible.

    Raises DataLost, NotReadable, BadValue, EtcdError.
    """
    if isinstance(partition, Applied):
        yield from of_rows(asyncio.run(_applied(options, partition, kept)), SCHEMAS[options.table])
    else:
        for rows in plain(_sent(options, partition.shares)):
            yield from batches(rows)


async def _sent(options: TrafficOptions, shares: Sequence[Share]) -> AsyncGenerator[list[TrafficRow]]:
    """The rows of each entry."""
    async with options.connection.client() as etcd:
        for share in shares:
            found = etcd_log.entries(etcd, options.connection.keys, share, lossy=options.log.lossy)
            async for number, pair in found:
                entry = decode_entry(pair.value)
                yield [
                    row(entry, request, Place(pair.mod_revision, share.incarnation, number, index))
                    for index, request in enumerate(entry.requests)
                ]


async def _applied(
    options: TrafficOptions, wanted: Applied, kept: KeptState | None
) -> Sequence[TrafficRow] | Sequence[ChangeRow]:
    async with options.connection.client() as etcd:
        keys = options.connection.keys
        if options.table == CHANGES:
            rows: list[ChangeRow] = []

            def again() -> Execute:
                rows.clear()
                return ChangeRecorder(wanted.start.applied, rows).execute

            await replay(etcd, keys, wanted.start, wanted.end, again, lossy=options.log.lossy, kept=kept)
            return rows
        return await replayed(etcd, keys, wanted.start, wanted.end, lossy=options.log.lossy, kept=kept)
