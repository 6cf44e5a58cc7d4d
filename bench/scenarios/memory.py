"""A big tree: how much memory holds it, and how long a start on it takes."""

import subprocess
import time
from collections.abc import Iterator

from bench import costs, wire
from bench.load import Admin
from bench.scenarios import Table
from bench.servers import ETCD_OPTIONS
from tests.harness import EtcdServer, ZketcdServer, ZooKeeperServer

DATA = bytes(range(100))
PER_DIRECTORY = 1000


def nodes(count: int) -> Iterator[tuple[int, bytes]]:
    """Requests that create `count` nodes of 100 bytes, a thousand in a directory."""
    for number in range(count):
        directory, index = divmod(number, PER_DIRECTORY)
        path = b"/d%06d" % directory
        if index:
            path += b"/n%06d" % index
        yield wire.CREATE, wire.create_body(path, DATA)


def run(scale: float) -> Table:
    """A million znodes at scale 1."""
    count = max(1, round(1_000_000 * scale))
    rows: list[list[float | str | int]] = []
    with ZooKeeperServer(max_client_connections=0, java_options=("-Xmx6g",)) as zookeeper:
        rows.append(["zookeeper", *_measure(zookeeper, count)])
    with (
        EtcdServer(*ETCD_OPTIONS) as etcd,
        ZketcdServer(etcd.endpoint, max_client_connections=0) as zketcd,
    ):
        rows.append(["zketcd", *_measure(zketcd, count)])
    return Table(
        f"{count:,} znodes of {len(DATA)} bytes",
        ["server", "filled, op/s", "RSS, MB", "RSS a znode, bytes", "after a restart, MB", "start, s"],
        rows,
    )


def _measure(server: ZooKeeperServer | ZketcdServer, count: int) -> list[float]:
    empty = _resident(server)
    begun = time.perf_counter()
    with Admin(server.port) as admin:
        admin.call_many(nodes(count))
        filled = count / (time.perf_counter() - begun)
        admin.close_session()
    full = _resident(server)
    server.stop()
    begun = time.perf_counter()
    server.start()
    took = time.perf_counter() - begun
    return [filled, full / 1e6, (full - empty) / count, _resident(server) / 1e6, took]


def _resident(server: ZooKeeperServer | ZketcdServer) -> float:
    """Resident bytes; of a JVM what is live after a full collection, for its heap is as large as it likes."""
    if isinstance(server, ZooKeeperServer):
        subprocess.run(["jcmd", str(server.pid), "GC.run"], check=True, capture_output=True)
        heap = subprocess.run(
            ["jcmd", str(server.pid), "GC.heap_info"], check=True, capture_output=True, text=True
        ).stdout
        return _used_kib(heap) * 1024
    return costs.resident_bytes([server.pid])


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
