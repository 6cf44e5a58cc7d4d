"""The pipeline's commands on a large tree: time, CPU time and memory of all their processes, by both engines.

The tree is written as a snapshot of ZooKeeper, imported into an etcd, compared, inspected and exported. The
last row is ZooKeeper's own reader of snapshots.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import costs
from bench.data import data
from bench.errors import BenchError
from bench.scenarios import Cell, Table
from bench.scenarios.memory import PER_DIRECTORY
from bench.servers import ETCD_OPTIONS
from lab.servers import EtcdServer
from lab.servers.process import REPOSITORY
from lab.servers.zookeeper import java_program, zookeeper_classpath
from pipeline.batches import of_rows
from pipeline.sources.zookeeper_sink import SinkOptions, ZooKeeperWriter, folder_of
from pipeline.table import ZNODES, ZnodeRow

SIZE = 1_000_000  # znodes
ENGINES = ("--no-spark", "--spark")
_FIXED = {"/": 1, "/zookeeper": 2, "/zookeeper/config": 0, "/zookeeper/quota": 0}
"""What every tree has -> children, without those of `rows`."""
_TIME_MS = 1_700_000_000_000
_INTERVAL = 0.25  # seconds between two looks at the processes
_MIB = 1 << 20
_HEAD = ["command", "znodes", "s", "znodes/s", "CPU s: JVM", "Python", "etcd"]
_HEAD += ["MiB: JVM", "driver", "workers", "etcd"]


def rows(count: int, largest: int = PER_DIRECTORY) -> Iterator[ZnodeRow]:
    """A tree of so many znodes, parents first: one directory with `largest`, the others with a thousand."""
    left = count - len(_FIXED)
    sizes = [largest, *repeat(PER_DIRECTORY, -(-(left - largest) // PER_DIRECTORY))]
    for zxid, (path, below) in enumerate(_FIXED.items()):
        yield _row(path, b"", zxid, below + (len(sizes) if path == "/" else 0))
    number = 0
    for directory, size in enumerate(sizes):
        for index in range(min(size, left - number)):
            path = f"/d{directory:06d}" + (f"/n{index:06d}" if index else "")
            below = 0 if index else min(size, left - number) - 1
            yield _row(path, data(number), number + len(_FIXED), below)
            number += 1


def _row(path: str, value: bytes, zxid: int, below: int) -> ZnodeRow:
    at = _TIME_MS + zxid
    return ZnodeRow(path, value, None, zxid, zxid, zxid + below, at, at, 0, below, 0, 0)


def run(scale: float) -> Table:
    """A million znodes at scale 1; without Spark only, at a small scale."""
    count = max(2 * PER_DIRECTORY, round(SIZE * scale))
    found: list[list[Cell]] = []
    with TemporaryDirectory(prefix="zketcd-bench-") as folder:
        source = Path(folder, "source")
        print(f"  making {count:,} znodes", file=sys.stderr, flush=True)
        write(source, rows(count))
        for engine in ENGINES if scale > 0.05 else ENGINES[:1]:
            with EtcdServer(*ETCD_OPTIONS) as etcd:
                side, exported = f"etcd://{etcd.address}/zketcd", Path(folder, f"exported{engine}")
                for name, arguments in {
                    "import": (source, "--etcd", etcd.endpoint),
                    "verify": (source, side),
                    "inspect": (side,),
                    "export": (exported, "--etcd", etcd.endpoint),
                    "verify files": (source, exported),
                }.items():
                    print(f"  {name} {engine} ...", file=sys.stderr, flush=True)
                    command = [sys.executable, "-m", "zketcd", name.partition(" ")[0]]
                    figures = measured([*command, *map(str, arguments), engine], etcd.pid)
                    found.append([f"{name} {engine}", count, figures[0], count / figures[0], *figures[1:]])
        (snapshot,) = (source / "version-2").glob("snapshot.*")
        java = [java_program(), "-Dorg.apache.logging.log4j.level=ERROR", "-cp", zookeeper_classpath()]
        figures = measured([*java, "org.apache.zookeeper.server.SnapshotFormatter", str(snapshot)], None)
        found.append(["SnapshotFormatter", count, figures[0], count / figures[0], *figures[1:]])
    return Table("The pipeline's commands, each with the start and end of its processes", _HEAD, found)


def write(folder: Path, tree: Iterator[ZnodeRow]) -> None:
    """Write the tree as a snapshot of ZooKeeper."""
    options = SinkOptions(folder_of(str(folder)), None, (), "full", "", overwrite=False)
    writer = ZooKeeperWriter(options, ZNODES.names)
    writer.commit([writer.write(of_rows(tree))])


def measured(command: Sequence[str], etcd: int | None) -> list[float]:
    """Run a command to its end: seconds, CPU seconds by role, and the most MiB by role, as in _HEAD.

    `etcd` is the pid of a process that works for it. Raises BenchError if the command fails.
    """
    others = [] if etcd is None else [etcd]
    before, started = costs.cpu_seconds(others), time.monotonic()
    with subprocess.Popen(
        command,
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MASTER": "local[2]"} if "--spark" in command else None,
    ) as process:
        watch = _Watch(process.pid, others)
        watch.start()
        _, errors = process.communicate()
        seconds = time.monotonic() - started
        watch.end()
    if process.returncode:
        raise BenchError(f"{' '.join(command)}: ended with {process.returncode}: {errors[-2000:]}")
    cpu = watch.cpu()
    spent = [cpu["java"], cpu["driver"] + cpu["workers"], costs.cpu_seconds(others) - before]
    return [seconds, *spent, *watch.most.values()]


class _Watch(threading.Thread):
    """Looks at a command's processes several times a second. One that lives shorter may be missed."""

    def __init__(self, root: int, others: Sequence[int]) -> None:
        super().__init__(daemon=True)
        self.most = dict.fromkeys(("java", "driver", "workers", "etcd"), 0.0)
        """The largest sums of MiB: resident for etcd, for the others their own share of anonymous memory."""
        self._root = root
        self._others = others
        self._cpu: dict[int, tuple[str, float]] = {}
        self._ended = threading.Event()

    def cpu(self) -> dict[str, float]:
        """Seconds by role, as of the last look at each process."""
        sums = dict.fromkeys(self.most, 0.0)
        for role, cpu in self._cpu.values():
            sums[role] += cpu
        return sums

    def run(self) -> None:
        """Look until `end` is called."""
        while not self._ended.wait(_INTERVAL):
            sums = dict.fromkeys(self.most, 0.0) | {"etcd": costs.resident_bytes(self._others) / _MIB}
            for pid in costs.process_tree(self._root):
                name, cpu = costs.name_of(pid), costs.cpu_seconds([pid])
                if name and cpu:  # else it has ended meanwhile, or has not begun
                    role = "java" if name == "java" else "driver" if pid == self._root else "workers"
                    sums[role] += _share(pid)
                    self._cpu[pid] = (role, cpu)
            self.most = {role: max(most, sums[role]) for role, most in self.most.items()}

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()
        self.join()


def _share(pid: int) -> float:
    """MiB of the process, and its share of what forked processes share, without pages of files."""
    try:
        lines = (costs.PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0  # it has ended meanwhile
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
