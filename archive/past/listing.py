"""What `zketcd archive list` prints: the runs of an archive, and the gaps between them."""

from itertools import zip_longest
from typing import Any

from archive.files.catalog import Catalog
from archive.files.moment import shown
from archive.files.names import Point
from archive.files.small_files import complete_up_to
from archive.files.store import Store
from cli.output import Output, size, table


def listing(store: Store) -> Output:
    """Raises StoreError."""
    files = store.list()
    rows: list[dict[str, Any]] = []
    gaps = []
    runs = Catalog(files).runs
    for run, following in zip_longest(runs, runs[1:]):
        known = complete_up_to(store, run)
        rows.append(
            {
                "run": run.name,
                "from": _begin(run.begin),
                "to": shown(known.clock),
                "entries": [run.begin.entries, run.end.entries],
                "zxid": [f"0x{run.begin.zxid:x}", f"0x{run.end.zxid:x}"],
                "position": [run.begin.position, known.position],
                "snapshots": len(run.snapshots),
                "segments": len(run.segments),
                "bytes": sum(each for name, each in files.items() if name.startswith(f"{run.name}/")),
            }
        )
        lost = [(first, last, "segments are missing in the archive") for first, last in run.holes]
        if following is not None:
            first, last = run.end.entries, following.begin.entries
            why = "etcd was restored, or this run is damaged"
            if last > first:
                why = "truncated in etcd before they were archived"
            lost.append((first, last, why))
        gaps += [{"after": first, "before": last + 1, "why": why} for first, last, why in lost]
    lines = table(
        ("from", "to", "first zxid", "last zxid", "snapshots", "segments", "size"),
        [
            (row["from"], row["to"], *row["zxid"], row["snapshots"], row["segments"], size(row["bytes"]))
            for row in rows
        ],
    )
    lines += [f"gap: after entry {gap['after']}, before entry {gap['before']}: {gap['why']}" for gap in gaps]
    return Output({"runs": rows, "gaps": gaps}, lines)


def _begin(point: Point) -> str:
    return shown(point.clock) if point.entries else "the tree's beginning"
