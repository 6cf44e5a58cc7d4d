"""zketcd's log as a stream: `spark.readStream.format("zketcd").option("table", "traffic")`, or `changes`.

The options are those of zketcd_log.py. A stream's offset is a mark of pipeline.etcd.log: the same two offsets
always give the same rows, so a query that starts again from its checkpoint gives each row once.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pipeline.etcd import log as etcd_log
from pipeline.etcd.log import DataLost, Mark
from pipeline.etcd.replayed import KeptState
from pipeline.etcd.requests import until_known_or_full
from pipeline.sources.log_options import EARLIEST
from pipeline.sources.zketcd_log import SCHEMAS, TrafficOptions, batches_of, partitions_of

_log = logging.getLogger(__name__)
# Spark gives the batches of a stream to the same few Python workers, as long as these are busy once a minute.
_kept = KeptState()


class TrafficStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The log as it grows."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)
        self._target: int | None = None  # the entry up to which a query with Trigger.AvailableNow reads

    def _options(self) -> TrafficOptions:
        # Not in the constructor: Spark 4 loses errors that are raised there.
        if self._given.get("table") not in SCHEMAS:
            raise ValueError(f"only table={' and table='.join(SCHEMAS)} can be read as a stream")
        return TrafficOptions.of(self._given, results=False)

    def initialOffset(self) -> dict[str, Any]:
        """Where a new stream begins. Raises ValueError, NotReadable, EtcdError."""
        return asyncio.run(_initial(self._options())).to_offset()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Entries, each of which has any number of rows. Raises ValueError."""
        most = self._options().log.most
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The offset after the newest entry in effect. Raises DataLost, NotReadable, EtcdError."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        begin = Mark.from_offset(start)
        if self._target is not None:
            left = self._target - begin.entries
            if left <= 0:
                return start
            most = left if most is None else min(most, left)
        end = asyncio.run(_latest(self._options(), begin, most))
        # Other keys change etcd's revision too: without new entries the offset does not change.
        return start if end.entries == begin.entries else end.to_offset()

    def prepareForTriggerAvailableNow(self) -> None:
        """Read up to the current end of the log, also if a batch has to be repeated first."""
        self._target = asyncio.run(_newest(self._options()))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The entries between two offsets."""
        found = partitions_of(self._options(), Mark.from_offset(start), Mark.from_offset(end))
        return [InputPartition(partition) for partition in found]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """One partition's rows. Raises DataLost, TreeNotServable, BadValue, EtcdError."""
        # If there is no partition, Spark reads a None.
        return iter(()) if partition.value is None else batches_of(self._options(), partition.value, _kept)


async def _initial(options: TrafficOptions) -> Mark:
    keys = options.connection.keys

    async def initial() -> Mark:
        start = await etcd_log.earliest(etcd, keys)
        return start if options.log.starting == EARLIEST else await etcd_log.latest(etcd, keys, start)

    async with options.connection.client() as etcd:
        return await until_known_or_full(initial)


async def _newest(options: TrafficOptions) -> int:
    async with options.connection.client() as etcd:
        _, end = await until_known_or_full(etcd_log.whole, etcd, options.connection.keys)
        return end.entries


async def _latest(options: TrafficOptions, start: Mark, most: int | None) -> Mark:
    keys = options.connection.keys

    async def latest() -> Mark:
        try:
            return await etcd_log.latest(etcd, keys, start, most)
        except DataLost as lost:
            if not options.log.lossy:
                raise
            _log.warning("continuing without the lost entries: %s", lost)
            return await etcd_log.latest(etcd, keys, await etcd_log.earliest(etcd, keys), most)

    async with options.connection.client() as etcd:
        return await until_known_or_full(latest)
