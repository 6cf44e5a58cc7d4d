"""Makes changes of a directory survive a power cut; for programs that promise it, not for the event loop."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Write a directory to the disk: what was made, renamed and deleted in it so far. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
