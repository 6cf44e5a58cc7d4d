"""A large tree, a tenth of it in one directory: what long work takes, and how long another client waits then.

The tree is written as a snapshot of ZooKeeper: `zketcd import` loads it, and ZooKeeper starts on it. The
other client does a get and a set every 20 ms. A get needs no etcd: it waits only for a server that is busy.
"""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import costs, summary, wire
from bench.errors import BenchError, EffectsDiffer
from bench.load import Admin, open_sessions, receive_exactly
from bench.scenarios import Cell, Table
from bench.scenarios.memory import live_heap, write_snapshot
from bench.scenarios.pipeline import rows, write
from bench.servers import ETCD_OPTIONS
from lab.servers import EtcdServer, UpgradableServer, ZooKeeperServer, wait_until
from lab.servers.process import REPOSITORY

SIZE = 1_000_000  # znodes
LARGEST = b"/d000000"
OTHER = b"/d000001"
"""What the other client reads and writes."""
_TIMEOUT_S = 900.0
_QUIET_S = 5.0
_INTERVAL_S = 0.02
"""Between two rounds of the other client."""
_LOOK_S = 0.25
"""Between two looks at the processes."""
_MB = 1e6
_TRANSACTIONS = 20_000
"""After so many ZooKeeper writes a snapshot."""
_HEAD = ["server", "what", "s", "CPU s", "CPU s of etcd", "most memory, MB", "of etcd, MB"]
_HEAD += ["a get: p50, ms", "p99", "longest", "a set: p50, ms", "p99", "longest"]


def run(scale: float) -> Table:
    """A million znodes at scale 1."""
    count = max(4000, round(SIZE * scale))
    largest = count // 10
    found: list[list[Cell]] = []
    with TemporaryDirectory(prefix="zketcd-bench-") as folder:
        print(f"  making {count:,} znodes", file=sys.stderr, flush=True)
        write(Path(folder), rows(count, largest))
        found += _zketcd(Path(folder), largest)
        found += _zookeeper(Path(folder), largest, count)
    return Table(
        f"A tree of {count:,} znodes of 100 bytes, {largest:,} of them in one directory", _HEAD, found
    )


def _zketcd(source: Path, largest: int) -> list[list[Cell]]:
    with ExitStack() as stack:
        etcd = stack.enter_context(EtcdServer(*ETCD_OPTIONS, start_timeout=_TIMEOUT_S))
        server = UpgradableServer(etcd.endpoint, max_client_connections=0, start_timeout=_TIMEOUT_S)
        stack.callback(server.close)
        trial = Trial("zketcd", stack, etcd)
        with trial.row("import"):
            command = [
                sys.executable,
                "-m",
                "zketcd",
                "import",
                str(source),
                "--etcd",
                etcd.endpoint,
                "--no-spark",
            ]
            done = subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True, text=True)
            if done.returncode:
                raise BenchError(f"import: {done.stderr[-2000:]}")
        with trial.row("start"):
            server.start()
        trial.client(server.port)
        with trial.row("nothing else"):
            time.sleep(_QUIET_S)
        with trial.row("a snapshot"):
            write_snapshot(etcd.endpoint)
        _list(trial, server.port, largest)
        with trial.row("an upgrade"):
            said = server.upgrade()
            if "has taken over" not in said:
                raise EffectsDiffer(said)
        _delete(trial, server.port, largest)
        trial.client(None)
        server.stop()
        with trial.row("a start again"):
            server.start()
    return trial.rows


def _zookeeper(source: Path, largest: int, count: int) -> list[list[Cell]]:
    with ExitStack() as stack:
        server = ZooKeeperServer(
            max_client_connections=0,
            java_options=(f"-Xmx{512 + count // 1000}m",),
            settings={"snapCount": str(_TRANSACTIONS)},
            start_timeout=_TIMEOUT_S,
        )
        stack.callback(server.close)
        trial = Trial("zookeeper", stack)
        shutil.copytree(source / "version-2", server.data_dir / "version-2")
        with trial.row("start"):
            server.start()
        heap = live_heap(server)
        trial.client(server.port)
        with trial.row("nothing else"):
            time.sleep(_QUIET_S)
        trial.rows.append(["zookeeper", "live heap", "", "", "", heap / _MB, "", *[""] * 6])
        with trial.row("a snapshot"):
            _have_snapshot(server)
        _list(trial, server.port, largest)
        _delete(trial, server.port, largest)
        trial.client(None)
        server.stop(_TIMEOUT_S)
        with trial.row("a start again"):
            server.start()
    return trial.rows


class Trial:
    """One server on the tree, with its rows of the table."""

    def __init__(self, name: str, stack: ExitStack, etcd: EtcdServer | None = None) -> None:
        self.rows: list[list[Cell]] = []
        self._name = name
        self._etcd = etcd
        self._client: Client | None = None
        self._meter = stack.enter_context(Meter(etcd))
        stack.callback(self.client, None)

    def client(self, port: int | None) -> None:
        """Begin with the other client; with None, end."""
        if self._client is not None:
            self._client.end()
        self._client = None
        if port is not None:
            self._client = Client(port)
            self._meter.leave_out(self._client.pid)

    @contextmanager
    def row(self, what: str) -> Iterator[None]:
        """What the block takes, and what the other client feels meanwhile."""
        print(f"  {self._name}: {what}", file=sys.stderr, flush=True)
        if self._client is not None:
            self._client.waits()
        before = self._meter.begin()
        begun = time.perf_counter()
        yield
        took = time.perf_counter() - begun
        after = self._meter.look()
        waits = [""] * 6 if self._client is None else self._client.waits()
        cpu = [end - begin for begin, end in zip(before, after, strict=True)]
        memory = [most / _MB for most in self._meter.most]
        row: list[Cell] = [self._name, what, took, *cpu, *memory, *waits]
        if self._etcd is None:
            row[4] = row[6] = ""
        print(f"  {row}", file=sys.stderr, flush=True)
        self.rows.append(row)


