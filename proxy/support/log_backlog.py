"""Lines that a thread writes, so that a pipe without a reader, or a slow disk, stalls no client.

What waits has a bound. Beyond it lines are dropped and counted; when there is room again, one line
says how many. Where a line goes is another handler's business.
"""

import copy
import logging
import os
import select
import sys
import threading
from collections import deque
from contextlib import suppress

MESSAGES, AUDIT = 1 << 20, 8 << 20  # characters that wait; a multi of 1 MiB has up to 26,000 audit lines
_OF_ITS_OWN = 200  # of a line, besides its message and traceback: its time, its names
_PATIENCE = 1.0  # seconds for which the end of the process waits for what is left
_PLAIN = "plain"
_TRACEBACKS = logging.Formatter()


class Backlog(logging.Handler):
    """Hands lines to a thread, which hands them to `target`. `what`: the name of the log."""

    def __init__(self, target: logging.Handler, what: str, most: int = MESSAGES) -> None:
        """`most`: characters that wait."""
        super().__init__()
        self._most = most
        self.setFormatter(target.formatter)
        self.dropped = 0
        self._target = target
        self._what = what
        self._lines: deque[logging.LogRecord] = deque()
        self._size = 0
        self._changed = threading.Condition()
        self._ends = False
        # A daemon: nothing ends a write to a pipe without a reader.
        self._thread = threading.Thread(target=self._write, name=f"write {what}", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line, or count it as dropped."""
        line = copy.copy(record)
        try:
            line.msg, line.args = record.getMessage(), None  # what the arguments are may change
            if record.exc_info:  # a traceback keeps all that its frames hold
                line.exc_text, line.exc_info = _TRACEBACKS.formatException(record.exc_info), None
        except (TypeError, ValueError):
            self.handleError(record)
            return
        with self._changed:
            if self._ends or self._size > self._most:
                self.dropped += lines_of(line)
                return
            self._size += _size(line)
            self._lines.append(line)
            self._changed.notify()

    def say(self, text: str) -> None:
        """Take a line as it is: without time, level and logger."""
        line = logging.makeLogRecord({"msg": text, _PLAIN: True})
        self.emit(line)

    def end(self) -> None:
        """Write what waits, for a second if it cannot be written. Idempotent."""
        with self._changed:
            self._ends = True
            self._changed.notify()
        self._thread.join(_PATIENCE)

    def close(self) -> None:
        """As `end`: logging calls it when the process ends."""
        self.end()
        super().close()

    def _write(self) -> None:
        said = 0
        while True:
            with self._changed:
                while not self._lines and not self._ends and self.dropped == said:
                    self._changed.wait()
                line = self._lines.popleft() if self._lines else None
                if line is None and self.dropped == said:
                    return
                if line is not None:
                    self._size -= _size(line)
                dropped = self.dropped
            if line is None:
                line, said = (
                    loss(dropped - said, self._what, "they came faster than they were written"),
                    dropped,
                )
            # Not by `handle`: the end of the process would wait for the lock of a write that does not end.
            self._target.emit(line)

    @property
    def lost(self) -> int:
        """Lines that were not written, for whatever reason."""
        return self.dropped + (self._target.lost if isinstance(self._target, Descriptor) else 0)


def loss(count: int, what: str, why: str) -> logging.LogRecord:
    """The line that stands for lines which are missing."""
    return logging.makeLogRecord(
        {
            "name": __name__,
            "levelno": logging.WARNING,
            "levelname": "WARNING",
            "msg": f"{count} lines of {what} were dropped: {why}",
        }
    )


def _size(line: logging.LogRecord) -> int:
    return len(line.msg) + len(line.exc_text or "") + _OF_ITS_OWN


class Descriptor(logging.Handler):
    """Writes lines to a file descriptor.

    Without the locks of `sys.stderr`: the end of the process would wait for a write that does not end.
    """

    def __init__(self, descriptor: int, encoding: str) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._encoding = encoding
        self._left = b""
        #: Lines that could not be written.
        self.lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line. Nowhere is left to report that it cannot be written."""
        with suppress(OSError):
            self.write(record)

    def write(self, record: logging.LogRecord) -> None:
        """Write a line, behind the rest of one that an error has cut. Raises OSError."""
        text = record.getMessage() if hasattr(record, _PLAIN) else self.format(record)
        line = f"{text}\n".encode(self._encoding, errors="backslashreplace")
        self._left += line
        try:
            self._write_left()
        except OSError:
            if len(self._left) >= len(line):  # it was not begun
                self._left = self._left.removesuffix(line)
                self.lost += lines_of(record)
            raise

    def _write_left(self) -> None:
        while self._left:
            try:
                self._left = self._left[os.write(self._descriptor, self._left) :]
            except BlockingIOError:  # another process has made the pipe so
                select.select((), (self._descriptor,), ())


def lines_of(record: logging.LogRecord) -> int:
    """Of the audit log a record has several lines."""
    return 1 + str(record.msg).count("\n")


def of_stderr() -> logging.Handler:
    """What writes to stderr: a `Backlog` is to be put before a Descriptor only."""
    try:
        return Descriptor(sys.stderr.fileno(), sys.stderr.encoding)
    except (AttributeError, OSError, ValueError):  # it is none of the system's, as in some tests
        return logging.StreamHandler(sys.stderr)
