"""A connection on a fake transport, and a loop and a server that do things when a test says so."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from codec.client import connect, create, packet
from codec.framing import Framer
from codec.packets import ConnectRequest
from lab.client.replies import Reply, reply_of
from lab.fakes.clock import FakeClock
from proxy.frontend.admission import ConnectionLimits
from proxy.frontend.connection import Connection, Connections, Services
from proxy.frontend.limits import LIMITS, Limits, Load
from proxy.frontend.opening import LongWords
from proxy.frontend.order import OrderContext
from proxy.frontend.request_logs import RequestLogs
from proxy.frontend.sampling import Sampling
from proxy.frontend.sessions import ServedSession
from proxy.frontend.traced import Traces
from proxy.frontend.turns import FlushQueue, StateGate
from proxy.log.append.outbox import Outbox
from proxy.log.append.pending import Pending
from proxy.options.top import TopOptions
from proxy.sasl.login import Login
from proxy.state.auth.schemes import AuthSchemes
from proxy.state.capture import new_machine
from proxy.state.node import full_node
from proxy.state.operation import Operations, Reading
from proxy.state.ops import EXTENDED
from proxy.state.outcome import CarriedOver, SessionChange
from proxy.state.pause import AtOnce, Lengths, Pause
from proxy.state.sessions import hash_of
from proxy.state.watches import WatchTable
from proxy.support.counters import Counters
from proxy.support.environment import Environment
from proxy.support.latency import Latency
from proxy.support.throttled_log import ThrottledLog
from schema.entry import Kind, Request, Rules, encode_terms

SESSION = 1
PASSWORD = b"sixteen bytes ok"
MAX_FRAME = 1000
INCARNATION = "abcdef"
EACH_STEP = Lengths(every=1)


def take_apart(raw: bytes) -> list[bytes]:
    """The payloads of whole packets."""
    framer = Framer(1 << 30)
    frames = framer.feed(raw)
    assert not framer.held
    return frames


class FakeTimer:
    """A callback that is due at some time."""

    def __init__(self, due: float, callback: Callable[[], object]) -> None:
        self.due = due
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeLoop:
    """Runs what was scheduled by `call_soon` when a test asks for it."""

    def __init__(self) -> None:
        self.now = 100.0
        self._soon: list[Callable[[], object]] = []
        self.timers: list[FakeTimer] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Any, *_args: Any, context: Any = None) -> Any:
        self._soon.append(callback)

    def call_later(self, delay: float, callback: Any, *_args: Any, context: Any = None) -> "FakeTimer":
        return self.call_at(self.now + delay, callback)

    def call_at(self, when: float, callback: Any, *_args: Any, context: Any = None) -> "FakeTimer":
        timer = FakeTimer(when, callback)
        self.timers.append(timer)
        return timer

    def wait(self, seconds: float) -> None:
        self.now += seconds
        for timer in [timer for timer in self.timers if timer.due <= self.now]:
            self.timers.remove(timer)
            if not timer.cancelled:
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


class FakeTransport(asyncio.Transport):
    """Notes what is written; each write alone."""

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

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True


class FakeHost:
    """A server whose log applies what was submitted when the test says so."""

    def __init__(
        self,
        loop: FakeLoop,
        operations: Operations = EXTENDED,
        sessions: Sequence[int] = (SESSION,),
        limits: Limits = LIMITS,
        lengths: Lengths = EACH_STEP,
    ) -> None:
        self.loop = loop
        self.clock = FakeClock(step=1e-6)  # else what is answered in one turn would depend on the machine
        self.machine = new_machine(1)
        self.watches = WatchTable()
        self.machine.transaction.watched = True
        self.reading = Reading(self.machine.tree, self.watches, {}, AtOnce())
        self.auth = AuthSchemes()
        self.operations = operations
        self.latency = Latency(operations.updates)
        self.counters = Counters()
        self.long_words = LongWords()
        self.throttled_log = ThrottledLog(logging.getLogger(__name__))
        self.load = Load(100_000)
        self.flush_queue = FlushQueue(loop.call_soon)
        self.is_whole = True
        self._when_whole: list[Callable[[], None]] = []
        self.holds = 0
        #: Called before the first request of a turn.
        self.look: Callable[[], object] = lambda: None
        of_loop = cast(asyncio.AbstractEventLoop, loop)
        self.state_gate = StateGate(
            cast(Any, self),
            of_loop,
            slice_seconds=0,
            clock=self.clock,
            lengths=lengths,
            share=0,
            look=self._look,
        )
        self.outbox = Outbox()
        self.attached: list[ConnectRequest] = []
        self.changes: list[SessionChange | CarriedOver] = []
        self.limits = limits
        self.connections = Connections(ConnectionLimits(0, 0, self.counters))
        self.login: Login | None = None
        self.traces: Traces | None = None
        self.request_logs: RequestLogs | None = None
        self.sampling = Sampling(
            TopOptions(sample=0, depth=3, window=60, log=0, rows=20), lambda bits: 0, lambda: 0.0
        )
        self.enforced_schemes: frozenset[str] = frozenset()
        self._entries = 0
        for session_id in sessions:
            body = encode_terms(4000, hash_of(PASSWORD))
            self.outbox.submit(Pending(Kind.OPEN, session_id, 0, (), body))
        self.commit()

    @property
    def pending(self) -> list[Pending]:
        """The requests that were submitted and not applied."""
        return list(self.outbox.queue)

    def services(self) -> Services:
        """The same, for a connection."""
        return Services(
            OrderContext(self.machine, self.reading, self.operations, self.enforced_schemes, self.limits),
            self.auth,
            MAX_FRAME,
            self.latency,
            self.counters,
            self.load,
            self.flush_queue,
            self.state_gate,
            self.outbox.submit_all,
            self.attach,
            self.answer,
            self.connections,
            self.sampling,
            request_logs=self.request_logs,
            traces=self.traces,
            login=self.login,
            throttled_log=self.throttled_log,
            long_words=self.long_words,
            environment=Environment(self.clock),
        )

    def attach(self, connection: Connection, request: ConnectRequest) -> None:
        self.attached.append(request)

    def answer(self, word: bytes, rest: bytes, pause: Pause) -> Iterator[str] | None:
        if word == b"dump":
            return (f"line {number}\n" for number in range(2000))
        return iter(("imok", rest.decode())) if word == b"ruok" else None

    def _look(self) -> None:
        self.look()

    def begin_long_write(self) -> None:
        """Begin a long write: the state is partially applied."""
        self.is_whole = False

    def end_long_write(self) -> None:
        """End the long write: the state is whole again."""
        self.is_whole = True
        self.call_waiting()

    def call_waiting(self) -> None:
        """Call what waits for a whole state."""
        waiting, self._when_whole = self._when_whole, []
        for callback in waiting:
            callback()

    def when_whole(self, callback: Callable[[], None]) -> None:
        self._when_whole.append(callback)

    def hold(self) -> None:
        self.holds += 1

    def release(self) -> None:
        self.holds -= 1

    def commit(self, count: int | None = None) -> None:
        """Apply the first `count` submitted requests, or all, as one entry."""
        machine = self.machine
        queue = self.outbox.queue
        taken = [queue.popleft() for _ in range(len(queue) if count is None else min(count, len(queue)))]
        self._entries += 1
        rules = Rules.EXTENDED_TYPES | (Rules.KEEPER if self.operations.keeper else 0)
        machine.begin(INCARNATION, self._entries, 1_700_000_000_000, rules)
        for pending in taken:
            request = Request(
                pending.kind, pending.session_id, pending.opcode, pending.identities, pending.body
            )
            outcome = machine.execute(request, pending.fields, wants_reply=True)
            self.watches.fire(machine.transaction.events, machine.zxid)
            pending.callback(pending, machine.zxid, outcome.err, outcome.body)
            self.changes += machine.session_changes
        machine.end()


class Client:
    """A connection, its host and what it has been sent so far."""

    def __init__(
        self, operations: Operations = EXTENDED, host: FakeHost | None = None, session_id: int = SESSION
    ) -> None:
        self.loop = FakeLoop() if host is None else host.loop
        self.host = FakeHost(self.loop, operations) if host is None else host
        self.transport = FakeTransport()
        self.connection = Connection(self.host.services(), cast(asyncio.AbstractEventLoop, self.loop))
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)
        self.session = ServedSession(session_id, 4000, self.loop.now)
        self._read = 0

    def establish(self) -> None:
        """Answer the connect request with the session."""
        self.connection.established(self.session, PASSWORD)

    def send(self, *chunks: bytes) -> None:
        """Send each chunk alone."""
        for chunk in chunks:
            self.connection.data_received(chunk)
        self.loop.run()

    def commit(self, count: int | None = None) -> None:
        """See FakeHost.commit."""
        self.host.commit(count)
        self.loop.run()

    def received(self) -> list[bytes]:
        """The packets since the last call."""
        raw = b"".join(self.transport.writes)[self._read :]
        self._read += len(raw)
        return take_apart(raw)

    def replies(self) -> list[Reply]:
        """The replies and events since the last call."""
        return [*map(reply_of, self.received())]

    def outcomes(self) -> list[tuple[int, int]]:
        """The xids and errors of the replies since the last call; an event has xid -1."""
        return [(reply.xid, reply.err) for reply in self.replies()]

    def xids(self) -> list[int]:
        """The xids of the replies since the last call."""
        return [reply.xid for reply in self.replies()]

    def lose(self) -> None:
        """The client is gone."""
        self.connection.connection_lost(None)
        self.loop.run()


def connected(host: FakeHost | None = None) -> Client:
    """A client with a session."""
    client = Client(host=host)
    client.send(connect(4000))
    client.establish()
    client.received()
    return client


def established(limits: Limits = LIMITS, large: int = 0, lengths: Lengths = EACH_STEP) -> Client:
    """A client with a session and the nodes /a (data "old") and /b, with so many bytes of data."""
    client = connected(FakeHost(FakeLoop(), limits=limits, lengths=lengths))
    client.send(packet(1, create("/a", b"old")), packet(2, create("/b")))
    client.commit()
    client.received()
    full_node(client.host.machine.tree.nodes, "/b").data = bytes(large)
    return client
