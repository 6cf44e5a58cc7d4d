"""A command's wall time, memory and CPU, with all processes that it starts: the JVM, Python's workers.

Read from /proc several times a second. Memory is the largest sum seen: resident for the JVM, for Python its
proportional share (PSS), since forked workers share most of their pages. A process that lives shorter than
the interval may be missed.
"""

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.errors import BenchError

_INTERVAL = 0.25  # seconds
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MIB = 1 << 20


class Measured(NamedTuple):
    """What a command took. Memory is in MiB, times are in seconds."""

    output: str
    seconds: float
    cpu_jvm: float
    cpu_python: float
    cpu_etcd: float
    jvm: float
    python: float
    etcd: float
    others: float  # CPU of all other processes meanwhile, in cores

    @property
    def cpu(self) -> float:
        """The command's own, without etcd's."""
        return self.cpu_jvm + self.cpu_python


class _Process(NamedTuple):
    parent: int
    name: str
    cpu: float  # seconds
    resident: float  # MiB


def run(
    command: Sequence[str], *, etcd: int | None = None, environment: Mapping[str, str] | None = None
) -> Measured:
    """Run a command to its end. `etcd` is a pid to look at as well. Raises BenchError if it fails."""
    before, busy = _processes(), _busy()
    started = time.monotonic()
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    ) as process:
        watch = _Watch(process.pid, etcd)
        watch.start()
        output, errors = process.communicate()
        seconds = time.monotonic() - started
        watch.end()
    if process.returncode:
        raise BenchError(
            f"{' '.join(command[:6])} ...: ended with {process.returncode}: {errors[-2000:]}{output}"
        )
    cpu_etcd = 0.0 if etcd is None else _processes()[etcd].cpu - before[etcd].cpu
    cpu = watch.cpu
    ours = sum(cpu.values()) + cpu_etcd
    return Measured(
        output + errors,
        seconds,
        cpu["java"],
        cpu["python"],
        cpu_etcd,
        watch.most["java"],
        watch.most["python"],
        watch.most["etcd"],
        max(0.0, (_busy() - busy - ours) / seconds),
    )


class _Watch(threading.Thread):
    def __init__(self, root: int, etcd: int | None) -> None:
        super().__init__(daemon=True)
        self.most = {"java": 0.0, "python": 0.0, "etcd": 0.0}
        self._root = root
        self._etcd = etcd
        self._cpu: dict[int, tuple[str, float]] = {}
        self._ended = threading.Event()

    @property
    def cpu(self) -> dict[str, float]:
        """Seconds by role, as of the last look at each process."""
        sums = {"java": 0.0, "python": 0.0}
        for role, cpu in self._cpu.values():
            sums[role] += cpu
        return sums

    def run(self) -> None:
        """Look until told to end."""
        while not self._ended.wait(_INTERVAL):
            self._look()

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()
        self.join()

    def _look(self) -> None:
        processes = _processes()
        sums = dict.fromkeys(self.most, 0.0)
        for pid in _descendants(processes, self._root):
            found = processes[pid]
            role = "java" if found.name == "java" else "python"
            sums[role] += found.resident if role == "java" else _share(pid)
            self._cpu[pid] = (role, found.cpu)
        if self._etcd in processes:
            sums["etcd"] = processes[self._etcd].resident
        self.most = {role: max(most, sums[role]) for role, most in self.most.items()}


def _processes() -> dict[int, _Process]:
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            text = (folder / "stat").read_text()
        except OSError:
            continue  # it has ended meanwhile
        name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        cpu = (int(rest[11]) + int(rest[12])) / _TICK
        found[int(folder.name)] = _Process(int(rest[1]), name, cpu, int(rest[21]) * _PAGE / _MIB)
    return found


def _descendants(processes: Mapping[int, _Process], root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    found = [root] if root in processes else []
    for pid in found:
        found += children.get(pid, ())
    return found


def _share(pid: int) -> float:
    """MiB that are the process's own, or its share of what several share.

    Without pages of files: a snapshot is mapped, and the kernel keeps as much of it in memory as it likes.
    """
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0  # it has ended meanwhile
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))


def _busy() -> float:
    """CPU seconds of the whole machine since it started."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, softirq = map(int, fields[:7])
    return (user + nice + system + irq + softirq) / _TICK
