"""Directories that files are written into: checked before the work begins, and cleared after it."""

import contextlib
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_DAY = 86_400.0  # seconds


@contextlib.contextmanager
def named(path: Path) -> Iterator[None]:
    """Add this path to errors of writing in the body: the error for a full disk does not name a path."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def check_writable(folder: Path) -> None:
    """Raises ValueError if `folder`, which need not exist, cannot be made or written to.

    It tries to write: the mode of a directory does not show read-only or remote file systems. No file
    remains.
    """
    there = folder.absolute()
    while True:
        try:
            with tempfile.TemporaryFile(dir=there):
                return
        except NotADirectoryError:
            raise ValueError(f"{existing(there)} is not a directory") from None
        except FileNotFoundError as error:
            if there.is_dir() or there == there.parent:  # as in /proc, where no files can be made
                raise ValueError(f"{there} cannot be written to: {error.strerror}") from error
            there = there.parent
        except OSError as error:
            raise ValueError(f"{there} cannot be written to: {error.strerror}") from error


def existing(path: Path) -> Path:
    """The path itself, or its nearest ancestor that exists."""
    return next(there for there in (path, *path.parents) if there.exists())


def clear(folder: Path, prefix: str) -> None:
    """Delete the directories PREFIX-UUID that exports which were killed have left; none takes a day."""
    pattern = re.compile(re.escape(prefix) + "-[0-9a-f]{32}")
    with contextlib.suppress(OSError):  # the export is done, whatever becomes of them
        for each in folder.iterdir():
            if pattern.fullmatch(each.name) and time.time() - each.stat().st_mtime > _DAY:
                shutil.rmtree(each)
