"""Replace this process by another program that the kernel kills when our parent dies.

`python bound.py PARENT_PID PROGRAM [ARG...]`.

Run as a file of its own, since no Python can safely run between fork and exec of a process with threads, and
gRPC has many. Knows nothing of etcd. Linux only.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    """Ask the kernel to kill us when the parent dies, then exec. Exits 1 if that cannot be had."""
    parent = int(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:
        sys.exit("the parent has ended already")
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
