"""Which ephemerals and sessions move with a tree."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.jobs.census import Census
from pipeline.table import SessionRow
from schema.paths import parent_of


class Kept(NamedTuple):
    """The sessions that move, and the ephemerals that do not."""

    sessions: tuple[SessionRow, ...]  # that move
    dropped_paths: tuple[str, ...]  # ephemerals of all other sessions
    dropped_owners: tuple[int, ...]


def kept_of(counted: Census, come_over: Sequence[SessionRow]) -> Kept:
    """Divide the ephemerals by whether their session moves."""
    ids = {row.id for row in come_over}
    dropped = [ephemeral for ephemeral in counted.ephemerals if ephemeral.session_id not in ids]
    return Kept(
        tuple(come_over),
        tuple(ephemeral.path for ephemeral in dropped),
        tuple(sorted({ephemeral.session_id for ephemeral in dropped})),
    )


class Ending:
    """The tree after the end of the sessions that do not move, in one transaction `zxid`.

    As DataTree.deleteNode does: the parents' pzxid changes, their count of children ever created does not.
    """

    def __init__(self, kept: Kept, zxid: int) -> None:
        self._owners = list(kept.dropped_owners)
        self._parents = sorted({parent_of(path) for path in kept.dropped_paths})
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
