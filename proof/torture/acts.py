"""What faults are made of: processes end, stand still and start, links change."""

import contextlib
import os
import random
import signal
import subprocess
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from lab.servers import ServerProcess
from lab.servers.relay import Quality, Relays, Way

_STOPPED = Quality(stopped=True)
_STUTTER = (0.15, 0.05)  # seconds that a slow process stands still, and goes
_BLOCK = b"x" * (1 << 20)


class Fault(NamedTuple):
    """One fault that lasts: what it is, for people, and what ends it."""

    what: str
    end: Callable[[], None]
    last: bool = False
    """Whether other faults have to end before it."""


def kill(*servers: ServerProcess) -> None:
    """End those that run by SIGKILL."""
    for server in servers:
        if server.alive:
            server.kill()


def launch(*servers: ServerProcess) -> None:
    """Start those that do not run."""
    for server in servers:
        if not server.alive:
            server.launch()


def stop(server: ServerProcess) -> None:
    """End it by SIGTERM. Its clients may be out of reach, or the others: then it is killed after a while."""
    if server.alive:
        with contextlib.suppress(TimeoutError):
            server.stop()


def pause(server: ServerProcess) -> Callable[[], None]:
    """Stop a process; returns what continues it."""
    if not server.alive:
        return lambda: None
    server.pause()
    return lambda: server.resume() if server.alive else None


def stutter(server: ServerProcess) -> Callable[[], None]:
    """Have a process stand still for three quarters of the time; returns what ends that."""
    if not server.alive:
        return lambda: None
    process = server.pid

    def run(over: threading.Event) -> None:
        with contextlib.suppress(ProcessLookupError):
            while not over.is_set():
                os.kill(process, signal.SIGSTOP)
                over.wait(_STUTTER[0])
                os.kill(process, signal.SIGCONT)
                over.wait(_STUTTER[1])

    return in_thread(run)


def every(seconds: float, act: Callable[[], object]) -> Callable[[], None]:
    """Do something again and again; returns what ends that."""

    def again(over: threading.Event) -> None:
        while not over.is_set():
            # While etcd has no leader an operator gets an error, and tries again.
            with contextlib.suppress(RuntimeError, OSError, subprocess.SubprocessError):
                act()
            over.wait(seconds)

    return in_thread(again)


def fill(folder: Path) -> Path:
    """Leave no room in a small file system; returns the file that takes it."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(_BLOCK):
            pass
    return ballast


def in_thread(work: Callable[[threading.Event], None]) -> Callable[[], None]:
    """Begin some work; returns what sets its event and waits until it is done.

    If the work fails, that raises its exception.
    """
    over = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work(over)
        except BaseException as error:  # noqa: BLE001 - `end` raises it
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def end() -> None:
        over.set()
        thread.join()
        if failed:
            raise failed[0]

    return end


class Links:
    """The links between hosts."""

    def __init__(self, relays: Relays, chance: random.Random) -> None:
        self._relays = relays
        self._random = chance

    def cut(self, ways: Sequence[Way], who: str) -> Fault:
        """Stop all bytes on these ways."""
        return Fault(who, self._change(ways, _STOPPED))

    def one_way(self, there: Sequence[Way], back: Sequence[Way], who: str) -> Fault:
        """A host sends and hears nothing, or it hears and nothing arrives that it sends."""
        sends = self._random.random() < 0.5
        end = self._change(back if sends else there, _STOPPED)
        return Fault(f"{who} {'only sends' if sends else 'only hears'}", end)

    def cut_clients(self, clients: str, host: str) -> Fault:
        """Cut the links between clients and a server, one way or both ways."""
        there, back = [(clients, host)], [(host, clients)]
        if self._random.random() < 0.4:
            return self.cut([*there, *back], f"{host}, both ways")
        return self.one_way(there, back, f"clients of {host}:")

    def slow(self, ways: Sequence[Way], who: str) -> Fault:
        """Make links slow: by latency, or by little bandwidth."""
        latency, bandwidth = self._random.choice(
            ((0.02, 0.0), (0.2, 0.0), (1.0, 0.0), (0.0, 2e5), (0.05, 5e4))
        )
        end = self._change(ways, Quality(False, latency, bandwidth))
        return Fault(f"{who}: {latency * 1000:.0f} ms, {bandwidth / 1000:.0f} KB/s (0: unbounded)", end)

    def reset(self, ways: Collection[Way]) -> Fault:
        """All connections of these ways break, again and again."""
        seconds = self._random.choice((0.3, 1.0, 3.0))
        return Fault(f"each {seconds} s", every(seconds, lambda: self._relays.reset(set(ways))))

    def _change(self, ways: Sequence[Way], quality: Quality) -> Callable[[], None]:
        self._relays.change(dict.fromkeys(ways, quality))
        return lambda: self._relays.change(dict.fromkeys(ways, Quality()))
