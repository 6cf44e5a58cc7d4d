"""What a process becomes that has handed over and may not end: it waits for the processes that serve.

Whatever has started zketcd, other than systemd, takes the end of that process for the end of the service: a
container ends with its first process, as do tini, docker --init, supervisord and a shell. So that process
becomes this program. It passes signals on to the processes that it has started, directly or not, takes those
over that lose their parents, and ends with the status of the last one.
"""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from proxy.handover.names import serving

_ENDING = (signal.SIGTERM, signal.SIGINT)
_PASSED_ON = (*_ENDING, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)
_PR_SET_CHILD_SUBREAPER = 36


def is_needed(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the end of this process would be taken for the end of the service.

    systemd knows which process is the main one now, unless it looks at a container from outside.
    """
    return os.getpid() == 1 or not environment.get("NOTIFY_SOCKET")


def obstacle() -> str:
    """Why this process cannot become that program; empty if it can, or need not."""
    if is_needed():
        try:
            serving()
        except OSError as error:
            return (
                f"{error.filename} cannot be read, without which signals are not passed on: restart instead"
            )
    return ""


def pass_on_to(successor: int, loop: asyncio.AbstractEventLoop) -> None:
    """Pass signals on to the process that has taken over, until this one is this program."""
    passed: list[int] = []  # and not seen by the loop yet, which comes later

    def pass_on(signum: int, _frame: object = None) -> None:
        passed.append(signum)
        with suppress(ProcessLookupError):
            os.kill(successor, signum)

    def seen(signum: int) -> None:
        if signum not in passed:  # it came before
            pass_on(signum)
        passed.remove(signum)

    for signum in _PASSED_ON:
        loop.add_signal_handler(signum, seen, signum)
        signal.signal(signum, pass_on)


def become() -> None:
    """Continue as this program. Signals wait meanwhile, or are in a pipe if another thread has taken them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)  # in this thread, which remains
    taken, by_other_threads = os.pipe()
    os.set_inheritable(taken, True)
    os.set_blocking(by_other_threads, False)
    signal.set_wakeup_fd(by_other_threads)
    safe_path = ["-P"] if sys.flags.safe_path else []
    os.execv(sys.executable, [sys.executable, *safe_path, "-m", __name__, str(taken)])


def main(pipes: Sequence[str]) -> int:
    """Wait until no process is left; the status of the last one. `pipes`: that of `become`, if it makes one.

    This may be another release than the one that was there before.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # A handler would wait for the next signal if one comes just before `os.wait` does: so all stay blocked.
    awaited = {*_PASSED_ON, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # who started this may have it ignored, and it never comes
    served: set[int] = set()
    for pipe in pipes:
        with open(int(pipe), "rb") as taken:
            for signum in taken.read():
                _pass_on(signum, served)
    status = 0
    while True:
        try:
            while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                _, status = ended
        except ChildProcessError:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        signum = signal.sigwait(awaited)
        if signum != signal.SIGCHLD:
            _pass_on(signum, served)


def _pass_on(signum: int, served: set[int]) -> None:
    """`served`: the processes that have served so far. One that drains does not any more."""
    served &= set(descendants(os.getpid()))
    served |= serving()
    for pid in receivers(signum, os.getpid(), served):
        with suppress(ProcessLookupError):
            os.kill(pid, signum)


def receivers(
    signum: int, ancestor: int, served: Collection[int], processes: Path = Path("/proc")
) -> Iterator[int]:
    """The processes that get a signal for the first one, `ancestor`. `served`: those that serve, or drain.

    What one of them has started is its own to end: as it drains, it still needs its archiver.
    """
    for pid, between in _descent(ancestor, processes):
        # The other signals would end one that does not serve yet.
        if pid in served or (signum in _ENDING and not any(each in served for each in between)):
            yield pid


def descendants(ancestor: int) -> Iterator[int]:
    """The processes that this one has started, and those that they have started."""
    return (pid for pid, _ in _descent(ancestor, Path("/proc")))


def _descent(ancestor: int, processes: Path) -> Iterator[tuple[int, Sequence[int]]]:
    """The descendants of a process, each with those between the two."""
    parents: dict[int, int] = {}
    for folder in processes.glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it has ended
        parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    for pid in sorted(parents):
        between: list[int] = []
        above = parents[pid]
        while above in parents and above != ancestor:
            between.append(above)
            above = parents[above]
        if above == ancestor:
            yield pid, between


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