class Meter:
    """CPU time and memory of what this process has started: of the servers, and of etcd."""

    def __init__(self, etcd: EtcdServer | None) -> None:
        self.most = [0, 0]
        """Bytes that were resident at once."""
        self._etcds = {etcd.pid} if etcd is not None else set()
        self._known = {os.getpid(), *self._etcds}
        self._left_out = {os.getpid()}
        self._cpu: dict[int, float] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Meter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def leave_out(self, pid: int) -> None:
        """Not to count a process."""
        self._left_out.add(pid)

    def begin(self) -> list[float]:
        """As `look`; `most` begins anew."""
        self.most = [0, 0]
        return self.look()

    def look(self) -> list[float]:
        """Seconds of CPU time so far."""
        with self._lock:
            self._known.update(costs.process_tree(*self._known))
            groups = [self._known - self._left_out - self._etcds, self._etcds]
            self.most = [
                max(most, costs.resident_bytes(pids)) for most, pids in zip(self.most, groups, strict=True)
            ]
            for pid in self._known:
                self._cpu[pid] = max(self._cpu.get(pid, 0.0), costs.cpu_seconds([pid]))
            return [sum(self._cpu[pid] for pid in pids) for pids in groups]

    def _run(self) -> None:
        while not self._over.wait(_LOOK_S):
            self.look()


class Client:
    """The other client, in a process of its own, so that nothing here delays it."""

    def __init__(self, port: int) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(port, theirs), daemon=True)
        self._process.start()
        self.pid = self._process.pid or 0
        self.waits()

    def waits(self) -> list[Cell]:
        """Of its gets and its sets since the last call: p50, p99 and the longest wait, in ms."""
        self._pipe.send("waits")
        found: list[Cell] = []
        for waits in self._pipe.recv():
            found += [
                each / 1e6 for each in summary.percentiles([(wait, 1) for wait in waits], (0.5, 0.99, 1.0))
            ]
        return found

    def end(self) -> None:
        """Close its session."""
        self._pipe.send("end")
        self._process.join()


def _work(port: int, pipe: Pipe) -> None:
    """Get and set until asked to end."""
    get = wire.GET_DATA, wire.read_body(OTHER)
    put = wire.SET_DATA, wire.set_body(OTHER, b"still here")
    waits: tuple[list[int], list[int]] = ([], [])
    with Admin(port) as admin:
        due = time.monotonic()
        while True:
            for found, request in zip(waits, (get, put), strict=True):
                begun = time.perf_counter_ns()
                admin.call(*request)
                found.append(time.perf_counter_ns() - begun)
            if pipe.poll():
                if pipe.recv() == "end":
                    break
                pipe.send(waits)
                waits = ([], [])
            due = max(due + _INTERVAL_S, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
        admin.close_session()


def _list(trial: Trial, port: int, largest: int) -> None:
    """The names of the largest directory, twice: the second time the server may have them in one piece."""
    for what in ("list the directory", "list it again"):
        with trial.row(what):
            _names(port, largest)


def _names(port: int, largest: int) -> list[bytes]:
    with open_sessions(port, 1) as (sock,):
        sock.sendall(wire.packet(1, wire.GET_CHILDREN, wire.read_body(LARGEST)))
        (size,) = wire.INT.unpack(receive_exactly(sock, 4))
        reply = receive_exactly(sock, size)
    names = wire.decode_names(reply[wire.REPLY_SIZE - 4 :])
    if len(names) != largest - 1:
        raise EffectsDiffer(f"{len(names)} children instead of {largest - 1}")
    return names


def _delete(trial: Trial, port: int, largest: int) -> None:
    """Delete the largest directory as clients do: node after node, 256 on the way."""
    names = _names(port, largest)
    with trial.row("delete the directory"), Admin(port) as admin:
        paths = [LARGEST + b"/" + name for name in names]
        admin.call_many((wire.DELETE, wire.delete_body(path)) for path in [*paths, LARGEST])
        admin.close_session()


def _have_snapshot(server: ZooKeeperServer) -> None:
    """Write as much as ZooKeeper needs to begin a snapshot, and wait for its end."""
    folder = server.data_dir / "version-2"
    before = set(folder.glob("snapshot.*"))
    with Admin(server.port) as admin:
        while not (new := set(folder.glob("snapshot.*")) - before):
            admin.call_many([(wire.SET_DATA, wire.set_body(OTHER, b"often"))] * 256)
        admin.close_session()
    sizes = [-1]

    def is_done() -> bool:
        sizes.append(max(new).stat().st_size)
        return sizes[-1] == sizes[-min(len(sizes), 20)] > 0

    wait_until(is_done, "the snapshot's end", _TIMEOUT_S)
