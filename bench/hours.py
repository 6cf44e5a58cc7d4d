"""`python -m bench.hours`: hours of load in pieces. Does anything grow, or become slower?

Three proxies on one etcd, which may append together. Clients insert as ClickHouse's replicas do, pass locks
round by ZooKeeper's recipe, and wait for the events of watches; the tree stays as large as it is. Every five
minutes a proxy is upgraded, restarted or killed, or etcd is restarted, killed or compacted.

A run goes on where the one before it ended: its folder has etcd's data, and a line of figures a minute. At
the end a table of the hours is printed, and drawn. The exit code is 1 if a session was lost, or a client saw
an error other than a lost connection.
"""

import json
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import cycle, pairwise
from pathlib import Path
from statistics import median
from typing import Any

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import ConnectionLoss, KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from bench import costs, summary
from bench.errors import BenchError
from bench.run import rotated
from bench.scenarios import Cell, Table, markdown
from bench.servers import ETCD_OPTIONS
from lab.arguments import number, output_folder, seconds
from lab.servers import BinaryMissing, EtcdServer, StartFailed, UpgradableServer, free_port
from lab.servers.four_letter import four_letter_word
from lab.servers.operator import compact, metric
from lab.servers.process import ServerProcess
from proxy.support.stdout import guarded
from proxy.support.usage import Parser

WRITERS = 4
INSERTS_A_SECOND = 4.0  # of a writer
KEPT = 500  # inserts of a writer whose nodes stay
LOCKS = 3  # three clients queue up for each
HOLD, PAUSE = 0.2, 0.2  # seconds that a client has its lock, and until it asks for it again
SESSION_TIMEOUT = 30.0
HOUR = 3600.0
MIB = 2**20
ROOT = "/hours"

Sample = Mapping[str, Any]


class Seen:
    """What the clients have seen since the last look; they run in threads."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.lost_sessions = 0
        self.errors: list[str] = []
        self._lock = threading.Lock()
        self._latencies: dict[str, list[tuple[int, int]]] = {}

    def took(self, what: str, seconds: float) -> None:
        """Something was done in so many seconds."""
        with self._lock:
            self._latencies.setdefault(what, []).append((round(seconds * 1e6), 1))

    def state(self, state: str) -> None:
        """kazoo's state of a session."""
        if state == KazooState.LOST:
            self.lost_sessions += 1

    def figures(self) -> dict[str, float]:
        """How often each thing was done since the last call, and how long it took in milliseconds."""
        with self._lock:
            taken, self._latencies = self._latencies, {}
        found: dict[str, float] = {}
        for what, latencies in taken.items():
            middle, late = summary.percentiles(latencies, (0.5, 0.99))
            found |= {f"{what}s": len(latencies), f"{what} p50": middle / 1e3, f"{what} p99": late / 1e3}
        return found


class Client(threading.Thread):
    """One session, and what it does again and again until the run ends."""

    def __init__(self, seen: Seen, hosts: str) -> None:
        super().__init__()
        self.seen = seen
        forever = KazooRetry(max_tries=-1, delay=0.05, backoff=1, max_delay=0.5)
        self.zk = KazooClient(
            hosts,
            timeout=SESSION_TIMEOUT,
            randomize_hosts=False,
            connection_retry=forever,
            command_retry=forever.copy(),
        )
        self.zk.add_listener(seen.state)
        self.zk.start(timeout=60)

    def run(self) -> None:
        """Do it until the run ends; an error ends this client, and the run says so."""
        try:
            while not self.seen.stopping.is_set():
                self.step()
        except (KazooException, KazooTimeoutError) as error:
            if not self.seen.stopping.is_set():
                self.seen.errors.append(f"{type(self).__name__}: {error!r}")

    def step(self) -> None:
        """Do it once."""
        raise NotImplementedError

    def close(self) -> None:
        """End the session."""
        self.zk.remove_listener(self.seen.state)
        self.zk.stop()
        self.zk.close()


