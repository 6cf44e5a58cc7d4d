"""Whether files can be written into a directory, asked before the work begins."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def named(path: Path) -> Iterator[None]:
    """Errors of writing in the body name this path: a full disk does not say by itself which one it is."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def check_writable(folder: Path) -> None:
    """Raises ValueError if `folder`, which need not exist, cannot be made or written to.

    Tried rather than read off its mode: a mode knows nothing of read-only or remote file systems. Nothing
    stays.
    """
    there = folder.absolute()
    while True:
        try:
            with tempfile.TemporaryFile(dir=there):
                return
        except NotADirectoryError:
            raise ValueError(f"{existing(there)} is not a directory") from None
        except FileNotFoundError as error:
            if there.is_dir() or there == there.parent:  # as in /proc, where nobody makes files
                raise ValueError(f"{there} cannot be written to: {error.strerror}") from error
            there = there.parent
        except OSError as error:
            raise ValueError(f"{there} cannot be written to: {error.strerror}") from error


def existing(path: Path) -> Path:
    """The path itself, or the nearest above it that is there."""
    return next(there for there in (path, *path.parents) if there.exists())
