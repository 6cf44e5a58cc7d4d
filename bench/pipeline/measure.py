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
from typing import NamedTuple

from bench import costs
from bench.errors import BenchError

_INTERVAL = 0.25  # seconds
_MIB = 1 << 20
_ROLES = ("java", "driver", "workers")


class Measured(NamedTuple):
    """What a command took. Memory is in MiB, times are in seconds."""

    output: str
    seconds: float
    cpu_jvm: float
    cpu_python: float
    cpu_etcd: float
    jvm: float
    driver: float  # the command's own process
    workers: float  # Spark's, all together
    etcd: float
    others: float  # CPU of all other processes meanwhile, in cores

    @property
    def cpu(self) -> float:
        """The command's own, without etcd's."""
        return self.cpu_jvm + self.cpu_python


def run(
    command: Sequence[str], *, etcd: int | None = None, environment: Mapping[str, str] | None = None
) -> Measured:
    """Run a command to its end. `etcd` is a pid to look at as well. Raises BenchError if it fails."""
    before, busy = 0.0 if etcd is None else costs.cpu_seconds([etcd]), costs.busy_seconds()
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
    cpu_etcd = 0.0 if etcd is None else costs.cpu_seconds([etcd]) - before
    cpu = watch.cpu
    ours = sum(cpu.values()) + cpu_etcd
    return Measured(
        output + errors,
        seconds,
        cpu["java"],
        cpu["driver"] + cpu["workers"],
        cpu_etcd,
        watch.most["java"],
        watch.most["driver"],
        watch.most["workers"],
        watch.most["etcd"],
        max(0.0, (costs.busy_seconds() - busy - ours) / seconds),
    )


class _Watch(threading.Thread):
    def __init__(self, root: int, etcd: int | None) -> None:
        super().__init__(daemon=True)
        self.most = dict.fromkeys((*_ROLES, "etcd"), 0.0)
        self._root = root
        self._etcd = etcd
        self._cpu: dict[int, tuple[str, float]] = {}
        self._ended = threading.Event()

    @property
    def cpu(self) -> dict[str, float]:
        """Seconds by role, as of the last look at each process."""
        sums = dict.fromkeys(_ROLES, 0.0)
        for role, cpu in self._cpu.values():
            sums[role] += cpu
        return sums

    def run(self) -> None:
        """Look until `end` is called."""
        while not self._ended.wait(_INTERVAL):
            self._look()

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()
        self.join()

    def _look(self) -> None:
        sums = dict.fromkeys(self.most, 0.0)
        for pid in costs.process_tree(self._root):
            name, cpu = costs.name_of(pid), costs.cpu_seconds([pid])
            if not name or not cpu:
                continue  # it has ended meanwhile, or has not begun
            role = "java" if name == "java" else "driver" if pid == self._root else "workers"
            sums[role] += costs.resident_bytes([pid]) / _MIB if role == "java" else _share(pid)
            self._cpu[pid] = (role, cpu)
        if self._etcd is not None:
            sums["etcd"] = costs.resident_bytes([self._etcd]) / _MIB
        self.most = {role: max(most, sums[role]) for role, most in self.most.items()}


def _share(pid: int) -> float:
    """MiB that are the process's own, or its share of what several share.

    Without pages of files: a snapshot is mapped, and the kernel keeps as much of it in memory as it likes.
    """
    try:
        lines = (costs.PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0  # it has ended meanwhile
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
