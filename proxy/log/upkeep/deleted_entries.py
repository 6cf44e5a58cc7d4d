"""Saves what entries did that somebody has deleted from the log: by `etcdctl del`, or a program of their own.

Truncation deletes what the previous snapshot holds. If another entry is missing, a load makes another tree:
those of its incarnation behind it never count either (rule 1.5). The proxies that have applied the entry have
the right state, but a snapshot is written by a load as well. Until etcd compacts, it knows the log as it was:
a snapshot as of the revision before the deletion holds everything.
"""

import logging
from collections.abc import Iterable, Mapping

from proxy.etcd.model import EtcdError
from proxy.log.context import Context
from proxy.log.follow.log_order import EntriesGone
from proxy.log.record import TreeNotServable, look
from proxy.log.upkeep.truncation import applied_in
from schema.record import SnapshotRef, TreeRecord

log = logging.getLogger(__name__)


class DeletedEntries:
    """What one proxy has seen deleted from its tree's log."""

    def __init__(self, context: Context) -> None:
        self._etcd = context.etcd
        self._keys = context.keys
        self._machine = context.machine
        self._new: list[EntriesGone] = []  # by truncation, most often
        self._unsaved: list[EntriesGone] = []
        self._looked_at: SnapshotRef | None = None
        self._unreadable: TreeRecord | None = None  # a page of its snapshots is missing, or damaged
        self._is_too_late = False

    @property
    def as_of(self) -> int:
        """The revision as of which a snapshot has to be written; 0 if there is nothing to save."""
        return min((gone.revision for gone in self._unsaved), default=1) - 1

    def note(self, gone: EntriesGone) -> None:
        """The stream has shown a deletion."""
        self._new.append(gone)

    def too_late(self) -> None:
        """A snapshot as of `as_of` cannot be written any more."""
        self._is_too_late = True

    async def look(self, record: TreeRecord | None) -> None:
        """Find out what is to be saved, if entries were deleted or another snapshot was written since."""
        if record is None or not (self._new or (self._unsaved and self._has_changed(record))):
            return
        new, self._new = self._new, []  # a newer record may be needed to judge those that come meanwhile
        truncated = saved = None
        try:
            # The stream may be behind: a snapshot that has saved them would be taken for too late.
            record = (await look(self._etcd, self._keys)).record
            if record is not None and record != self._unreadable:
                truncated = await self._numbers_in(record.previous)
                saved = await self._numbers_in(record.current)
        except (EtcdError, TreeNotServable) as error:
            log.warning("cannot read which deleted entries of the log are in snapshots: %s", error)
            record = None
        if record is None or truncated is None or saved is None:
            self._unreadable = record
            self._new[:0] = new
            return
        # If the state has forgotten an incarnation, all its entries were truncated.
        new = [gone for gone in _above(truncated, new) if gone.incarnation in self._machine.applied]
        self._look_again(record.current, _above(saved, self._unsaved))
        if unsaved := _above(saved, new):
            self._unsaved += unsaved
            log.error(
                "entries of the log were deleted, not by zketcd (%s), and no snapshot holds them. A proxy"
                " that starts now lacks what they and the later entries of these proxies have done. A"
                " snapshot as of revision %d is to save it",
                *(_text(unsaved), self.as_of),
            )
        elif new:
            assert record.current is not None
            log.error(
                "entries of the log were deleted, not by zketcd (%s). The snapshot %s holds what they have"
                " done: run `zketcd snapshot`, so that no start needs them",
                *(_text(new), record.current.name),
            )

    def _look_again(self, current: SnapshotRef | None, unsaved: list[EntriesGone]) -> None:
        """`unsaved`: what is left of the entries that were to be saved."""
        if self._unsaved and not unsaved:
            assert current is not None
            log.warning(
                "the snapshot %s holds what the deleted entries have done: nothing is lost", current.name
            )
        elif unsaved and self._is_too_late:
            log.error(
                "proxies that start from now on lack what deleted entries of the log (%s) and the later ones"
                " of these proxies have done: another snapshot, or compaction, was faster than the one that"
                " was to save it. Restore etcd from a backup, or what is missing from an archive",
                _text(unsaved),
            )
            unsaved = []
        self._unsaved = unsaved
        self._looked_at = current
        self._is_too_late = False

    def _has_changed(self, record: TreeRecord) -> bool:
        return self._is_too_late or record.current != self._looked_at

    async def _numbers_in(self, ref: SnapshotRef | None) -> dict[str, int] | None:
        return {} if ref is None else await applied_in(self._etcd, self._keys, ref.name)


def _above(numbers: Mapping[str, int], deleted: Iterable[EntriesGone]) -> list[EntriesGone]:
    """Those above the numbers of each incarnation."""
    found = []
    for gone in deleted:
        first = max(gone.first, numbers.get(gone.incarnation, 0) + 1)
        if first <= gone.last:
            found.append(gone._replace(first=first))
    return found


def _text(deleted: Iterable[EntriesGone]) -> str:
    return ", ".join(
        f"{gone.first} of {gone.incarnation}"
        if gone.first == gone.last
        else f"{gone.first} to {gone.last} of {gone.incarnation}"
        for gone in deleted
    )
