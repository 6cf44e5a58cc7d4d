"""Deletes what is older than an archive has to keep."""

import logging

from archive.files.catalog import Catalog, Run
from archive.files.names import COMPLETE
from archive.files.store import Store

log = logging.getLogger(__name__)


def expire(store: Store, cutoff: int) -> list[str]:
    """Delete what no moment from `cutoff` on needs (milliseconds since 1970). Returns the names.

    The newest snapshot before that time is kept, with all since it. Raises StoreError.
    """
    files = store.list()
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
