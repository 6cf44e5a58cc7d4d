"""A tree that grows: how much memory holds it, and how long a start on all of it takes."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from bench import costs, wire
from bench.load import Admin
from bench.scenarios import Table
from bench.servers import ETCD_OPTIONS
from tests.harness import EtcdServer, ZketcdServer, ZooKeeperServer

ZNODES = (10_000, 100_000, 300_000, 1_000_000)
DATA = bytes(range(100))
PER_DIRECTORY = 1000
PATIENCE_S = 300.0
"""For a start on the full tree, also on a slow machine."""

Measure = Callable[[], float]
"""Bytes in use now."""


def nodes(count: int) -> Iterator[tuple[int, bytes]]:
    """Requests that create `count` nodes of 100 bytes, a thousand in a directory."""
    for number in range(count):
        directory, index = divmod(number, PER_DIRECTORY)
        path = b"/d%06d" % directory
        if index:
            path += b"/n%06d" % index
        yield wire.CREATE, wire.create_body(path, DATA)


def run(scale: float) -> Table:
    """Up to a million znodes at scale 1."""
    sizes = [max(1, round(size * scale)) for size in ZNODES]
    rows: list[list[float | str | int]] = []
    with ZooKeeperServer(
        max_client_connections=0, java_options=("-Xmx6g",), start_timeout=PATIENCE_S
    ) as zookeeper:
        # The heap comes first: reading it collects the garbage.
        measures: dict[str, Measure] = {
            "zookeeper's live heap": lambda: _live_heap(zookeeper),
            "zookeeper": lambda: costs.resident_bytes([zookeeper.pid]),
        }
        rows += _measure(zookeeper, measures, sizes)
    with (
        EtcdServer(*ETCD_OPTIONS) as etcd,
        ZketcdServer(etcd.endpoint, max_client_connections=0, start_timeout=PATIENCE_S) as zketcd,
    ):
        measures = {
            "zketcd": lambda: costs.resident_bytes([zketcd.pid]),
            "zketcd's etcd": lambda: costs.resident_bytes([etcd.pid]),
        }
        rows += _measure(zketcd, measures, sizes)
    return Table(
        f"Znodes of {len(DATA)} bytes: resident memory, and a start on all of them (ZooKeeper's after a full "
        "collection of garbage)",
        [
            "what",
            "znodes",
            "memory, MB",
            "memory a znode, bytes",
            "filled, op/s",
            "after a restart, MB",
            "start, s",
        ],
        rows,
    )


def _measure(
    server: ZooKeeperServer | ZketcdServer, measures: Mapping[str, Measure], sizes: Sequence[int]
) -> list[list[float | str | int]]:
    """A row for each measure and size of the tree; at the last one the server is started again."""
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
                rows.append([name, size, full / 1e6, (full - empty[name]) / size, rate, "", ""])
        admin.close_session()
    server.stop()
    begun = time.perf_counter()
    server.start()
    took = time.perf_counter() - begun
    for row, measure in zip(rows[-len(measures) :], measures.values(), strict=True):
        row[-2:] = [measure() / 1e6, took]
    return rows


def _live_heap(server: ZooKeeperServer) -> float:
    """The bytes of a JVM's heap and metaspace that are live after a full collection."""
    subprocess.run(["jcmd", str(server.pid), "GC.run"], check=True, capture_output=True)
    heap = subprocess.run(
        ["jcmd", str(server.pid), "GC.heap_info"], check=True, capture_output=True, text=True
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
