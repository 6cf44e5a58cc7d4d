"""Files of this host: a directory that survives a power cut, who may read a file, named pipes. All block."""

import os
import stat
from pathlib import Path
from typing import IO, AnyStr, BinaryIO

# ACLs do not protect znodes' data in files: no other user may read it. A stricter umask stays.
_FILE, FOLDER = 0o640, 0o750
#: Bytes of a file with options or users: more than any has.
LARGEST_OPTIONS = 16 << 20


def new_file(path: Path) -> BinaryIO:
    """Open a new file for znodes' data, to be written. Raises OSError."""
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags, _FILE))


def new_folder(path: Path) -> None:
    """Make a directory for such files, unless it exists. Raises OSError."""
    path.mkdir(FOLDER, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Write a directory to the disk: what was made, renamed and deleted in it so far. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_world_readable(path: str) -> bool:
    """Whether a file's mode lets every user of the host read it; False for what is no file. Blocks."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & stat.S_IROTH)


def bounded(stream: IO[AnyStr], most: int = LARGEST_OPTIONS) -> AnyStr:
    """What is in a file of at most so many bytes. Blocks; raises OSError, and ValueError for a larger one.

    Of a text so many characters are read, which have at least as many bytes. A device such as /dev/zero has
    no end.
    """
    content = stream.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it has more than {most} bytes")
    return content


def check_no_pipe(path: str) -> None:
    """Raise ValueError for a named pipe: to open one waits for another process to open it, perhaps for ever.

    Those of a shell, such as /dev/stdin and /dev/fd/63, are open at both ends.
    """
    if not path.startswith(("/dev/std", "/dev/fd/", "/proc/")) and Path(path).is_fifo():
        raise ValueError(f"{path!r} is a named pipe: a file is expected, which can be read again")
