"""The metrics of an archiver, as a file for node_exporter's textfile collector."""

import contextlib
import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)


class MetricsFile:
    """One file, replaced as a whole: the collector may read it at any time."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._failed = False

    def write(self, text: str) -> None:
        """Replace its content. A failure, such as a full disk, is logged once and stops nothing."""
        part = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            part.write_text(text)
            part.rename(self._path)
        except OSError as error:
            if not self._failed:
                log.warning("the metrics cannot be written to %s: %s", self._path, error.strerror)
            self._failed = True
        else:
            self._failed = False

    def remove(self) -> None:
        """Nobody will write it any more."""
        with contextlib.suppress(OSError):
            self._path.unlink()


#: Attribute of Stats, name, kind, help.
METRICS = (
    (
        "complete",
        "zketcd_archive_complete_timestamp_seconds",
        "gauge",
        "Unix time up to which the archive is complete.",
    ),
    ("pending", "zketcd_archive_pending_bytes", "gauge", "Bytes of entries that are not archived yet."),
    ("uploaded", "zketcd_archive_upload_timestamp_seconds", "gauge", "Unix time of the last segment."),
    ("entries", "zketcd_archive_entries", "gauge", "Entries that are archived, since the tree began."),
    ("bytes", "zketcd_archive_bytes_total", "counter", "Bytes of segments that were written."),
    ("errors", "zketcd_archive_errors_total", "counter", "Failures of the store, of etcd, or of a digest."),
    (
        "gaps",
        "zketcd_archive_gaps_total",
        "counter",
        "Gaps: truncated before they were archived.",
    ),
    ("gap", "zketcd_archive_gap_timestamp_seconds", "gauge", "Unix time at which the last gap was found."),
)


class Stats:
    """What an archiver has done since it was started."""

    def __init__(self, file: str | None = None) -> None:
        """`file`: None to write none."""
        self._file = None if file is None else MetricsFile(file)
        self.complete = self.uploaded = self.gap = 0.0
        self.pending = self.entries = self.bytes = self.errors = self.gaps = 0

    def write(self) -> None:
        """Replace the file."""
        if self._file is None:
            return
        lines = []
        for name, kind, text, value in self.metrics():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", f"{name} {value}"]
        self._file.write("\n".join(lines) + "\n")

    def metrics(self) -> list[tuple[str, str, str, float]]:
        """Name, kind, help and value of each."""
        return [(name, kind, text, getattr(self, attribute)) for attribute, name, kind, text in METRICS]
