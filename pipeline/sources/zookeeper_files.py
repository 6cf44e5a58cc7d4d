"""A data directory of ZooKeeper as tables of znodes and sessions, in partitions.

pipeline.formats decodes the files.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow

from pipeline.formats import directory
from pipeline.formats.compression import opened
from pipeline.formats.directory import Plan
from pipeline.formats.snapshot import SnapshotReader
from pipeline.sources.batches import NodeBatches, of_rows
from pipeline.sources.options import Options
from pipeline.sources.reading import Once
from pipeline.table import SESSIONS, ZNODES, AclRow, ZnodeRow

# The plan contains the nodes that the logs change; so many in each partition.
_NODES = 4000


class _Run(NamedTuple):
    """A run of a snapshot's records."""

    file: str
    run: directory.Run
    acls: dict[int, tuple[AclRow, ...]]


class _Rows(NamedTuple):
    """Nodes after the logs were applied."""

    nodes: Sequence[ZnodeRow]


class ZnodeReader:
    """The znodes, from the newest snapshot and the logs after it."""

    def __init__(self, options: Options, found: directory.Survey | None = None) -> None:
        """`found` is the directory's state, if it is known already."""
        self._options = options
        self._found = found
        self._plan: Plan | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the plan, which workers get in partitions."""
        return {**self.__dict__, "_plan": None}

    def prepare(self, runner: Once) -> None:
        """Replay the logs, if there are any. Raises BadFile."""
        found, step = self._found, self._options.split_bytes
        if found is not None and found.transactions and self._plan is None:
            self._plan = runner.once(
                "replay",
                "transactions",
                found.transactions,
                lambda meter: directory.plan(found, step, meter.add),
            )

    def partitions(self) -> Sequence[_Run | _Rows]:
        """Runs of the snapshot, and the nodes that the logs change. Raises BadFile."""
        found = self._found or self._options.survey()
        plan = self._plan or directory.plan(found, self._options.split_bytes)
        return [
            *(_Run(found.snapshot, run, plan.acls) for run in plan.runs),
            *(_Rows(plan.nodes[start : start + _NODES]) for start in range(0, len(plan.nodes), _NODES)),
        ]

    def read(self, partition: _Run | _Rows) -> Iterator[pyarrow.RecordBatch]:
        """One partition's nodes."""
        if isinstance(partition, _Rows):
            yield from of_rows(partition.nodes, ZNODES)
            return
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


class SessionReader:
    """The sessions that were alive."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[int]:
        """One partition with all sessions."""
        return [0]

    def read(self, partition: int) -> Iterator[pyarrow.RecordBatch]:
        """All sessions."""
        return of_rows(self._options.survey().sessions, SESSIONS)