class Writer(Client):
    """A replica of ClickHouse: a log entry, a block and a part an insert; what is old goes."""

    def __init__(self, seen: Seen, hosts: str, name: str) -> None:
        super().__init__(seen, hosts)
        self._own = f"{ROOT}/{name}"
        self._number = 0
        self._parts: deque[tuple[str, ...]] = deque()
        self._next = time.monotonic()
        for path in (f"{ROOT}/log", f"{ROOT}/blocks", f"{self._own}/parts"):
            self.zk.ensure_path(path)

    def step(self) -> None:
        """One insert at its time, and the oldest one's nodes go."""
        self._next += 1 / INSERTS_A_SECOND
        if self.seen.stopping.wait(max(0.0, self._next - time.monotonic())):
            return
        begun = time.monotonic()
        self.zk.retry(self.zk.get, f"{self._own}/parts")
        self._number += 1
        name = f"{self._own.rpartition('/')[2]}-{self._number:09}"
        block, part = f"{ROOT}/blocks/{name}", f"{self._own}/parts/{name}"
        entry = self._commit(
            lambda multi: (
                multi.create(block, b"x" * 30),
                multi.create(part, b"x" * 100),
                multi.check(self._own, 0),
                multi.create(f"{ROOT}/log/log-", b"x" * 150, sequence=True),
            )
        )
        self.seen.took("insert", time.monotonic() - begun)
        # An entry whose name went with the connection stays until the next run.
        self._parts.append((block, part, *entry[3:4]))
        if len(self._parts) > KEPT:
            oldest = self._parts.popleft()
            self._commit(lambda multi: [multi.delete(path) for path in oldest])

    def _commit(self, fill: Callable[[Any], object]) -> Sequence[str]:
        """The results of a transaction; none if a try that lost its connection had already done it."""
        tries = 0
        while not self.seen.stopping.is_set():
            multi = self.zk.transaction()
            fill(multi)
            tries += 1
            try:
                results = multi.commit()
            except ConnectionLoss:
                self.seen.stopping.wait(0.05)
                continue
            refused = [result for result in results if isinstance(result, KazooException)]
            if not refused:
                return [str(result) for result in results]
            if tries == 1 or not isinstance(refused[0], NodeExistsError | NoNodeError):
                raise refused[0]
            return []
        return []


class Contender(Client):
    """Takes a lock, holds it for a moment, and queues up again."""

    def __init__(self, seen: Seen, hosts: str, lock: int) -> None:
        super().__init__(seen, hosts)
        self._lock = self.zk.Lock(f"{ROOT}/locks/{lock}", str(lock))

    def step(self) -> None:
        """One turn of the lock."""
        begun = time.monotonic()
        if not self._lock.acquire(timeout=60):
            raise KazooTimeoutError("no lock within 60 s")
        self.seen.took("lock", time.monotonic() - begun)
        self.seen.stopping.wait(HOLD)
        self._lock.release()
        self.seen.stopping.wait(PAUSE)


class Watcher(Client):
    """Sets a node at one proxy; another session of it waits for the event at the next one."""

    def __init__(self, seen: Seen, hosts: str, there: str) -> None:
        super().__init__(seen, hosts)
        self._path = f"{ROOT}/watched"
        self.zk.ensure_path(self._path)
        self._waiting = Client(seen, there)

    def step(self) -> None:
        """One event, a second later than the last."""
        came = threading.Event()
        self._waiting.zk.retry(self._waiting.zk.sync, self._path)
        self._waiting.zk.retry(self._waiting.zk.get, self._path, lambda _: came.set())
        begun = time.monotonic()
        self.zk.retry(self.zk.set, self._path, b"x" * 100)
        if not came.wait(60) and not self.seen.stopping.is_set():
            raise KazooTimeoutError("no event within 60 s")
        self.seen.took("event", time.monotonic() - begun)
        self.seen.stopping.wait(1)

    def close(self) -> None:
        """End both sessions."""
        self._waiting.close()
        super().close()


