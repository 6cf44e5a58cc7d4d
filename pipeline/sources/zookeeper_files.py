"""A data directory of ZooKeeper as tables of znodes and sessions, in partitions.

pipeline.formats decodes the files.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy
import pyarrow

from codec.snapshot_file import OPEN_ACL_ID
from pipeline.batches import of_rows
from pipeline.formats import directory
from pipeline.formats.compression import opened
from pipeline.formats.directory import Plan
from pipeline.formats.errors import BadFile
from pipeline.formats.snapshot import Nodes, SnapshotReader, path_text
from pipeline.job import Runner
from pipeline.sources.options import Options
from pipeline.table import SESSIONS, ZNODE_NUMBERS, ZNODES, AclRow, ZnodeRow

# The plan contains the nodes that the logs change; so many in each partition.
_NODES = 4000
_ACL = ZNODES.field("acl").type


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

    def prepare(self, runner: Runner) -> None:
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
            yield from of_rows(partition.nodes)
            return
        start, end, left_out = partition.run
        batches = _NodeBatches(partition.file, partition.acls)
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


class _NodeBatches:
    """Turns runs of a snapshot's nodes into batches of the ZNODES table."""

    def __init__(self, file: str, acls: Mapping[int, Sequence[AclRow]]) -> None:
        """`acls` is the snapshot's table."""
        self._file = file
        self._ids = numpy.array(sorted([*acls, OPEN_ACL_ID]), dtype=numpy.int64)
        self._acls = pyarrow.array([acls.get(int(number)) for number in self._ids], _ACL)

    def batch(self, run: Nodes, left_out: Sequence[int] = ()) -> pyarrow.RecordBatch:
        """The run's nodes except those whose records are at `left_out`. Raises BadFile."""
        batch = pyarrow.RecordBatch.from_arrays(
            [
                self._paths(run),
                pyarrow.array(run.data, pyarrow.binary()),
                self._acl_column(run, left_out),
                *(
                    pyarrow.array(run.fixed[field.name].astype(field.type.to_pandas_dtype()))
                    for field in map(ZNODES.field, ZNODE_NUMBERS)
                ),
            ],
            schema=ZNODES,
        )
        if not left_out:
            return batch
        return batch.filter(pyarrow.array(~numpy.isin(run.offsets, left_out)))

    def _paths(self, run: Nodes) -> pyarrow.Array:
        raw = run.paths
        if b"" in raw:
            raw = [path or b"/" for path in raw]
        try:
            return pyarrow.array(raw, pyarrow.binary()).cast(pyarrow.string())
        except pyarrow.ArrowInvalid:
            for path, offset in zip(raw, run.offsets, strict=True):
                path_text(path, self._file, offset)
            raise

    def _acl_column(self, run: Nodes, left_out: Sequence[int]) -> pyarrow.Array:
        numbers = run.fixed["acl"].astype(numpy.int64)
        found = numpy.minimum(numpy.searchsorted(self._ids, numbers), len(self._ids) - 1)
        for position in numpy.flatnonzero(self._ids[found] != numbers):
            offset = run.offsets[position]
            if offset not in left_out:
                path = path_text(run.paths[position], self._file, offset)
                raise BadFile(self._file, offset, f"{path} has ACL {numbers[position]}, which the file lacks")
        return self._acls.take(pyarrow.array(found))
