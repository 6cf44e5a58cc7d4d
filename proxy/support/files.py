"""Files of this host: a directory that survives a power cut, and who may read a file. Both block."""

import os
import stat
from pathlib import Path


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
