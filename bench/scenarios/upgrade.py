"""`zketcd upgrade` with many sessions that watch: how long clients wait, and what it costs."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median

from bench import costs, wire
from bench.errors import EffectsDiffer
from bench.load import Admin
from bench.scenarios import Cell, Table
from bench.scenarios.crowd import PING, crowd
from bench.servers import ETCD_OPTIONS
from lab.servers import EtcdServer, UpgradableServer, wait_until

WATCHES = 4
"""Of each session."""
ROUNDS = 5
_EVENT_BYTES = 4 + 16 + 8 + 4 + 8
"""Of an event for a path of 8 bytes."""
_POLL = 0.005


class Probe:
    """A client that reads without a pause: how long it waited for an answer at most."""

    def __init__(self, stack: ExitStack, port: int) -> None:
        self.longest = 0.0
        self._admin = stack.enter_context(Admin(port))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        stack.callback(self._thread.join)
        stack.callback(self._over.set)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(0.001):
            begun = time.perf_counter()
            self._admin.call(wire.EXISTS, wire.text(b"/") + b"\0")
            self.longest = max(self.longest, time.perf_counter() - begun)


def run(scale: float) -> Table:
    """Five upgrades each with no sessions besides two probes and with 5,000, at scale 1."""
    rounds = max(1, round(ROUNDS * scale))
    rows: list[list[Cell]] = []
    with EtcdServer(*ETCD_OPTIONS) as etcd:
        for count in (1, max(2, round(5000 * scale))):
            with UpgradableServer(etcd.endpoint, prefix=f"/n{count}", max_client_connections=0) as server:
                found = _upgrades(server, count, rounds)
            rows.append([count, *(1e3 * median(each) for each in zip(*found, strict=True))])
    return Table(
        f"`zketcd upgrade` with N sessions of {WATCHES} watches each: longest wait of a client that reads,"
        f" median of {rounds}",
        ["N", "wait of the first client, ms", "of the last, ms", "CPU ms: old process", "new process"],
        rows,
    )


def _upgrades(server: UpgradableServer, count: int, rounds: int) -> list[list[float]]:
    found = []
    with ExitStack() as stack:
        paths = [b"/watch%02d" % number for number in range(WATCHES)]
        with Admin(server.port) as admin:
            admin.call_many((wire.CREATE, wire.create_body(path, b"")) for path in paths)
            admin.close_session()
        first = Probe(stack, server.port)
        sessions = stack.enter_context(crowd(server.port, count))
        watches = [
            wire.packet(number, wire.EXISTS, wire.text(path) + b"\1") for number, path in enumerate(paths, 1)
        ]
        sessions.ask(b"".join(watches), WATCHES * (wire.REPLY_SIZE + wire.STAT_SIZE))
        last = Probe(stack, server.port)
        for _ in range(rounds):
            time.sleep(0.5)
            sessions.ask(PING, wire.REPLY_SIZE)
            first.longest = last.longest = 0.0
            with _metered(server.serving or server.pid) as spent:
                said = server.upgrade()
                if "has taken over" not in said:
                    raise EffectsDiffer(said)
            found.append([first.longest, last.longest, spent[0], costs.cpu_seconds([server.serving])])
        # All watches are still there, and each is reported once.
        with Admin(server.port) as admin:
            admin.call_many((wire.SET_DATA, wire.set_body(path, b"")) for path in paths)
        sessions.arrivals(WATCHES * _EVENT_BYTES)
    return found


@contextmanager
def _metered(pid: int) -> Iterator[list[float]]:
    """The CPU time of a process that ends at the end, in seconds."""
    before = costs.cpu_seconds([pid])
    seen = [before]

    def look() -> None:
        while not over.wait(_POLL):
            seen.append(max(seen[-1], costs.cpu_seconds([pid])))

    over = threading.Event()
    thread = threading.Thread(target=look)
    thread.start()
    spent = [0.0]
    try:
        yield spent
        wait_until(lambda: seen[-1] == seen[-min(len(seen), 40)], "the old process has ended")
    finally:
        over.set()
        thread.join()
    spent[0] = seen[-1] - before
