"""A zketcd that follows another one over a long link that breaks: how fast, at what cost, in what memory.

The link breaks while clients change znodes all over the tree. When it is mended, the follower is so many
changes behind. Clients write on, and the link breaks again every few seconds. It leads to the source's etcd,
or to the copy's; an archive is on the follower's host.
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import costs
from bench.data import SIZE
from bench.errors import BenchError
from bench.load import Admin, Connection, connected
from bench.scenarios import Table
from bench.scenarios.memory import PER_DIRECTORY, TIMEOUT_S, nodes
from bench.scenarios.move import CONNECTIONS, last_zxid, position, running, wait_for, writes
from bench.servers import ETCD_OPTIONS
from lab.servers import EtcdServer, ZketcdServer
from lab.servers.relay import Quality, Relays
from lab.servers.waiting import wait_until

CASES = (
    ("etcd", "source", 0),
    ("etcd", "source", 20),
    ("etcd", "source", 100),
    ("etcd", "copy", 20),
    ("etcd", "copy", 100),
    ("archive", "copy", 0),
    ("archive", "copy", 20),
    ("archive", "copy", 100),
)
ZNODES = 50_000
BEHIND = 400_000  # changes
MEANWHILE = 64  # changes by clients between two looks
_DEPTH = 32
_LOOK = 0.1  # seconds between two looks
_BREAK_EVERY, _BREAK = 4.0, 0.3  # seconds
_LONGEST = 1800.0  # seconds until it is level
_WAYS = (("near", "far"), ("far", "near"))
_KEPT = (1 << 31) - 1  # requests or bytes of the log: more than the run has


def run(scale: float) -> Table:
    """50,000 znodes, and 400,000 changes behind, at scale 1."""
    count, behind = max(2 * PER_DIRECTORY, round(ZNODES * scale)), max(1000, round(BEHIND * scale))
    return Table(
        f"A copy of {count:,} znodes that is {behind:,} changes of {SIZE} bytes behind becomes level",
        [
            "source",
            "link to",
            "round trip, ms",
            "breaks",
            "changes",
            "changes/s",
            "follower, us/change",
            "its etcd, us/change",
            "follower, MB before",
            "half-way",
            "highest",
            "when level",
        ],
        [_case(*case, count, behind) for case in CASES],
    )


class _Link(Relays):
    """To an etcd that is far away."""

    def __init__(self, etcd: EtcdServer, round_trip_ms: float) -> None:
        super().__init__()
        self.address = f"127.0.0.1:{self.listen(*_WAYS[0], etcd.port)}"
        self._quality = Quality(latency=round_trip_ms / 2000)
        self.mend()

    def cut(self) -> None:
        """Break all connections, and pass nothing on."""
        self.change(dict.fromkeys(_WAYS, Quality(stopped=True)))
        self.reset(set(_WAYS))

    def mend(self) -> None:
        """Pass everything on, late."""
        self.reset(set(_WAYS))
        self.change(dict.fromkeys(_WAYS, self._quality))


def _case(source: str, where: str, round_trip: float, count: int, behind: int) -> list[float | str | int]:
    print(f"  {source}, {round_trip} ms to the {where}", file=sys.stderr, flush=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="zketcd-standby-")))
        theirs, ours = (stack.enter_context(EtcdServer(*ETCD_OPTIONS)) for _ in range(2))
        link = stack.enter_context(_Link(theirs if where == "source" else ours, round_trip))
        zketcd = stack.enter_context(
            ZketcdServer(
                theirs.endpoint,
                max_client_connections=0,
                snapshot_log_bytes=_KEPT,
                snapshot_log_requests=_KEPT,
                archive=folder / "archive" if source == "archive" else None,
            )
        )
        with Admin(zketcd.port) as admin:
            admin.call_many(nodes(count))
            admin.close_session()
        followed = f"etcd://{link.address if where == 'source' else theirs.address}/zketcd"
        if source == "archive":
            followed = f"archive:{folder / 'archive'}"
            wait_until((folder / "archive").is_dir, "the archive", TIMEOUT_S)
        to = link.address if where == "copy" else ours.address
        command = [sys.executable, "-m", "zketcd", "follow", followed, "--etcd", f"http://{to}"]
        log = folder / "log"
        follower = stack.enter_context(running(command, log))
        wait_for(lambda: b"level" in log.read_bytes(), follower, log)
        streams = [writes(number, count) for number in range(CONNECTIONS)]
        clients = stack.enter_context(connected(zketcd.port, streams))
        before = costs.resident_bytes([follower.pid])
        link.cut()
        written = 0
        while written < behind:
            written += _write(clients, _DEPTH)
        start = asyncio.run(position(ours))
        middle = (start + last_zxid(zketcd)) // 2
        spent = [costs.cpu_seconds([pid]) for pid in (follower.pid, ours.pid)]
        begun = broken = time.perf_counter()
        link.mend()
        breaks, half, highest = 0, before, before
        while True:
            goal = last_zxid(zketcd)
            _write(clients, MEANWHILE // CONNECTIONS)
            there = asyncio.run(position(ours))
            now = costs.resident_bytes([follower.pid])
            highest = max(highest, now)
            if there <= middle:
                half = now
            if there >= goal:
                break
            if follower.poll() is not None:
                raise BenchError(f"the follower has ended: {log.read_text()[-300:]}")
            if time.perf_counter() > begun + _LONGEST:
                raise BenchError(f"the copy is not level after {_LONGEST:.0f} s")
            if time.perf_counter() > broken + _BREAK_EVERY:
                link.cut()
                time.sleep(_BREAK)
                link.mend()
                broken = time.perf_counter()
                breaks += 1
            time.sleep(_LOOK)
        seconds, changes = time.perf_counter() - begun, there - start
        spent = [
            costs.cpu_seconds([pid]) - was for pid, was in zip((follower.pid, ours.pid), spent, strict=True)
        ]
        figures = [breaks, changes, changes / seconds, *(1e6 * each / changes for each in spent)]
        memory = [each / 1e6 for each in (before, half, highest, costs.resident_bytes([follower.pid]))]
    return [source, where, round_trip, *figures, *memory]


def _write(clients: Sequence[Connection], each: int) -> int:
    """Have each client change so many znodes; how many that were."""
    for client in clients:
        client.send(each)
    for client in clients:
        while not client.idle:
            client.receive()
    return each * len(clients)
