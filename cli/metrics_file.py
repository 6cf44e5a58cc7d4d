"""The metrics of a command that runs for long, as a file for node_exporter's textfile collector."""

import contextlib
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from proxy.support.metrics import PlainMetric

log = logging.getLogger(__name__)


class MetricsFile:
    """One file, replaced as a whole: the collector may read it at any time."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._failed = False

    def write(self, metrics: Iterable[PlainMetric]) -> None:
        """Replace its content. A failure, such as a full disk, is logged once and stops nothing."""
        part = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            part.write_text("".join(map(_lines, metrics)))
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


def _lines(metric: PlainMetric) -> str:
    name = metric.name
    return f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n{name} {metric.value}\n"
