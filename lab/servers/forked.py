"""Zketcds for tests without their imports: a process that has imported the server forks each one.

The imports of `python -m serve` take 0.6 s of CPU, and a run of the tests starts hundreds. What is forked
differs from it by its command line in /proc, and by what fork() shares: memory, and the seed of hashes. As no
two replicas may agree because of one seed, two such processes take turns.

Here: the tests' end, then the process that forks.
"""

import atexit
import ctypes
import gc
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from itertools import cycle
from pathlib import Path
from typing import Final, NamedTuple

SERVE: Final = (sys.executable, "-m", "serve")

_REPOSITORY = Path(__file__).resolve().parents[2]
_PR_SET_PDEATHSIG = 1


class _Request(NamedTuple):
    arguments: Sequence[str]
    environment: dict[str, str]


class ForkedProcess:
    """A server that was forked, as far as a subprocess.Popen of one is used."""

    def __init__(self, parent: socket.socket) -> None:
        """`parent` says the process id, and later the status; its end is the server's, too."""
        self._parent = parent
        self.pid = int(parent.recv(16))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The status if the server has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The status: -9 if signal 9 ended it. Raises subprocess.TimeoutExpired after `timeout` seconds."""
        if self.returncode is None:
            self._parent.settimeout(timeout)
            try:
                self.returncode = int(self._parent.recv(16))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(SERVE, timeout or 0) from None
            self._parent.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Nothing is sent to one that has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def start(arguments: Sequence[str], environment: Mapping[str, str], log: int) -> ForkedProcess:
    """A `python -m serve` with these arguments, whose output goes to the file `log`."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        request = pickle.dumps(_Request(arguments, dict(environment)))
        socket.send_fds(next(_forking()), [request], [log, theirs.fileno()])
    return ForkedProcess(ours)


@cache
def _forking() -> Iterator[socket.socket]:
    """The two processes that fork, each by its socket, in turns. They end when this process does."""
    return cycle([_forking_process(), _forking_process()])


def _forking_process() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        program = f"import sys; from {__name__} import main; sys.exit(main({theirs.fileno()}))"
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=_REPOSITORY,
            # The servers' standard streams keep the mode that they are opened with here.
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            pass_fds=[theirs.fileno()],
        )
    atexit.register(process.wait)
    atexit.register(ours.close)  # first, for it is the sign to end
    return ours


def _fork_servers(requests: socket.socket) -> Sequence[str]:
    """Fork at each request, until the tests are gone; returns in a server's process, with its arguments."""
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        pickled, files, _, _ = socket.recv_fds(requests, 1 << 20, 2)
        if not files:
            os._exit(0)
        if os.fork() == 0:
            break
        for file in files:
            os.close(file)
    requests.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _end_with_parent()
    log, status = files
    _fork_and_tell(status)
    request: _Request = pickle.loads(pickled)
    os.setsid()
    for stream, file in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
        os.dup2(file, stream)
    os.closerange(3, max(files) + 2)
    threads = os.environ["UV_THREADPOOL_SIZE"]  # the server's imports have set it
    os.environ.clear()
    os.environ.update({"UV_THREADPOOL_SIZE": threads} | request.environment)
    sys.argv = ["serve", *request.arguments]
    sys.orig_argv = [*SERVE, *request.arguments]
    return request.arguments


def _reap(number: int, frame: object) -> None:
    """Of children that are ignored nobody would count the CPU."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _fork_and_tell(status: int) -> None:
    """Returns in a child. Its parent says which one it is, and how it ends: only a parent knows that."""
    pid = os.fork()
    if pid == 0:
        _end_with_parent()
        return
    os.write(status, str(pid).encode())
    _, ended = os.waitpid(pid, 0)
    os.write(status, str(os.waitstatus_to_exitcode(ended)).encode())
    os._exit(0)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main(requests: int) -> int:
    """The forking process, with the socket `requests`. Returns in each server's process, with its status."""
    server = import_module("serve.__main__")
    gc.freeze()  # else a collection in a server would copy what is shared
    arguments = _fork_servers(socket.socket(fileno=requests))
    status: int = server.guarded(partial(server.main, arguments), "zketcd", failed=0)
    return status
