"""One server process: start, wait until it serves, stop, kill, pause, resume, and its log.

Each server owns a temporary folder with its data and log; stop() and start() again keep data and port.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, Self

from lab.servers.forked import ForkedProcess
from lab.servers.ports import free_port

REPOSITORY = Path(__file__).resolve().parents[2]

_LOG_TAIL = 8_000
_POLL = 0.02


class BinaryMissing(Exception):
    """A server cannot be started because a program or a library that it needs is not installed."""


class StartFailed(Exception):
    """A server ended, or did not serve in time; the message ends with its log."""


class ServerLog(NamedTuple):
    """The end of one server's log, for the report of a failed test."""

    server: str
    tail: str


# A thread that stays until the end.
_starter = ThreadPoolExecutor(1, "start servers")

running: list["ServerProcess"] = []
closed_logs: deque[ServerLog] = deque(maxlen=12)


def recent_logs() -> list[ServerLog]:
    """The ends of the logs of the servers that run, and of those closed since closed_logs was cleared."""
    return [*closed_logs, *(ServerLog(server.name, server.log_tail()) for server in running)]


class ServerProcess:
    """Base of the starters. A subclass says what to run (`command`) and when it serves (`serves`)."""

    kind = "server"

    def __init__(self, *, port: int | None = None, start_timeout: float = 60.0) -> None:
        """`start_timeout` is in seconds; a port is chosen where none is given."""
        self.port = port if port is not None else free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"zketcd-test-{self.kind}-"))
        self.log_path = self.folder / "log"
        self.data_dir = self.folder / "data"
        self._start_timeout = start_timeout
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self._log_start = 0

    # What a subclass says

    def command(self) -> Sequence[str]:
        """The command line. Raises BinaryMissing if it cannot be run here."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        """Variables to add to the environment."""
        return {}

    def serves(self) -> bool:
        """Whether the server answers its clients now."""
        raise NotImplementedError

    # What a test uses

    @property
    def name(self) -> str:
        """What the server is called in reports."""
        return f"{self.kind} on port {self.port}"

    @property
    def address(self) -> str:
        """`host:port` for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id. Raises RuntimeError if the server does not run."""
        return self._running().pid

    @property
    def alive(self) -> bool:
        """Whether the process exists (also while it is paused)."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start the process and wait until it serves. Raises BinaryMissing or StartFailed."""
        self.launch()
        self.wait_until_serving()
        return self

    def launch(self) -> None:
        """Start the process without waiting for it. Raises BinaryMissing."""
        if self.alive:
            raise RuntimeError(f"{self.name} runs already")
        with self.log_path.open("ab") as log:
            self._log_start = log.tell()
            self._process = self._begin(self.command(), {**os.environ, **self.environment()}, log)
        running.append(self)

    def _begin(
        self, command: Sequence[str], environment: Mapping[str, str], log: IO[bytes]
    ) -> subprocess.Popen[bytes] | ForkedProcess:
        # setpriv replaces itself by the server, so the pid stays; the kernel ends the server if pytest dies.
        # More exactly: if the thread ends that has started it.
        setpriv = shutil.which("setpriv")
        return _starter.submit(
            subprocess.Popen,
            [*((setpriv, "--pdeathsig", "KILL") if setpriv else ()), *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=REPOSITORY,
            env=environment,
            start_new_session=True,
        ).result()

    def wait_until_serving(self) -> None:
        """Wait until the server serves. Raises StartFailed if it ends or is late; it is dead then."""
        deadline = time.monotonic() + self._start_timeout
        while not self.serves():
            process = self._running()
            status = process.poll()
            if status is not None:
                self._forget()
                raise StartFailed(f"{self.name} ended with status {status}:\n{self.log_tail()}")
            if time.monotonic() >= deadline:
                self.kill()
                raise StartFailed(
                    f"{self.name} did not serve within {self._start_timeout} s:\n{self.log_tail()}"
                )
            time.sleep(_POLL)

    def stop(self, timeout: float = 30.0) -> int:
        """End the server by SIGTERM and return its exit status; the data stay for another start().

        Raises TimeoutError (and kills it) if it has not ended after `timeout` seconds.
        """
        self._running().send_signal(signal.SIGTERM)
        with suppress(ProcessLookupError):
            self.resume()  # a paused server sees the SIGTERM only then
        return self.wait(timeout)

    def wait(self, timeout: float = 30.0) -> int:
        """Wait for the server to end and return its exit status; kills it and raises TimeoutError if late."""
        process = self._running()
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"{self.name} did not end within {timeout} s:\n{self.log_tail()}") from None
        self._forget()
        return status

    def kill(self) -> None:
        """End the server by SIGKILL, as a crash would; the data stay."""
        process = self._running()
        process.kill()
        process.wait()
        self._forget()

    def pause(self) -> None:
        """Stop the process in its tracks (SIGSTOP); its connections stay open and silent."""
        os.kill(self.pid, signal.SIGSTOP)
        # Its threads may run on for a moment.
        while not all(state in "TZ" for state in _thread_states(self.pid)):
            time.sleep(0.001)

    def resume(self) -> None:
        """Resume a paused process (SIGCONT)."""
        os.kill(self.pid, signal.SIGCONT)

    def restart(self, timeout: float = 30.0) -> Self:
        """stop(timeout) and start() on the same data and port."""
        self.stop(timeout)
        return self.start()

    def log_text(self) -> str:
        """The log since the last start."""
        if not self.log_path.exists():
            return ""
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def log_tail(self) -> str:
        """The end of the log since the last start."""
        return self.log_text()[-_LOG_TAIL:]

    def close(self) -> None:
        """End the server if it runs, and remove its files; the end of its log is kept for recent_logs()."""
        if self.alive:
            self.kill()
        if self.folder.exists():
            closed_logs.append(ServerLog(self.name, self.log_tail()))
            shutil.rmtree(self.folder)

    def __enter__(self) -> Self:
        try:
            return self if self.alive else self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _running(self) -> subprocess.Popen[bytes] | ForkedProcess:
        if self._process is None:
            raise RuntimeError(f"{self.name} does not run")
        return self._process

    def _forget(self) -> None:
        self._process = None
        if self in running:
            running.remove(self)


def lives(pid: int) -> bool:
    """Whether a process has not ended; the kernel keeps the number of one that was not waited for."""
    try:
        return _state(Path(f"/proc/{pid}")) != "Z"
    except OSError:
        return False


def _thread_states(pid: int) -> list[str]:
    found: list[str] = []
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):
            found.append(_state(thread))
    return found


def _state(folder: Path) -> str:
    """A letter, see "state" in proc(5); `folder` is a process's or a thread's."""
    return (folder / "stat").read_text().rpartition(")")[2].split()[0]


def children_of(pid: int) -> list[int]:
    """The processes that the threads of a process have started, and that have not ended."""
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended: its children are another one's
            found += map(int, children.read_text().split())
    return found


def find_program(name: str, advice: str) -> str:
    """The path of a program. Raises BinaryMissing with `advice` (how to get it) if it is not there."""
    # Debian keeps servers in /usr/sbin, which is not on every user's PATH.
    path = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"]))
    if path is None:
        raise BinaryMissing(f"{name} is not installed: {advice}")
    return path
