"""Deletes what is older than an archive has to keep.

The archive's own clock, in the file `clock`, says what is old. It goes while an archiver runs, as the
monotonic clock does, or up to a quarter faster to catch up with the host's: a jump of that one makes nothing
old at once.
"""

import logging
from collections.abc import Collection

from archive.files.catalog import Catalog, Run
from archive.files.names import CLOCK, COMPLETE
from archive.files.small_files import complete_up_to
from archive.files.store import Missing, Store
from proxy.support.environment import Clock, clock_ms

log = logging.getLogger(__name__)

_EVERY = 3600.0  # seconds
_FASTEST = 1.25  # of the archive's clock: so it catches up after a time without an archiver
_DAY = 86_400_000


class Retention:
    """What one process does about it. All methods but `wait` block, and raise StoreError."""

    def __init__(self, store: Store, keep_ms: int, clock: Clock) -> None:
        """`keep_ms`: 0: delete nothing."""
        self._store = store
        self._keep_ms = keep_ms
        self._clock = clock
        self._read: tuple[int, float] | None = None  # the archive's clock, in ms; when, by the monotonic one
        self._due = clock.monotonic()

    def begin(self, catalog: Catalog) -> None:
        """Read the archive's clock, before anything is written to the archive."""
        if self._read is not None:
            return
        now = self._clock.monotonic()
        try:
            read = int(self._store.get(CLOCK))
        except (Missing, ValueError):
            read = complete_up_to(self._store, catalog.runs[-1]).clock if catalog.runs else 0
        self._read = read or clock_ms(self._clock), now

    def wait(self) -> float:
        """Seconds until `run` is due."""
        return max(0.0, self._due - self._clock.monotonic())

    def run(self) -> None:
        """Advance the archive's clock, and delete what is too old."""
        assert self._read is not None
        (before, then), now, host = self._read, self._clock.monotonic(), clock_ms(self._clock)
        reached = min(host, before + int(_FASTEST * 1000 * (now - then)))
        known = max(before, reached)
        self._read = known, now
        self._store.put(CLOCK, str(known).encode())
        if self._keep_ms:
            self._delete(host, known)
        self._due = now + _EVERY

    def _delete(self, host: int, known: int) -> None:
        files = self._store.list()
        runs = Catalog(files).runs
        if runs:
            # The newest entry may be of an archiver whose clock was behind.
            expire(self._store, files, min(host, known, runs[-1].end.clock) - self._keep_ms)
        if host - known > min(_DAY, self._keep_ms // 2):
            log.error(
                "this host's clock is %.1f h ahead of the archive's, which goes only while an archiver runs:"
                " what is too old is deleted slowly. If this host's clock is wrong, set it, or more is lost."
                " If it is right, wait, or delete the archive's file `%s` and start the archiver again",
                (host - known) / 3_600_000,
                CLOCK,
            )


def expire(store: Store, files: Collection[str], cutoff: int) -> list[str]:
    """Delete of `files` what no moment from `cutoff` on needs (milliseconds since 1970). Returns the names.

    The newest snapshot before that time is kept, with all since it. Raises StoreError.
    """
    catalog = Catalog(files)
    deleted: list[str] = []
    for run in catalog.runs:
        old = [each for each in run.snapshots if each.at.clock <= cutoff]
        is_last = run is catalog.runs[-1]
        if not is_last and run.end.clock < cutoff and _following(catalog, run).begin.clock <= cutoff:
            doomed = [name for name in files if name.startswith(f"{run.name}/")]
        else:
            base = old[-1] if old else run.snapshots[0]
            doomed = [run.path(each) for each in old[:-1]]
            for segment in (*run.segments, *run.superseded):
                if segment.end.entries <= base.at.entries or segment in run.superseded:
                    doomed += [f"{run.name}/{name}" for name in (segment.name, segment.index_name)]
            doomed = [name for name in doomed if name in files]
        # `complete` says what is known of the others.
        for name in sorted(doomed, key=lambda name: name.endswith(COMPLETE)):
            store.delete(name)
        deleted += doomed
    if deleted:
        log.info("deleted %d files that are older than the archive has to keep", len(deleted))
    return deleted


def _following(catalog: Catalog, run: Run) -> Run:
    return catalog.runs[catalog.runs.index(run) + 1]
