"""One insert of ClickHouse, request by request: which requests it waits for, at ZooKeeper and at zketcd.

A relay between ClickHouse and the server notes when each request passes and when its reply does. Inserts come
one at a time, at the two systems in turn. Requests that ClickHouse sends in the background meanwhile are not
shown: they are not in every insert.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import NamedTuple

from typing_extensions import override

from bench.errors import BenchError
from bench.scenarios import Cell, Table
from bench.servers import ETCD_OPTIONS
from codec.constants import OpCode
from codec.framing import Framer
from codec.packets import REPLY_HEADER, REQUEST_HEADER
from lab.oracle import requests
from lab.oracle.wire import Cursor
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer
from lab.servers.clickhouse import ClickHouseServer
from lab.servers.link import Link

INSERTS = 200
_FIRST = 20  # inserts that are not counted
_PAUSE = 0.02  # seconds between two inserts
_MOST = 1 << 24  # bytes of a frame

_Key = tuple[str, int]
"""What a request is, and its place among the insert's requests of that kind."""


class Passed(NamedTuple):
    """A request, when it passed and when its reply did (`time.perf_counter`)."""

    what: str
    asked: float
    answered: float


class Insert(NamedTuple):
    """One insert: its beginning and end, and the requests between them."""

    begun: float
    ended: float
    requests: list[Passed]


class Side(NamedTuple):
    """ClickHouse at one of the two systems."""

    name: str
    tap: "Tap"
    clickhouse: ClickHouseServer


class Tap(Link):
    """A relay before a server; `passed` has all requests that were answered."""

    def __init__(self, port: int) -> None:
        self.passed: list[Passed] = []
        super().__init__(port)

    @override
    def listeners(self) -> tuple[Callable[[bytes], object], Callable[[bytes], object]]:
        notes = _Notes(self.passed)
        return notes.requested, notes.replied


class _Notes:
    """What passes on one connection."""

    def __init__(self, passed: list[Passed]) -> None:
        self._passed = passed
        self._asked: dict[int, tuple[str, float]] = {}  # xid -> what it is, and when it passed
        self._requests, self._replies = Framer(_MOST), Framer(_MOST)
        self._greeting = [True, True]  # comes next, from client and server: it has no header

    def requested(self, data: bytes) -> None:
        """The client sends this."""
        for frame in self._without_greeting(0, self._requests.feed(data)):
            xid, opcode = REQUEST_HEADER.unpack_from(frame)
            self._asked[xid] = kind_of(opcode, frame[REQUEST_HEADER.size :]), time.perf_counter()

    def replied(self, data: bytes) -> None:
        """The server sends this."""
        for frame in self._without_greeting(1, self._replies.feed(data)):
            xid, _, _ = REPLY_HEADER.unpack_from(frame)
            if xid in self._asked:
                self._passed.append(Passed(*self._asked.pop(xid), time.perf_counter()))

    def _without_greeting(self, side: int, frames: list[bytes]) -> list[bytes]:
        if frames and self._greeting[side]:
            self._greeting[side] = False
            return frames[1:]
        return frames


def kind_of(opcode: int, body: bytes) -> str:
    """What a request is, in words: "create", "multi: 2 create, 1 delete"."""
    if opcode != OpCode.MULTI:
        return OpCode(opcode).name.lower()
    parts = requests.decode_body(opcode, Cursor(body)).ops
    counts = Counter(OpCode(requests.opcode(part)).name.lower() for part in parts)
    return "multi: " + ", ".join(f"{count} {name}" for name, count in counts.items())


def run(scale: float) -> Table:
    """Two hundred inserts at each system at scale 1."""
    count = max(5, round(INSERTS * scale))
    with _sides() as sides:
        inserts: dict[str, list[Insert]] = {side.name: [] for side in sides}
        for number in range(_FIRST + count):
            for side in sides if number % 2 else reversed(sides):
                insert = _insert(side, number)
                if number >= _FIRST:
                    inserts[side.name].append(insert)
    return _table(*inserts.values())


@contextmanager
def _sides() -> Iterator[list[Side]]:
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeperServer(max_client_connections=0, java_options=()))
        etcd = stack.enter_context(EtcdServer(*ETCD_OPTIONS))
        zketcd = stack.enter_context(ZketcdServer(etcd.endpoint, max_client_connections=0))
        sides = []
        for name, server in (("ZooKeeper", zookeeper), ("zketcd", zketcd)):
            tap = Tap(server.port)
            stack.callback(tap.close)
            clickhouse = ClickHouseServer(tap.port, replica="one", session_timeout_ms=30_000)
            stack.callback(clickhouse.close)
            clickhouse.start()
            clickhouse.query(
                "CREATE TABLE t (day Date, n UInt32)"
                " ENGINE = ReplicatedMergeTree('/clickhouse/tables/t', 'one')"
                " PARTITION BY toYYYYMM(day) ORDER BY n"
            )
            sides.append(Side(name, tap, clickhouse))
        yield sides


def _insert(side: Side, number: int) -> Insert:
    time.sleep(_PAUSE)
    side.tap.passed.clear()
    begun = time.perf_counter()
    side.clickhouse.query("INSERT INTO t FORMAT TabSeparated", f"2020-01-01\t{number}\n")
    ended = time.perf_counter()
    requests = [each for each in side.tap.passed if begun <= each.asked and each.answered <= ended]
    return Insert(begun, ended, sorted(requests, key=lambda each: each.asked))


def _keyed(insert: Insert) -> dict[_Key, Passed]:
    seen: Counter[str] = Counter()
    found = {}
    for each in insert.requests:
        found[each.what, seen[each.what]] = each
        seen[each.what] += 1
    return found


def _table(theirs: list[Insert], ours: list[Insert]) -> Table:
    sides = [[_keyed(insert) for insert in inserts] for inserts in (theirs, ours)]
    often = Counter(key for inserts in sides for insert in inserts for key in insert)
    common = [key for key, count in often.items() if count > 0.9 * (len(theirs) + len(ours))]
    if not common:
        raise BenchError("no request is in nearly all inserts")

    def at(key: _Key) -> float:
        return median(
            insert[key].asked - of.begun for insert, of in zip(sides[0], theirs, strict=True) if key in insert
        )

    rows: list[list[Cell]] = []
    sums = [0.0, 0.0]
    for key in sorted(common, key=at):
        waits = [
            median((insert[key].answered - insert[key].asked) * 1e3 for insert in inserts if key in insert)
            for inserts in sides
        ]
        sums = [total + wait for total, wait in zip(sums, waits, strict=True)]
        rows.append([key[0], *waits, waits[1] / waits[0]])
    whole = [median((each.ended - each.begun) * 1e3 for each in inserts) for inserts in (theirs, ours)]
    rows.append(
        ["ClickHouse's own work", *(all_ - waits for all_, waits in zip(whole, sums, strict=True)), ""]
    )
    rows.append(["the insert", *whole, whole[1] / whole[0]])
    return Table(
        "One insert of ClickHouse at a time: what it waits for, one after the other",
        ["request", "ZooKeeper, ms", "zketcd, ms", "zketcd / ZooKeeper"],
        rows,
    )
