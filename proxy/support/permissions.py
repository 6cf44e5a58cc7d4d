"""Who may read a file on this host."""

import os
import stat


def is_world_readable(path: str) -> bool:
    """Whether a file's mode lets every user of the host read it; False for what is no file. Blocks."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & stat.S_IROTH)
