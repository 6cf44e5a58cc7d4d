"""Where messages go, and in which form: lines for people, or one JSON object a line.

The audit log is a logger of its own: its lines go to a file, or to where all messages go. Its level does not
depend on that of the messages. Threads write both (`log_backlog`), so that neither holds up a client.
"""

import errno
import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from typing_extensions import override

from proxy.support.log_backlog import AUDIT, Backlog, Descriptor, lines_of, loss, of_stderr
from proxy.support.throttled_log import ThrottledLog

TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)
STDERR = "-"
"""The name that stands for the place of all messages."""

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

audit = logging.getLogger("zketcd.audit")
_NAME = "the audit log"
log = logging.getLogger(__name__)


class _TextFormatter(logging.Formatter):
    """Lines for people. A record of the audit log may have several, each of which gets the head."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, or lines."""
        text = super().format(record)
        if record.name == audit.name and "\n" in record.message:
            head = text[: text.index(record.message)]
            text = text.replace("\n", f"\n{head}")
        return text


class _JsonFormatter(logging.Formatter):
    """One JSON object a line. `process`: what of zketcd this is, if not the server."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = {"process": process} if process else {}
        self._encode = json.JSONEncoder(ensure_ascii=False).encode

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger, message; the fields of an audit line, the traceback if there is one."""
        document: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            **self._process,
        }
        message = record.getMessage()
        if record.name == audit.name:
            head = self._encode(document)[:-1]
            return "\n".join([f"{head}, {self._encode(_audited(line))[1:]}" for line in message.split("\n")])
        document["message"] = message
        if record.exc_text:
            document["exception"] = record.exc_text
        elif record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return self._encode(document)


def _audited(line: str) -> dict[str, Any]:
    pairs = (pair.partition("=") for pair in line.split("\t"))
    return {"message": line, "audit": {name: value for name, equals, value in pairs if equals}}


class _AuditFile(Descriptor):
    """The file of the audit log. If it cannot be written, lines are lost, and a warning says why.

    Once it can be written again, a line says how many.
    """

    def __init__(self, path: str) -> None:
        """Raises OSError."""
        self._path = os.path.abspath(path)
        self._throttled_log = ThrottledLog(log)
        self._said = 0  # lost lines that the file counts
        super().__init__(self._opened(), "utf-8")

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        try:
            self.write(record)
        except OSError as error:
            self._throttled_log.warn("cannot write to the audit log %s: %s", self._path, error.strerror)

    @override
    def write(self, record: logging.LogRecord) -> None:
        try:
            self._open_if_moved()
        except OSError:
            self.lost += lines_of(record)
            raise
        super().write(record)
        if self._said < (lost := self.lost):
            said, self._said = self._said, lost
            try:
                super().write(loss(lost - said, _NAME, "the file could not be written"))
            except OSError:
                if self.lost > lost:  # not begun, so it counts as one that was lost itself
                    self.lost, self._said = lost, said
                raise

    def close(self) -> None:
        """Close it, also below a write that does not end. Idempotent: logging calls it, too."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
        super().close()

    def _opened(self) -> int:
        # A named pipe without a reader would be waited for, and clients with it.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK
        try:
            descriptor = os.open(self._path, flags, 0o666)
        except OSError as error:
            if error.errno == errno.ENXIO:
                raise OSError(error.errno, "a socket, or a pipe without a reader", self._path) from error
            raise
        os.set_blocking(descriptor, True)
        return descriptor

    def _open_if_moved(self) -> None:
        """Raises OSError."""
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(self._path), os.fstat(self._descriptor)):
                return
        moved, self._descriptor = self._descriptor, self._opened()
        self._left = b""  # of the other file
        os.close(moved)


def formatter(form: str, process: str = "") -> logging.Formatter:
    """The formatter of one of FORMATS. `process`: what of zketcd writes, if not the server."""
    if form == JSON:
        return _JsonFormatter(process)
    prefix = f"{process}: " if process else ""
    return _TextFormatter(f"%(asctime)s %(levelname)s %(name)s: {prefix}%(message)s")


def configure(level: str, form: str, process: str = "") -> None:
    """Send all messages from this level up to stderr."""
    handler = of_stderr()
    handler.setFormatter(formatter(form, process))
    if isinstance(handler, Descriptor):
        handler = Backlog(handler, "messages")
    logging.basicConfig(level=level, handlers=[handler])


def say(text: str) -> None:
    """Write a line to stderr that is no message: it has neither time nor level."""
    for backlog in _backlogs(logging.getLogger()):
        backlog.say(text)
        return
    print(text, file=sys.stderr, flush=True)


def finish() -> None:
    """Write what waits: another program continues in this process."""
    for backlog in _backlogs(logging.getLogger()):
        backlog.end()


def dropped() -> int:
    """Lines of the messages and of the audit log that were not written."""
    return sum(backlog.lost for logger in (logging.getLogger(), audit) for backlog in _backlogs(logger))


def _backlogs(logger: logging.Logger) -> list[Backlog]:
    return [handler for handler in logger.handlers if isinstance(handler, Backlog)]


def level() -> str:
    """The lowest level of this process's messages."""
    return logging.getLevelName(logging.getLogger().level)


def set_level(name: str, who: str) -> None:
    """Change it. `who` asked for it: the change is logged whatever the level is."""
    logging.getLogger().setLevel(name)
    log.log(
        max(logging.WARNING, logging.getLogger().level), "the log level is %s now, asked by %s", name, who
    )


def toggle_debug(usual: str, who: str) -> None:
    """Switch between DEBUG and the usual level."""
    set_level(usual if level() == "DEBUG" else "DEBUG", who)


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
    file = _AuditFile(path)
    file.setFormatter(formatter(form))
    handler = Backlog(file, _NAME, AUDIT)
    audit.addHandler(handler)
    audit.propagate = False
    try:
        yield
    finally:
        audit.removeHandler(handler)
        audit.propagate = True
        handler.close()
        file.close()
