"""Where messages go, and in which form: lines for people, or one JSON object a line.

The audit log is a logger of its own: its lines go to a file, or to where all messages go. Its level does not
depend on that of the messages. A file is written by a thread of its own, so a slow disk holds up no client.
"""

import json
import logging
import logging.handlers
import queue
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)
STDERR = "-"
"""The name that stands for the place of all messages."""

audit = logging.getLogger("zketcd.audit")


class _JsonFormatter(logging.Formatter):
    """One JSON object a line. `process`: what of zketcd this is, if not the server."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = {"process": process} if process else {}

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger, message; the traceback if there is one."""
        document = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            **self._process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=False)


def formatter(form: str, process: str = "") -> logging.Formatter:
    """The formatter of one of FORMATS. `process`: what of zketcd writes, if not the server."""
    if form == JSON:
        return _JsonFormatter(process)
    prefix = f"{process}: " if process else ""
    return logging.Formatter(f"%(asctime)s %(levelname)s %(name)s: {prefix}%(message)s")


def configure(level: str, form: str, process: str = "") -> None:
    """Send all messages from this level up to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(form, process))
    logging.basicConfig(level=level, handlers=[handler])


def form_in_use() -> str:
    """The form of this process's messages, for a child process."""
    in_json = any(isinstance(handler.formatter, _JsonFormatter) for handler in logging.getLogger().handlers)
    return JSON if in_json else TEXT


@contextmanager
def audit_to(path: str, form: str) -> Iterator[None]:
    """Write the audit log to a file, or to STDERR; "" for nowhere. Raises OSError for a file that cannot be.

    A file that another program moves away is opened anew (logrotate).
    """
    if not path:
        yield
        return
    audit.setLevel(logging.INFO)
    if path == STDERR:
        yield
        return
    file = logging.handlers.WatchedFileHandler(path, encoding="utf-8", errors="backslashreplace")
    file.setFormatter(formatter(form))
    lines: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    writer = logging.handlers.QueueListener(lines, file)
    handler = logging.handlers.QueueHandler(lines)
    audit.addHandler(handler)
    audit.propagate = False
    writer.start()
    try:
        yield
    finally:
        audit.removeHandler(handler)
        audit.propagate = True
        writer.stop()
        file.close()
