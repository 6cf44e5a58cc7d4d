"""The metrics of an archiver."""

from cli.metrics_file import MetricsFile
from proxy.support.metrics import PlainMetric

#: Attribute of Stats, name, kind, help.
METRICS = (
    (
        "complete",
        "zketcd_archive_complete_timestamp_seconds",
        "gauge",
        "Unix time up to which the archive is complete",
    ),
    ("pending", "zketcd_archive_pending_bytes", "gauge", "bytes of entries that are not archived yet"),
    ("uploaded", "zketcd_archive_upload_timestamp_seconds", "gauge", "Unix time of the last segment"),
    ("entries", "zketcd_archive_entries", "gauge", "entries that are archived, since the tree began"),
    ("bytes", "zketcd_archive_bytes_total", "counter", "bytes of segments that were written"),
    ("errors", "zketcd_archive_errors_total", "counter", "failures of the store, of etcd, or of a digest"),
    ("gaps", "zketcd_archive_gaps_total", "counter", "gaps: truncated before they were archived"),
    ("gap", "zketcd_archive_gap_timestamp_seconds", "gauge", "Unix time at which the last gap was found"),
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
        if self._file is not None:
            self._file.write(self.metrics())

    def metrics(self) -> list[PlainMetric]:
        """Each with its value."""
        return [
            PlainMetric(name, kind, text, getattr(self, attribute)) for attribute, name, kind, text in METRICS
        ]
