"""The first process of a container, after an upgrade: it waits for the processes that serve.

The container ends with its first process, so that one cannot end after it has handed over. It becomes this
program, passes signals on to the process that serves, and ends with the status of the last one.
"""

import os
import signal
import sys
from pathlib import Path

from proxy.handover.__main__ import running

_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)


def main() -> int:
    """Wait until no process is left; the status of the last one."""
    status = 0
    for signum in _PASSED_ON:
        signal.signal(signum, _pass_on)
    while True:
        try:
            _, status = os.wait()
        except ChildProcessError:
            return os.waitstatus_to_exitcode(status) & 0xFF


def _pass_on(signum: int, _frame: object) -> None:
    for pid in running(Path("/proc/net/unix").read_text()):
        if pid != os.getpid():
            os.kill(pid, signum)


if __name__ == "__main__":
    sys.exit(main())
