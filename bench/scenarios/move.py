"""A move from ZooKeeper to zketcd while clients write: how far the follower is behind, and the pause.

The pause is what clients see: from the last write that ZooKeeper has answered to the first one that zketcd
has. A zketcd waits for the cut-over meanwhile, as docs/migration.md advises.
"""

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import costs, wire
from bench.data import SIZE, data
from bench.errors import BenchError
from bench.load import Admin, Connection, connected
from bench.scenarios import Table
from bench.scenarios.memory import PER_DIRECTORY, TIMEOUT_S, nodes
from bench.servers import ETCD_OPTIONS
from bench.streams import UniqueStream
from bench.workloads import STAT_REPLY
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer
from lab.servers.four_letter import four_letter_word
from lab.servers.process import REPOSITORY, ServerProcess
from lab.servers.waiting import wait_until
from pipeline.etcd import options as etcd_options
from pipeline.follow.target import position_of

ZNODES = (100_000, 500_000)
RATE = 5_000  # writes a second
SECONDS = 30.0
CONNECTIONS = 8
_TICK = 0.01  # seconds
_AT_ONCE = 64
_STRIDE = 7919  # a prime: the writes go all over the tree


def run(scale: float) -> Table:
    """100,000 and 500,000 znodes, 5,000 writes a second for 30 s, at scale 1."""
    rows: list[list[float | str | int]] = []
    for size in ZNODES:
        count = max(2 * PER_DIRECTORY, round(size * scale))
        rows.append(_move(count, max(10, round(RATE * min(1.0, 10 * scale))), max(1.0, SECONDS * scale)))
    return Table(
        f"A move to zketcd amid writes of {SIZE} bytes to znodes all over the tree",
        [
            "znodes",
            "first load, s",
            "offered, op/s",
            "done, op/s",
            "left when the writers stopped, zxids",
            "cut-over, s",
            "pause, s",
            "follower, % of a core",
            "follower, MB",
        ],
        rows,
    )


def _move(count: int, rate: int, seconds: float) -> list[float | str | int]:
    print(f"  {count:,} znodes, {rate} writes/s", file=sys.stderr, flush=True)
    with ExitStack() as stack:
        etcd = stack.enter_context(EtcdServer(*ETCD_OPTIONS))
        zookeeper = stack.enter_context(
            ZooKeeperServer(max_client_connections=0, java_options=("-Xmx6g",), start_timeout=TIMEOUT_S)
        )
        zketcd = stack.enter_context(
            closing(ZketcdServer(etcd.endpoint, max_client_connections=0, start_timeout=TIMEOUT_S))
        )
        log = Path(stack.enter_context(TemporaryDirectory(prefix="zketcd-move-"))) / "follower"
        with Admin(zookeeper.port) as admin:
            admin.call_many(nodes(count))
            admin.close_session()
        begun = time.perf_counter()
        follower = stack.enter_context(running(_command(zookeeper, etcd), log))
        wait_for(lambda: b"level" in log.read_bytes(), follower, log)
        loaded = time.perf_counter() - begun
        zketcd.launch()
        wait_for(lambda: "waiting for" in zketcd.log_text(), follower, log)
        before = costs.cpu_seconds([follower.pid])
        with connected(zookeeper.port, [writes(number, count) for number in range(CONNECTIONS)]) as clients:
            begun = time.perf_counter()
            done = write(clients, rate, seconds)
            stopped = time.perf_counter()
            spent = costs.cpu_seconds([follower.pid]) - before
            memory = costs.resident_bytes([follower.pid])
            last = last_zxid(zookeeper)
            left = max(0, last - asyncio.run(position(etcd)))
            asked = subprocess.run(
                [*_command(zookeeper, etcd), "--finish", "--zxid", hex(last)], cwd=REPOSITORY, check=False
            )
            finished = time.perf_counter() - stopped
            if asked.returncode:
                raise BenchError(f"the cut-over ended with {asked.returncode}")
            zketcd.wait_until_serving()
            with Admin(zketcd.port) as admin:
                admin.call(wire.SET_DATA, wire.set_body(b"/d000000", data(0)))
                pause = time.perf_counter() - stopped
                admin.close_session()
    cpu = 100 * spent / (stopped - begun)
    return [count, loaded, rate, done / (stopped - begun), left, finished, pause, cpu, memory / 1e6]


def write(clients: Sequence[Connection], rate: int, seconds: float) -> int:
    """Write at this rate, a share each 10 ms, at most 64 at a time on a connection; how many were done."""
    begun = time.perf_counter()
    sent = 0
    while (passed := time.perf_counter() - begun) < seconds:
        share = min(_AT_ONCE, (round(passed * rate) - sent) // len(clients))
        for client in clients if share else ():
            client.send(share)
            sent += share
        for client in clients:
            while not client.idle:
                client.receive()
        time.sleep(max(0.0, begun + passed + _TICK - time.perf_counter()))
    return sent


def _command(zookeeper: ZooKeeperServer, etcd: EtcdServer) -> list[str]:
    return [sys.executable, "-m", "zketcd", "follow", str(zookeeper.data_dir), "--etcd", etcd.endpoint]


@contextmanager
def running(command: Sequence[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that ends with the block."""
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=file, stderr=file)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(probe: Callable[[], bool], follower: "subprocess.Popen[bytes]", log: Path) -> None:
    """Until it is so, or the follower has ended. Raises BenchError then."""
    wait_until(lambda: probe() or follower.poll() is not None, "the follower's progress", TIMEOUT_S)
    if follower.poll() is not None:
        raise BenchError(f"the follower has ended: {log.read_text()[-300:]}")


def writes(connection: int, count: int) -> UniqueStream:
    """Sets all over the tree, other ones on each connection."""

    def make(number: int) -> bytes:
        directory, index = divmod((connection + CONNECTIONS * number) * _STRIDE % count, PER_DIRECTORY)
        path = b"/d%06d" % directory + (b"/n%06d" % index if index else b"")
        return wire.packet(number + 1, wire.SET_DATA, wire.set_body(path, data(number)))

    return UniqueStream(make, (STAT_REPLY,))


def last_zxid(server: ServerProcess) -> int:
    """The zxid of a server's tree."""
    found = re.search(r"Zxid: 0x([0-9a-f]+)", four_letter_word(server.port, "srvr"))
    if found is None:
        raise BenchError("srvr tells no zxid")
    return int(found[1], 16)


async def position(etcd: EtcdServer) -> int:
    """The zxid of the copy in this etcd; 0: there is none."""
    async with etcd_options.Connection(etcd.endpoint).client() as client:
        found = await position_of(client, etcd_options.Connection(etcd.endpoint).keys)
    return 0 if found is None else found.zxid