class Servers:
    """The proxies and their etcd, and what happens to them: the first proxy is left alone."""

    def __init__(self, stack: ExitStack, data: Path) -> None:
        """Start them on etcd's data in this folder. Raises BinaryMissing, StartFailed."""
        self.etcd = EtcdServer(*ETCD_OPTIONS)
        stack.callback(self.etcd.close)
        self.etcd.data_dir = data
        self.etcd.start()
        stack.callback(self.etcd.stop)
        self.proxies: list[UpgradableServer] = []
        self._admins: list[int] = []
        for _ in range(3):
            self._admins.append(free_port())
            proxy = UpgradableServer(
                self.etcd.endpoint,
                max_client_connections=0,
                peer_listen=f"127.0.0.1:{free_port()}",
                admin_listen=f"127.0.0.1:{self._admins[-1]}",
            )
            self.proxies.append(stack.enter_context(proxy))

    def acts(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """What happens, again and again."""
        _, upgraded, ended = self.proxies
        return cycle(
            [
                ("a proxy is upgraded", partial(_upgrade, upgraded)),
                ("a proxy restarts", ended.restart),
                # With its clients waiting, and on cores that others use, it took more than 30 s to end.
                ("etcd restarts", partial(self.etcd.restart, timeout=180)),
                ("a proxy is killed", partial(_kill, ended)),
                ("etcd is compacted", partial(compact, self.etcd)),
                ("etcd is killed", partial(_kill, self.etcd)),
            ]
        )

    def hosts(self, first: int) -> str:
        """All proxies, for a client that prefers one."""
        return ",".join(proxy.address for proxy in rotated(self.proxies, first))

    def figures(self) -> dict[str, float]:
        """Memory, descriptors, etcd's file, znodes."""
        alone, upgraded, _ = self._pids()
        etcd = self.etcd.metrics()
        return {
            "proxy MiB": costs.resident_bytes([alone]) / MIB,
            "upgraded proxy MiB": costs.resident_bytes([upgraded]) / MIB,
            "etcd MiB": costs.resident_bytes([self.etcd.pid]) / MIB,
            "descriptors": len(os.listdir(f"/proc/{alone}/fd")),
            "etcd file MiB": etcd["etcd_mvcc_db_total_size_in_bytes"] / MIB,
            "etcd file used MiB": etcd["etcd_mvcc_db_total_size_in_use_in_bytes"] / MIB,
            "znodes": self._znodes(),
            "together": metric(self._admins[0], "zketcd_log_entries_combined_total"),
        }

    def cpu_seconds(self) -> float:
        """CPU time so far of the processes that run now."""
        return costs.cpu_seconds([self.etcd.pid, *self._pids()])

    def _pids(self) -> list[int]:
        return [proxy.serving or proxy.pid for proxy in self.proxies]

    def _znodes(self) -> int:
        lines = four_letter_word(self.proxies[0].port, "mntr").splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("zk_znode_count")))


def _upgrade(proxy: UpgradableServer) -> None:
    said = proxy.upgrade()
    if "has taken over" not in said:
        raise BenchError(f"upgrade: {said}")


def _kill(server: ServerProcess) -> None:
    server.kill()
    server.start()


class Recorder:
    """Takes samples; those of earlier runs are in the folder."""

    def __init__(self, folder: Path, seen: Seen, servers: Servers) -> None:
        self._path = folder / "samples.jsonl"
        self.samples: list[Sample] = []
        if self._path.exists():
            self.samples = [json.loads(line) for line in self._path.read_text().splitlines()]
        self._piece = self.samples[-1]["piece"] + 1 if self.samples else 1
        self._before = self.samples[-1]["seconds"] if self.samples else 0.0
        self._seen, self._servers = seen, servers
        self._begun = time.monotonic()
        self._spent = self._spends()

    def take(self, happened: Sequence[str]) -> None:
        """A sample of what was since the one before it; this has happened."""
        before, self._spent = self._spent, self._spends()
        passed, busy, cpu = (after - earlier for after, earlier in zip(self._spent, before, strict=True))
        seen = self._seen.figures()
        found: dict[str, Any] = {
            "piece": self._piece,
            "seconds": self._before + time.monotonic() - self._begun,
            "happened": ", ".join(happened),
            "lost sessions": self._seen.lost_sessions,
            **seen,
            **self._servers.figures(),
            "machine busy %": 100 * busy / passed / (os.cpu_count() or 1),
        }
        if not happened and "inserts" in seen:  # a process that has ended took its time with it
            found["CPU ms an insert"] = 1e3 * cpu / seen["inserts"]
        found = {name: round(each, 2) if isinstance(each, float) else each for name, each in found.items()}
        self.samples.append(found)
        with self._path.open("a") as out:
            print(json.dumps(found), file=out)

    def _spends(self) -> tuple[float, float, float]:
        return time.monotonic(), costs.busy_seconds(), self._servers.cpu_seconds()


def run(folder: Path, minutes: float, act_every: float, sample_every: float) -> list[Sample]:
    """Run for so many minutes; all samples, those of earlier runs too. The intervals are in seconds.

    Raises BenchError if a client saw an error, BinaryMissing, StartFailed.
    """
    seen = Seen()
    with ExitStack() as stack:
        servers = Servers(stack, folder / "etcd")
        clients = _clients(stack, seen, servers)
        recorder = Recorder(folder, seen, servers)
        acts = servers.acts()
        happened: list[str] = []
        begun = time.monotonic()
        act_at, sample_at = begun + act_every, begun + sample_every
        while (now := time.monotonic()) < begun + 60 * minutes and not seen.errors:
            if now >= sample_at:
                recorder.take(happened)
                happened.clear()
                sample_at = now + sample_every
            elif now >= act_at:
                name, act = next(acts)
                act()
                happened.append(name)
                act_at = now + act_every
            else:
                time.sleep(min(act_at, sample_at, now + 1) - now)
        recorder.take(happened)
        seen.stopping.set()
        for client in clients:
            client.join()
    if seen.errors:
        raise BenchError("; ".join(seen.errors))
    return recorder.samples


