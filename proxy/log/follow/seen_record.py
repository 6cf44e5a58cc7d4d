"""The tree's record as it was last seen: what a `LogFollower` may go on with."""

import asyncio

from proxy.log.follow.log_order import RecordChanged
from proxy.log.record import TreeNotServable, no_longer_servable
from schema.errors import BadValue
from schema.keys import Keyspace
from schema.record import SnapshotRef, TreeRecord, decode_record, is_incomplete_with_pages

_NO_REVISION = -1


class NewBase(Exception):
    """This tree is a copy, and a snapshot was written in place of entries."""

    def __init__(self, record: TreeRecord, revision: int) -> None:
        """`record` names it, and was put at `revision`."""
        super().__init__(record, revision)
        self.record = record
        self.revision = revision


class SeenRecord:
    """The newest record with which the tree could be served."""

    def __init__(self, keys: Keyspace) -> None:
        self._keys = keys
        #: None: none was seen.
        self.value: TreeRecord | None = None
        #: Its mod_revision; one that none has once the tree cannot be served.
        self.revision = 0
        #: Set once the tree is complete: until then it is a copy of another one.
        self.complete = asyncio.Event()

    @property
    def is_copy(self) -> bool:
        """Whether the tree copies another one: only `zketcd follow` writes, up to the cut-over.

        The load has found the follower's position, too (`record.is_copy`).
        """
        return self.copied is not None

    @property
    def copied(self) -> SnapshotRef | None:
        """The snapshot of a copy."""
        return self.value.current if self.value and is_incomplete_with_pages(self.value) else None

    def take(self, record: TreeRecord, revision: int) -> None:
        """It was put at `revision`, and the tree can be served."""
        self.value = record
        self.revision = revision
        if record.complete:
            self.complete.set()

    def check_seal(self) -> None:
        """Raises TreeSealed if there is one."""
        if self.value is not None and self.value.seal is not None:
            raise no_longer_servable(self._keys, self.value, self.revision)

    def changed(self, item: RecordChanged) -> None:
        """Take a record from the stream. Raises NewBase, and TreeNotServable."""
        self.revision = _NO_REVISION  # unless it is taken
        try:
            record = None if item.value is None else decode_record(item.value)
        except BadValue as error:
            prefix = self._keys.prefix.decode()
            raise TreeNotServable(f"the tree under {prefix} can no longer be served: {error}") from error
        known = self.copied
        if record is None or not (record.complete or (known and is_incomplete_with_pages(record))):
            raise no_longer_servable(self._keys, record, item.revision)
        if known is not None and record.current != known:
            raise NewBase(record, item.revision)
        self.take(record, item.revision)
