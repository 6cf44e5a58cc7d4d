"""A connection on a transport of paper, and a loop and a server that do things when a test says so."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

from codec.packets import ConnectRequest
from proxy.auth.schemes import Offer
from proxy.batch import Batch, Later, Request
from proxy.connection import Connection
from proxy.counters import Counters
from proxy.latency import Latency
from proxy.load import Load
from proxy.operation import Operations, Reading
from proxy.ops import EXTENDED
from proxy.sessions import Session
from proxy.watches import HeldWatches
from tests.proxy import packets
from tests.proxy.packets import Reply
from tests.proxy.world import INCARNATION, Proxy, Store

SESSION = 1
PASSWORD = b"sixteen bytes ok"
MAX_FRAME = 1000


class PaperTimer:
    """A callback that is due at some time."""

    def __init__(self, due: float, callback: Callable[[], object]) -> None:
        self.due = due
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class PaperLoop:
    """Runs what was called soon when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0
        self._soon: list[Callable[[], object]] = []
        self.timers: list[PaperTimer] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Any, *_args: Any, context: Any = None) -> Any:
        self._soon.append(callback)

    def call_later(self, delay: float, callback: Any, *_args: Any, context: Any = None) -> "PaperTimer":
        timer = PaperTimer(self.now + delay, callback)
        self.timers.append(timer)
        return timer

    def wait(self, seconds: float) -> None:
        self.now += seconds
        for timer in self.timers:
            if timer.due <= self.now and not timer.cancelled:
                timer.callback()
        self.run()

    def run(self) -> None:
        while self._soon:
            self.turn()

    def turn(self) -> None:
        """Run what has been called soon, but not what that calls."""
        soon, self._soon = self._soon, []
        for callback in soon:
            callback()


class PaperTransport(asyncio.Transport):
    """Notes what is written; each write by itself."""

    def __init__(self, peer: tuple[str, int] | None = ("10.0.0.7", 4711)) -> None:
        super().__init__({"peername": peer})
        self.writes: list[bytes] = []
        self.closed = False
        self.reading = True
        self.room = 10_000_000  # bytes until the protocol is paused
        self.protocol: Connection | None = None

    def is_closed(self) -> bool:
        return self.closed

    def is_read(self) -> bool:
        return self.reading

    def write(self, data: Any) -> None:
        assert not self.closed
        self.writes.append(bytes(data))
        self.room -= len(data)
        if self.room < 0 and self.protocol is not None:
            self.protocol.pause_writing()

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True


class PaperHost:
    """A server whose commits happen when the test says so."""

    def __init__(self, operations: Operations = EXTENDED, sessions: Sequence[int] = (SESSION,)) -> None:
        self.proxy = Proxy(Store(sessions))
        self.clients: dict[int, Connection] = {}
        self.reading = Reading(self.proxy.mirror.tree, self.proxy.watches)
        self.auth = Offer()
        self.operations = operations
        self.latency = Latency((*operations.reads, *operations.writes))
        self.counters = Counters()
        self.load = Load(100_000)
        self.pending: list[Request] = []
        self.attached: list[ConnectRequest] = []
        self.ended: list[int] = []
        self.full = False
        self.connections = 0

    @property
    def zxid(self) -> int:
        return self.proxy.mirror.zxid

    def unchanged_since(self, path: str, zxid: int) -> bool:
        return self.proxy.mirror.unchanged_since(path, zxid)

    def submit(self, request: Request) -> None:
        self.pending.append(request)

    def attach(self, connection: Connection, request: ConnectRequest) -> None:
        self.attached.append(request)

    def session_ended(self, session: Session, _closer: object) -> None:
        self.ended.append(session.id)

    def four_letter_word(self, word: bytes, rest: bytes) -> bytes | None:
        return b"imok" + rest if word == b"ruok" else None

    def opened(self, connection: Connection) -> bool:
        self.connections += 1
        return not self.full

    def gone(self, connection: Connection) -> None:
        self.connections -= 1

    def commit(self, count: int | None = None) -> None:
        """Commit the first `count` pending writes, or all, in as few batches as may be, and answer them."""
        taken, self.pending = self.pending[:count], self.pending[count:] if count is not None else []
        while taken:
            batch, taken = self.batch_of(taken)
            zxid = self.apply(batch)
            for request in batch.requests:
                request.done(request, zxid)

    def batch_of(self, requests: list[Request]) -> tuple[Batch, list[Request]]:
        """As many of the requests as one batch takes, in this order, and those left."""
        mirror = self.proxy.mirror
        watches_of = self._watches_of
        batch = Batch(mirror.tree, mirror.sessions, {}, INCARNATION, mirror.revision, 1, watches_of)
        left: list[Request] = []
        held: set[int] = set()
        for place, request in enumerate(requests):
            session_id = request.caller.session_id
            try:
                if session_id not in held and not batch.add(request):
                    return batch, [*left, *requests[place:]]
            except Later:
                held.add(session_id)
            if session_id in held:
                left.append(request)
        return batch, left

    def apply(self, batch: Batch) -> int:
        """Commit a batch and let the mirror follow; returns the Txn's zxid."""
        revision = self.proxy.commit(batch).revision
        self.proxy.catch_up()
        return self.proxy.mirror.zxid_of(revision)

    def _watches_of(self, session_id: int) -> HeldWatches | None:
        return self.proxy.watches.held_by(self.clients[session_id])


class Client:
    """A connection, its host and what it has been sent so far."""

    def __init__(
        self, operations: Operations = EXTENDED, host: PaperHost | None = None, session_id: int = SESSION
    ) -> None:
        self.loop = PaperLoop()
        self.host = PaperHost(operations) if host is None else host
        self.transport = PaperTransport()
        self.connection = Connection(self.host, cast(asyncio.AbstractEventLoop, self.loop), MAX_FRAME)
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)
        self.session = Session(session_id, 4000, self.loop.now)
        self.host.clients[session_id] = self.connection
        self._read = 0

    def establish(self) -> None:
        """Answer the connect request with the session."""
        self.connection.established(self.session, PASSWORD)

    def send(self, *chunks: bytes) -> None:
        """Send each chunk by itself."""
        for chunk in chunks:
            self.connection.data_received(chunk)
        self.loop.run()

    def commit(self, count: int | None = None) -> None:
        """See PaperHost.commit."""
        self.host.commit(count)
        self.loop.run()

    def received(self) -> list[bytes]:
        """The packets since the last call."""
        raw = b"".join(self.transport.writes)[self._read :]
        self._read += len(raw)
        return packets.take_apart(raw)

    def replies(self) -> list[Reply]:
        """The replies and events since the last call."""
        return packets.replies(self.received())

    def lose(self) -> None:
        """The client is gone."""
        self.connection.connection_lost(None)
        self.loop.run()


def established(operations: Operations = EXTENDED) -> Client:
    """A client with a session and the nodes /a (data "old") and /b."""
    client = Client(operations)
    client.send(packets.connect())
    client.establish()
    client.send(packets.create(1, "/a", b"old"), packets.create(2, "/b"))
    client.commit()
    client.received()
    return client
