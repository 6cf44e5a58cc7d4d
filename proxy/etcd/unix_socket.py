"""Unix sockets, whose paths may be longer than the kernel takes. Blocks only for an `open`."""

import contextlib
import os
from collections.abc import Iterator

_LONGEST = 107  # bytes of `sun_path` in unix(7), less the zero at its end


@contextlib.contextmanager
def reachable(path: str) -> Iterator[str]:
    """A path of the same socket for connect(2), valid inside the block: a long one leads through its folder.

    So does one with a comma, where an address ends for grpc. Raises OSError.
    """
    if len(os.fsencode(path)) <= _LONGEST and "," not in path:
        yield path
        return
    folder, name = os.path.split(path)
    opened = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{opened}/{name}"
    finally:
        os.close(opened)
