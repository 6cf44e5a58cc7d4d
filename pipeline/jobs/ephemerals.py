"""The end of the ephemerals that do not move with a tree."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.jobs.census import Dropped


class Ending:
    """The tree after the end of the sessions that do not move, in one transaction `zxid`.

    As DataTree.deleteNode does: the parents' pzxid changes, their count of children ever created does not.
    """

    def __init__(self, dropped: Dropped, zxid: int) -> None:
        self._owners = sorted(dropped.owners)
        self._parents = sorted(dropped.parents)
        self._zxid = zxid

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that stay."""
        owners = pa.array(self._owners, pa.int64())
        parents = pa.array(self._parents, pa.string())
        for batch in batches:
            if not self._owners:
                yield batch
                continue
            stays = batch.filter(pc.invert(pc.is_in(batch.column("owner"), owners)))
            at = stays.schema.get_field_index("pzxid")
            pzxid = stays.column(at)
            moved = pc.max_element_wise(pzxid, pa.scalar(self._zxid, pa.int64()))
            marked = pc.if_else(pc.is_in(stays.column("path"), parents), moved, pzxid)
            yield stays.set_column(at, stays.schema.field(at), marked)
