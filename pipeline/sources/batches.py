"""Rows and runs of nodes as Arrow batches, which Spark reads far faster than rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy
import pyarrow

from codec.snapshot_file import OPEN_ACL_ID
from pipeline.formats.errors import BadFile
from pipeline.formats.snapshot import Nodes, path_text
from pipeline.table import ZNODES, AclRow

_ROWS = 4096
_ACL = ZNODES.field("acl").type


def of_rows(rows: Iterable[tuple[Any, ...]], schema: pyarrow.Schema) -> Iterator[pyarrow.RecordBatch]:
    """Rows of table.py as batches."""
    waiting = iter(rows)
    while some := list(islice(waiting, _ROWS)):
        columns = zip(*some, strict=True)
        arrays = [pyarrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        yield pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


class NodeBatches:
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
                    for field in list(ZNODES)[3:]
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
