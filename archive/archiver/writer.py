"""What one archiver writes into a run: the open segment, which grows about once a second, snapshots, and up
to when the run is complete.

The open segment is put again, under another name, until it has 1 MiB, and the shorter one is deleted. So a
store holds few files, and an archive is behind by a second at most.
"""

import asyncio
import logging

from archive.files import index, segment
from archive.files.container import Pages
from archive.files.container import encode as encode_snapshot
from archive.files.names import COMPLETE, Point, Segment, Snapshot
from archive.files.segment import Change, Content
from archive.files.small_files import encode_complete
from archive.files.store import Store
from codec.named import new_tuple
from proxy.state.recording import Recorded, What
from schema.entry import Written

log = logging.getLogger(__name__)

MOST = 1 << 20  # bytes of the entries in a segment
_OF_A_CHANGE = 60  # bytes
# Segments have no kind of their own for a jump, and nothing of sessions.
_KINDS = {
    What.CREATED: segment.CREATED,
    What.DELETED: segment.DELETED,
    What.DATA: segment.DATA,
    What.ACL: segment.ACL,
    What.STAT: segment.DATA,
}


class RunWriter:
    """Writes one run, from a point on."""

    def __init__(self, store: Store, run: str, start: Point) -> None:
        self._store = store
        self._run = run
        self._start = start
        self._records: list[Written] = []
        self._clocks: list[int] = []
        self._changes: list[Change] = []
        self._put: Segment | None = None  # the open segment as it is in the store
        #: The bytes of the open segment, and those of them that are not in the store.
        self.size = self.pending = 0

    @property
    def is_full(self) -> bool:
        """Whether the open segment has to be written."""
        return self.size >= MOST

    def entry(self, record: Written, clock: int) -> None:
        """An entry takes effect. `clock`: the archive's, in milliseconds since 1970."""
        self._records.append(record)
        self._clocks.append(clock)
        self.size += len(record.value)
        self.pending += len(record.value)

    def change(self, request: int, zxid: int, recorded: Recorded) -> None:
        """A request of the entry that is added next has made a change."""
        what, path, before, after, data_before, data, *_ = recorded
        kind = _KINDS.get(what)
        if kind is None:
            return
        sizes = _size(data_before), _size(data)
        fields = (len(self._records), request, kind, zxid, path, before, after, *sizes)
        self._changes.append(new_tuple(Change, fields))
        self.size += _OF_A_CHANGE

    async def flush(self, end: Point, digest: int) -> int:
        """Write the open segment as it is; the bytes. Raises StoreError."""
        if not self.pending:
            return 0
        written = Segment(self._start.entries, end)
        content = Content(self._start, end, digest, self._records, self._clocks, self._changes)
        value = segment.encode(content)
        self.pending = 0
        await self._write(written.name, value)
        former, self._put = self._put, written
        if self.is_full:
            await self._write(written.index_name, index.encode({change.path for change in self._changes}))
            self._start, self._put = end, None
            self._records, self._clocks, self._changes = [], [], []
            self.size = 0
        if former is not None:
            await asyncio.to_thread(self._store.delete, f"{self._run}/{former.name}")
        return len(value)

    async def snapshot(self, at: Point, pages: Pages) -> None:
        """Write a snapshot. Raises StoreError."""
        await self._write(Snapshot(at).name, await asyncio.to_thread(encode_snapshot, pages))
        log.info("archived the snapshot after %d entries, zxid 0x%x", at.entries, at.zxid)

    async def complete(self, at: Point) -> None:
        """Everything up to this point is in the store. Raises StoreError."""
        await self._write(COMPLETE, encode_complete(at))

    async def _write(self, name: str, value: bytes) -> None:
        await asyncio.to_thread(self._store.put, f"{self._run}/{name}", value)


def _size(data: bytes | None) -> int:
    return segment.NONE if data is None else len(data)
