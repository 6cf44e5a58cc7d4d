"""What surrounds a command: Ctrl-C, SIGTERM, and its standard output.

That may be a full disk, a pipe without a reader, or a terminal without Unicode.
"""

import contextlib
import io
import os
import select
import signal
import sys
from collections.abc import Callable
from typing import Any, TextIO

# As a shell has them.
_INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM


class _Raw(io.FileIO):
    """Remembers that writing has failed, whatever becomes of the exception."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.error = error
            raise


def has_failed() -> bool:
    """Whether standard output has failed in a command that `guarded` runs: it tells the user of that."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return isinstance(raw, _Raw) and raw.error is not None


def is_writable(stream: TextIO | None) -> bool:
    """Whether a short line can be written now: False for a full pipe without a reader."""
    try:
        return stream is None or bool(select.select((), (stream,), (), 0)[1])
    except (OSError, ValueError):  # it is none of the system's, as in some tests
        return True


def open_missing() -> None:
    """Open the standard descriptors that are closed: else a socket or a file would get their numbers."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number that is free


def terminate(_signum: int, _frame: object) -> None:
    """A handler of SIGTERM, with which `guarded` treats it as Ctrl-C: what was begun is tidied up."""
    raise SystemExit(TERMINATED)


def guarded(main: Callable[[], int], name: str, *, failed: int = 1) -> int:
    """Run a command's `main`; returns its exit code, or `failed` if its standard output has failed.

    That is one line on stderr, and none for the end of a pipe (`| head`). What standard output cannot encode
    is written as escapes. Ctrl-C is one line as well, with the exit code that a shell has for it. A standard
    output that is closed fails at the first text. What else is closed is replaced by what goes nowhere:
    `print` would write errors to standard output instead.
    """
    open_missing()
    # None: it is closed. They stay open until the end.
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    if sys.stdout is None:
        # Not writable, so that what is printed fails as on a full disk.
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w")  # noqa: SIM115
    if not isinstance(sys.stderr, io.TextIOBase):
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    before = sys.stdout
    if not isinstance(before, io.TextIOWrapper):
        return _code_of(main, name)
    raw = _Raw(before.fileno(), "wb", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=before.encoding,
        errors="backslashreplace",
        line_buffering=before.line_buffering,
        write_through=before.write_through,
    )
    status = 0
    try:
        status = _code_of(main, name)
        sys.stdout.flush()
    except OSError:
        if raw.error is None:
            raise
    if raw.error is None:
        return status
    # What is left in the buffer goes nowhere. Else it would fail again at the interpreter's end.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, before.fileno())
    os.close(nowhere)
    if status == 0 and not isinstance(raw.error, BrokenPipeError):
        print(f"{name}: cannot write to standard output: {raw.error.strerror}", file=sys.stderr)
    return status or failed


def _code_of(main: Callable[[], int], name: str) -> int:
    try:
        return main()
    except SystemExit as end:  # argparse's, or by `terminate`
        if not isinstance(end.code, int | None):
            raise
        if end.code == TERMINATED:
            _say(f"{name}: terminated")
        return end.code or 0
    except KeyboardInterrupt:
        _say(f"{name}: interrupted")
        return _INTERRUPTED


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # stderr is a full disk
        print(text, file=sys.stderr)
