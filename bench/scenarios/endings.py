"""10,000 sessions that end at once: how long the requests of others wait meanwhile.

Each session has an ephemeral node below one parent. They end in two ways: all clients close their sessions,
or all connections break and the sessions expire. Two other clients ask one thing after another: one writes a
node of its own, one reads the parent.
"""

import socket
import threading
import time
from contextlib import closing
from typing import NamedTuple

from bench import wire
from bench.errors import Stalled
from bench.scenarios import Cell, Table
from bench.scenarios.crowd import PING, Crowd
from bench.scenarios.herd import Client, arrive
from bench.servers import targets
from lab.client import blocking

SIZE = 10_000
TIMEOUT_MS = 40_000  # the longest that ZooKeeper grants
WAYS = ("closed", "expired")
_PARENT, _OTHER = "/endings", "/other"
_PIECE = 500  # sessions that are opened at once
_EPHEMERAL_SEQUENTIAL = 3
_CREATE = wire.packet(1, wire.CREATE, wire.create_body(f"{_PARENT}/e-".encode(), b"", _EPHEMERAL_SEQUENTIAL))
_CREATED = wire.REPLY_SIZE + len(wire.text(f"{_PARENT}/e-0123456789".encode()))
_CLOSE = wire.packet(2, wire.CLOSE_SESSION)
_LEAST = 0.5  # seconds of quiet before the end


class Waits(NamedTuple):
    """What the others saw. Seconds."""

    ending: float  # from the last read that saw all ephemeral nodes to the first that saw none
    write: float  # the longest wait for the answer to a write
    read: float


class _Other:
    """A client in a thread of its own; `answers`: when each reply came, and how many nodes it showed."""

    def __init__(self, port: int, *, writes: bool) -> None:
        self.answers = [(0.0, -1)]
        self.longest = 0.0
        self._client = blocking.Client(port)
        self._writes = writes
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            begun = time.perf_counter()
            if self._writes:
                self._client.write(_OTHER, b"x")
                seen = -1
            else:
                stat = self._client.stat(_PARENT)
                seen = stat.num_children if stat else 0
            self.answers.append((time.perf_counter(), seen))
            self.longest = max(self.longest, self.answers[-1][0] - begun)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        self._client.drop()


def measure(port: int, size: int, way: str, timeout_ms: int = TIMEOUT_MS) -> Waits:
    """Open `size` sessions and end them. Raises Stalled if their nodes stay."""
    with blocking.Client(port) as admin:
        for path in (_PARENT, _OTHER):
            if admin.stat(path) is None:
                admin.create(path)
    clients: list[Client] = []
    sockets: list[socket.socket] = []
    while len(clients) < size:
        piece = [Client(timeout_ms) for _ in range(min(_PIECE, size - len(clients)))]
        arrive(piece, port, None)
        clients += piece
        sockets = [client.socket for client in clients if client.socket is not None]
        with closing(Crowd(sockets)) as crowd:  # lest the first of them expire meanwhile
            crowd.ask(PING, wire.REPLY_SIZE)
    with closing(Crowd(sockets)) as crowd:
        crowd.ask(_CREATE, _CREATED)
    others = [_Other(port, writes=writes) for writes in (True, False)]
    writer, reader = others
    try:
        time.sleep(_LEAST)
        for other in others:
            other.longest = 0.0
        if way == "closed":
            for sock in sockets:
                sock.send(_CLOSE)
        else:
            for client in clients:
                client.close()
        deadline = time.perf_counter() + 3 * timeout_ms / 1000
        while left := reader.answers[-1][1]:
            time.sleep(0.005)
            if time.perf_counter() > deadline:
                raise Stalled(f"{left} ephemeral nodes of ended sessions are still there")
        time.sleep(_LEAST)
    finally:
        for other in others:
            other.stop()
        for client in clients:
            client.close()
    full = max(when for when, number in reader.answers if number == size)
    empty = min(when for when, number in reader.answers if not number)
    return Waits(empty - full, writer.longest, reader.longest)


def run(scale: float) -> Table:
    """10,000 sessions at scale 1."""
    size = max(10, round(SIZE * scale))
    rows: list[list[Cell]] = []
    with targets(["zookeeper", "zketcd"]) as started:
        for way in WAYS:
            for target in started:
                waits = measure(target.port, size, way)
                rows.append([target.name, way, waits.ending, 1000 * waits.write, 1000 * waits.read])
    return Table(
        f"{size:,} sessions that end at once, each with an ephemeral node",
        [
            "server",
            "sessions",
            "all ended within, s",
            "longest write of others, ms",
            "longest read of others, ms",
        ],
        rows,
    )