def _clients(stack: ExitStack, seen: Seen, servers: Servers) -> list[Client]:
    """All clients, started, over a tree without what the last run has left."""
    first = Client(seen, servers.hosts(0))
    first.zk.delete(ROOT, recursive=True)
    first.close()
    clients: list[Client] = [Watcher(seen, servers.hosts(0), servers.hosts(1))]
    clients += [Writer(seen, servers.hosts(n % 3), f"replica{n}") for n in range(WRITERS)]
    clients += [Contender(seen, servers.hosts(n % 3), n // 3) for n in range(3 * LOCKS)]
    for client in clients:
        stack.callback(client.close)
        client.start()
    return clients


SHOWN = (
    *(f"{what}{figure}" for what in ("insert", "lock", "event") for figure in ("s", " p50", " p99")),
    "CPU ms an insert",
    "proxy MiB",
    "upgraded proxy MiB",
    "etcd MiB",
    "descriptors",
    "etcd file MiB",
    "etcd file used MiB",
    "znodes",
    "machine busy %",
)
"""Columns of the table."""


def by_hour(samples: Sequence[Sample]) -> Table:
    """A row for each hour of load: medians of its samples."""
    hours: dict[int, list[Sample]] = {}
    for sample in samples:
        hours.setdefault(int(sample["seconds"] // HOUR) + 1, []).append(sample)
    rows: list[list[Cell]] = []
    for hour, found in hours.items():
        columns = [[each[name] for each in found if name in each] for name in SHOWN]
        rows.append([hour, *(median(column) if column else "" for column in columns)])
    title = f"Hours of load: medians of what was sampled, times in ms; {lost(samples)} sessions were lost"
    return Table(title, ["hour", *SHOWN], rows)


def lost(samples: Sequence[Sample]) -> int:
    """How many sessions were lost in all pieces."""
    return sum({sample["piece"]: int(sample["lost sessions"]) for sample in samples}.values())


PANELS = (
    ("median, ms", ("insert p50", "lock p50", "event p50")),
    ("99th percentile, ms", ("insert p99", "lock p99", "event p99")),
    ("CPU time, ms", ("CPU ms an insert",)),
    ("memory, MiB", ("proxy MiB", "upgraded proxy MiB", "etcd MiB")),
    ("etcd's file, MiB", ("etcd file MiB", "etcd file used MiB")),
    ("descriptors", ("descriptors",)),
)


def draw(samples: Sequence[Sample], path: Path) -> None:
    """The figures over the hours, as SVG; a grey line where a piece begins."""
    from matplotlib.figure import Figure  # slow

    figure = Figure(figsize=(10, 14), layout="constrained")
    for axes, (label, names) in zip(figure.subplots(len(PANELS), 1, sharex=True), PANELS, strict=True):
        for name in names:
            having = [sample for sample in samples if name in sample]
            axes.plot([s["seconds"] / HOUR for s in having], [s[name] for s in having], label=name, lw=0.8)
        for before, after in pairwise(samples):
            if before["piece"] != after["piece"]:
                axes.axvline(before["seconds"] / HOUR, color="grey", lw=0.5)
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper left", fontsize="small")
        axes.set_xlabel("hours of load")
    figure.savefig(path, format="svg")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = Parser(prog="python -m bench.hours", description=__doc__)
    add = parser.add_argument
    add("--minutes", type=number(100_000), default=100.0, help="length of this piece (default: %(default)g)")
    add("--folder", type=output_folder, default=Path("build/hours"), help="default: %(default)s")
    add("--act-every", type=seconds, default=300.0, help="seconds between two acts (default: %(default)g)")
    add("--sample-every", type=seconds, default=60.0, help="seconds of a sample (default: %(default)g)")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    logging.getLogger("kazoo").setLevel(logging.ERROR)  # that connections are lost is no news here
    try:
        samples = run(options.folder, options.minutes, options.act_every, options.sample_every)
    except (
        BenchError,
        BinaryMissing,
        StartFailed,
        KazooException,
        KazooTimeoutError,
        OSError,
        RuntimeError,
    ) as error:
        print(f"bench: {error!r}", file=sys.stderr)
        return 1
    print(markdown(by_hour(samples)))
    draw(samples, options.folder / "hours.svg")
    print(f"\ndrawn: {options.folder / 'hours.svg'}")
    return 1 if lost(samples) else 0


if __name__ == "__main__":
    sys.exit(guarded(main, "bench"))
