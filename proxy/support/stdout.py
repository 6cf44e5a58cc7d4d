"""Standard output of a command: it may be a full disk, a pipe that nobody reads from, or have no Unicode."""

import io
import os
import sys
from collections.abc import Callable
from typing import Any


class _Raw(io.FileIO):
    """Remembers that writing has failed, whatever becomes of the exception."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.error = error
            raise


def guarded(main: Callable[[], int], name: str) -> int:
    """Run a command's `main`; returns its exit code, or 1 if its standard output has failed.

    That is one line on stderr, and none for the end of a pipe (`| head`). What standard output cannot encode
    is written as escapes.
    """
    before = sys.stdout
    if not isinstance(before, io.TextIOWrapper):  # None: it is closed
        return main()
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
        try:
            status = main()
        except SystemExit as end:  # argparse's
            if not isinstance(end.code, int | None):
                raise
            status = end.code or 0
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
    return status or 1
