"""One insert of ClickHouse, request by request: which requests it waits for, at ZooKeeper and at zketcd.

A relay between ClickHouse and the server notes when each request passes and when its reply does. Inserts come
one at a time, at the two systems in turn. Requests that ClickHouse sends in the background meanwhile are not
shown: they are not in every insert.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from statistics import median
from typing import NamedTuple

from bench.errors import BenchError
from bench.scenarios import Cell, Table
from bench.servers import ETCD_OPTIONS
from codec import records
from codec.constants import OpCode
from codec.packets import REPLY_HEADER, REQUEST_HEADER
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer
from lab.servers.clickhouse import ClickHouseServer

INSERTS = 200
_FIRST = 20  # inserts that are not counted
_PAUSE = 0.02  # seconds between two inserts
_SIZE = 4  # bytes before each frame

_Asked = dict[int, tuple[str, float]]
"""By xid, the requests without a reply: what each is, and when it passed."""

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


class Tap:
    """A relay on a port of its own, in a thread; `passed` has all requests that were answered."""

    def __init__(self, port: int) -> None:
        self.passed: list[Passed] = []
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1"))
        self.port = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def close(self) -> None:
        """End all connections."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._target)
        asked: _Asked = {}
        try:
            # The handshake has no headers.
            server_writer.write(await _frame(reader))
            writer.write(await _frame(server_reader))
            async with asyncio.TaskGroup() as both:
                both.create_task(_pass_on(reader, server_writer, partial(_requested, asked)))
                both.create_task(_pass_on(server_reader, writer, partial(self._replied, asked)))
        except* (asyncio.IncompleteReadError, ConnectionError):
            pass  # one of the two has ended the connection
        finally:
            for each in (server_writer, writer):
                each.close()
                with suppress(ConnectionError):
                    await each.wait_closed()

    def _replied(self, asked: _Asked, frame: bytes) -> None:
        xid, _, _ = REPLY_HEADER.unpack_from(frame, _SIZE)
        if xid in asked:
            self.passed.append(Passed(*asked.pop(xid), time.perf_counter()))


def _requested(asked: _Asked, frame: bytes) -> None:
    xid, opcode = REQUEST_HEADER.unpack_from(frame, _SIZE)
    asked[xid] = kind_of(opcode, frame[_SIZE + REQUEST_HEADER.size :]), time.perf_counter()


async def _pass_on(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, note: Callable[[bytes], None]
) -> None:
    """Note each frame before the other side can have it: the client is another thread."""
    while True:
        frame = await _frame(source)
        note(frame)
        sink.write(frame)


async def _frame(source: asyncio.StreamReader) -> bytes:
    """A frame with its size before it."""
    size = await source.readexactly(_SIZE)
    return size + await source.readexactly(int.from_bytes(size, "big"))


def kind_of(opcode: int, body: bytes) -> str:
    """What a request is, in words: "create", "multi: 2 create, 1 delete"."""
    if opcode != OpCode.MULTI:
        return OpCode(opcode).name.lower()
    parts = [part.header.type for part in records.decode(records.MultiOperationRecord, body).operations[:-1]]
    counts = Counter(OpCode(part).name.lower() for part in parts)
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
