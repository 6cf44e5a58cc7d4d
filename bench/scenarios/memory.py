"""A tree that grows: how much memory holds it, how long a start on all of it takes, and etcd's file.

When the tree is full etcd is measured twice: with the whole log, and with snapshots in its place. For that
two snapshots are written (the log since the last but one is kept), then etcd is compacted and defragmented,
as an operator would.
"""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from bench import costs, wire
from bench.data import SIZE, data
from bench.errors import BenchError
from bench.load import Admin
from bench.scenarios import Table
from bench.servers import ETCD_OPTIONS
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer

ZNODES = (10_000, 100_000, 300_000, 1_000_000)
PER_DIRECTORY = 1000
TIMEOUT_S = 300.0
"""For a start on the full tree, also on a slow machine."""
_TRIES = 5  # to write a snapshot, which another one may overtake

Measure = Callable[[], float]
"""Bytes in use now."""


def nodes(count: int) -> Iterator[tuple[int, bytes]]:
    """Requests that create `count` nodes of 100 bytes, a thousand in a directory."""
    for number in range(count):
        directory, index = divmod(number, PER_DIRECTORY)
        path = b"/d%06d" % directory
        if index:
            path += b"/n%06d" % index
        yield wire.CREATE, wire.create_body(path, data(number))


def run(scale: float) -> Table:
    """Up to a million znodes at scale 1."""
    sizes = [max(1, round(size * scale)) for size in ZNODES]
    rows: list[list[float | str | int]] = []
    with ZooKeeperServer(
        max_client_connections=0, java_options=("-Xmx6g",), start_timeout=TIMEOUT_S
    ) as zookeeper:
        # The heap comes first: reading it collects the garbage.
        measures: dict[str, Measure] = {
            "zookeeper's live heap": lambda: live_heap(zookeeper),
            "zookeeper": lambda: costs.resident_bytes([zookeeper.pid]),
        }
        rows += _measure(zookeeper, measures, sizes)
    with (
        EtcdServer(*ETCD_OPTIONS) as etcd,
        ZketcdServer(etcd.endpoint, max_client_connections=0, start_timeout=TIMEOUT_S) as zketcd,
    ):
        measures = {
            "zketcd": lambda: costs.resident_bytes([zketcd.pid]),
            "zketcd's etcd": lambda: costs.resident_bytes([etcd.pid]),
        }
        rows += _measure(zketcd, measures, sizes, lambda: _snapshots(etcd, sizes[-1]))
    return Table(
        f"Znodes of {SIZE} bytes: resident memory, and a start on all of them (ZooKeeper's after a full "
        "collection of garbage)",
        [
            "what",
            "znodes",
            "memory, MB",
            "memory a znode, bytes",
            "filled, op/s",
            "after a restart, MB",
            "start, s",
            "etcd's file, MB",
        ],
        rows,
    )


def _measure(
    server: ZooKeeperServer | ZketcdServer,
    measures: Mapping[str, Measure],
    sizes: Sequence[int],
    finish: Callable[[], list[list[float | str | int]]] = list,
) -> list[list[float | str | int]]:
    """A row for each measure and size of the tree; at the last one the server is started again.

    `finish` is called before that start, for more rows.
    """
    rows: list[list[float | str | int]] = []
    empty = {name: measure() for name, measure in measures.items()}
    filling = nodes(sizes[-1])
    there = 0
    with Admin(server.port) as admin:
        for size in sizes:
            begun = time.perf_counter()
            admin.call_many(islice(filling, size - there))
            rate = (size - there) / (time.perf_counter() - begun)
            there = size
            print(f"  {server.name}: {size:,} znodes", file=sys.stderr, flush=True)
            for name, measure in measures.items():
                full = measure()
                rows.append([name, size, full / 1e6, (full - empty[name]) / size, rate, "", "", ""])
        admin.close_session()
    more = finish()
    server.stop()
    begun = time.perf_counter()
    server.start()
    took = time.perf_counter() - begun
    for row, measure in zip(rows[-len(measures) :], measures.values(), strict=True):
        row[-3:-1] = [measure() / 1e6, took]
    return rows + more


def _snapshots(etcd: EtcdServer, size: int) -> list[list[float | str | int]]:
    """Two snapshots, then compaction: what etcd takes with the log, and with snapshots in its place."""
    rows: list[list[float | str | int]] = []
    for label in ("with the log", "with snapshots"):
        if rows:
            for _ in range(2):
                write_snapshot(etcd.endpoint)
        before = _ask(etcd, "maintenance/status")
        _ask(etcd, "kv/compaction", revision=before["header"]["revision"], physical=True)
        _ask(etcd, "maintenance/defragment")
        file = int(_ask(etcd, "maintenance/status")["dbSize"])
        resident = costs.resident_bytes([etcd.pid])
        rows.append([f"etcd, {label}", size, resident / 1e6, resident / size, "", "", "", file / 1e6])
    return rows


def write_snapshot(endpoint: str) -> None:
    """Have a snapshot written now, with the priority of a proxy's own writer. Raises BenchError."""
    complaint = ""
    for _ in range(_TRIES):
        done = subprocess.run(
            ["nice", sys.executable, "-m", "zketcd", "snapshot", "--etcd", endpoint],
            check=False,
            capture_output=True,
            text=True,
        )
        if not done.returncode:
            return
        complaint = done.stderr.strip()[-500:]
        if "at the same time" not in complaint:  # else the proxy's own was faster
            break
    raise BenchError(f"no snapshot: {complaint}")


def _ask(etcd: EtcdServer, path: str, **fields: object) -> dict[str, Any]:
    """One request to etcd's JSON gateway."""
    request = urllib.request.Request(f"{etcd.endpoint}/v3/{path}", json.dumps(fields).encode())
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
        found: dict[str, Any] = json.load(response)
    return found


def live_heap(server: ZooKeeperServer) -> float:
    """The bytes of a JVM's heap and metaspace that are live after a full collection."""
    subprocess.run(["jattach", str(server.pid), "jcmd", "GC.run"], check=True, capture_output=True)
    heap = subprocess.run(
        ["jattach", str(server.pid), "jcmd", "GC.heap_info"], check=True, capture_output=True, text=True
    ).stdout
    return _used_kib(heap) * 1024


def _used_kib(heap_info: str) -> int:
    """The live heap in a `GC.heap_info`, in KiB, of the lines that end the generations and metaspace."""
    used = 0
    for line in heap_info.splitlines():
        words = line.replace(",", " ").split()
        if "used" in words and "regions" not in line and words[0] != "class":
            used += int(words[words.index("used") + 1].rstrip("K"))
    if not used:
        raise ValueError(f"no use of the heap in {heap_info!r}")
    return used
