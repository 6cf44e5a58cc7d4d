"""Metrics of a command as a file for node_exporter's textfile collector."""

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
