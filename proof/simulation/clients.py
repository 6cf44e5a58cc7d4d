"""A client: a session that roams between proxies, watches, and what it asks for.

It does what ZooKeeper's own client does: replies in order, pings, another server after silence or a lost
connection, the watches set again there, a new session after an expired one. All that it sees goes into the
history, and every message into the trace. `proof.torture` uses it on real processes: what differs is behind
the protocols below.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Protocol

from codec import client as zk
from codec.client import Dialogue
from codec.constants import Xid
from codec.packets import REPLY_HEADER
from proof.history import (
    AddWatch,
    CloseSession,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    History,
    Multi,
    Reply,
    SetData,
    SetWatches,
)
from proof.history.records import CHANGED, CHILDREN, CREATED, DELETED, NO_NODE, NODE_EXISTS, Request
from proof.simulation import packets
from proof.simulation.mix import Mix

_CONNECT_TIMEOUT = 3.0  # seconds for an answer to a connect request
_URGED = 1.0  # seconds between two bursts of requests of a client that is urged
_DATA, _ABSENT, _LISTED, _PERSISTENT, _RECURSIVE = range(5)
_BURST = 5  # requests at most that are sent together


class Clock(Protocol):
    """Time and chance, simulated or real."""

    on_error: Callable[[str], None]

    @property
    def now(self) -> float:
        """Seconds since some moment; never goes back."""

    def random(self, name: str) -> random.Random:
        """The seed's randomness for one purpose."""

    def trace(self, who: str, what: str) -> None:
        """Note what happened."""


class Timers(Protocol):
    """The client's event loop."""

    def call_later(self, delay: float, callback: Callable[..., object], /) -> asyncio.TimerHandle:
        """Call after so many seconds."""


class Line(Protocol):
    """A client's connection to a proxy."""

    def give(self, data: bytes) -> None:
        """Send something."""

    def hang_up(self, *, silently: bool = False) -> None:
        """Close it; `silently`: the other side is not notified."""


class Address(Protocol):
    """Where a client may connect to."""

    name: str

    def accept(self, client: str, target: Any, came: Callable[[bytes | None], None]) -> Line | None:
        """Connect; None if no process listens. `came` gets what is sent here, and None at the end."""


class Client:
    """One client, through all of its sessions."""

    def __init__(
        self,
        world: Clock,
        host: Timers,
        name: str,
        proxies: Sequence[Address],
        history: History,
        timeout_ms: int,
        *,
        reads_only: bool = False,
    ) -> None:
        """`reads_only`: it waits for no write, so it stays with a server that applies nothing any more."""
        self.world = world
        self.host = host
        self.name = name
        self.session = 0
        #: Seconds between two bursts of requests, on average.
        self.think = 1.0
        #: When the last ping was sent that was answered, in the world's time.
        self.alive_at = 0.0
        #: When it last did what it is there for: a write, or a read if it reads only.
        self.worked_at = -1.0
        self.reads_only = reads_only
        self._urged_at = -2.0
        self._due = 0.0  # when it next asks for something
        self.operations = 0
        self.sessions = 0
        self.expiries = 0
        self.stopped = False
        self._retires = False
        #: Whether the process is gone: it neither sends nor reads.
        self.dead = False
        self.timeout = timeout_ms / 1000
        #: Gets each acknowledged reply: session, request, reply.
        self.on_reply: Callable[[int, Request, Reply], None] = lambda _session, _request, _reply: None
        #: Called with each session that it opens or continues, and the address's name.
        self.on_session: Callable[[int, str], None] = lambda _session, _proxy: None
        #: Called when an address, given by its name, has said that the session is over.
        self.on_expired: Callable[[str], None] = lambda _proxy: None
        self._timeout_ms = timeout_ms
        self._proxies = list(proxies)
        self.history = history
        self._random = world.random(f"client {name}")
        self._password = bytes(16)
        self._zxid = 0
        self._xids = count(1)
        self._dialogue = Dialogue(self._xids)
        self._transport: Line | None = None
        self._waiting: deque[tuple[int, int, Request]] = deque()  # xid, call, request
        self._set_watches: tuple[int, SetWatches] | None = None
        self._heard = 0.0
        self._sent = 0.0
        self._pinged = 0.0
        self._woken: asyncio.Event | None = None
        self._is_connecting = False
        # The paths that it watches, by _DATA and so on, as setWatches2 has them.
        self._watches: list[dict[str, None]] = [{} for _ in range(5)]
        self._mix = Mix(self._random, name)
        self._wishes: list[Request] = []
        self._asleep_until = 0.0
        # What came while it was asleep, and when.
        self._unread: list[tuple[Line | None, bytes | None, float]] = []
        self.came_at = 0.0  # when what it reads now came
        self.slow_since: float | None = None  # since when it reads slowly: replies may have waited so long

    @property
    def is_asleep(self) -> bool:
        """Whether it stands still."""
        return self.world.now < self._asleep_until

    def sleep(self, seconds: float) -> None:
        """Stand still, as a process that is stopped or collects garbage: it neither sends nor reads."""
        self._note(f"sleeps for {seconds:.1f} s")
        self._asleep_until = self.world.now + seconds

    def wake(self) -> None:
        """Continue at once."""
        self._asleep_until = min(self._asleep_until, self.world.now)
        if self._woken is not None:
            self._woken.set()

    def session_ended(self) -> None:
        """The log has its session end while it stands still, and its server closes the connection.

        What arrived before that is recorded here: the history is in the order of time.
        """
        if self.is_asleep:
            asleep_until, self._asleep_until = self._asleep_until, 0.0
            self._catch_up()
            self._disconnect()
            self._asleep_until = asleep_until

    def _catch_up(self) -> None:
        """Take what came while it stood still."""
        unread, self._unread = self._unread, []
        for transport, data, came_at in unread:
            self._consume(transport, data, came_at)

    async def _sleep(self) -> None:
        """Wait until the client is awake, and has read what came meanwhile."""
        while self.is_asleep and not self.dead:
            await self._wait(self._asleep_until - self.world.now)
        self._catch_up()

    @property
    def is_connected(self) -> bool:
        """Whether it has a session on a connection."""
        return self._transport is not None and not self._is_connecting and self.session != 0

    @property
    def listens(self) -> bool:
        """Whether it is connected, and reads what comes."""
        return self.is_connected and not self.is_asleep

    @property
    def is_over(self) -> bool:
        """Whether it neither works nor will."""
        return self.stopped or (self._retires and self.sessions > 0 and self.session == 0)

    async def run(self) -> None:
        """Work until stopped."""
        self._woken = asyncio.Event()
        while not self.is_over:
            await self._sleep()
            if await self._connect():
                await self._work()
                self._disconnect()
            await asyncio.sleep(0.05 + self._random.random() * 0.5)

    def retire(self) -> None:
        """Close the session after what is wished, and stop."""
        self._retires = True

    def wish(self, request: Request) -> None:
        """Send this request with the next ones."""
        self._wishes.append(request)

    def urge(self, within: float = _URGED) -> None:
        """Do its work soon, and again until that succeeds: the simulation waits for it."""
        self._urged_at = self.world.now
        self._due = min(self._due, self.world.now + self._random.random() * within)
        if self._woken is not None:
            self._woken.set()

    @property
    def _is_urged(self) -> bool:
        return self.worked_at < self._urged_at

    def die(self) -> None:
        """The process is gone without closing anything: its session has to expire."""
        self.stopped = self.dead = True
        if self._transport is not None:
            self._transport.hang_up(silently=True)
            self._lost_calls()
            self._note(f"dies with session {self.session:#x}")
            self._transport = None

    # -- connections -----------------------------------------------------------------------------------------

    async def _connect(self) -> bool:
        proxy = self._random.choice(self._proxies)
        transport = proxy.accept(self.name, self.host, lambda data: self._came(transport, data))
        if transport is None:
            return False
        self._transport = transport
        self._dialogue = Dialogue(self._xids)
        self._is_connecting = True
        transport.give(zk.connect(self._timeout_ms, self._zxid, self.session, self._password))
        deadline = self.world.now + max(_CONNECT_TIMEOUT, self.timeout / 2)
        while self._transport is transport and not self._dialogue.granted and self.world.now < deadline:
            await self._wait(deadline - self.world.now)
            await self._sleep()
        if self._transport is not transport or self.dead:
            return False
        if self._dialogue.granted is None:
            self._note(f"gets no session from {proxy.name}")
            transport.hang_up()
            self._transport = None
            return False
        session, password, timeout_ms = self._dialogue.granted
        self._is_connecting = False
        now = self._now()
        if session == 0:
            self._note(f"session {self.session:#x} is expired")
            self.history.expired(now, self.session)
            self.on_expired(proxy.name)
            self.expiries += 1
            self._forget_session()
            transport.hang_up()
            self._transport = None
            return False
        if session == self.session:
            self.history.attached(now, session)
            self._note(f"goes on with session {session:#x} at {proxy.name}")
        else:
            self.history.opened(now, session, timeout_ms, self.name)
            self.sessions += 1
            self._note(f"opens session {session:#x} at {proxy.name}")
        self.on_session(session, proxy.name)
        self.session, self._password = session, password
        self.timeout = timeout_ms / 1000
        self._heard = self._sent = self._pinged = self.world.now
        return True

    def _forget_session(self) -> None:
        self.session, self._password = 0, bytes(16)
        for paths in self._watches:
            paths.clear()
        self._mix.own.clear()

    def _disconnect(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.hang_up()
        self._lost_calls()

    def _lost_calls(self) -> None:
        now = self._now()
        if self._set_watches is not None:
            self._waiting.append((0, *self._set_watches))
            self._set_watches = None
        for _, call, _request in self._waiting:
            self.history.lost(now, call)
        self._waiting.clear()
        if self.session:
            self.history.disconnected(now, self.session)
            self._note(f"loses the connection of session {self.session:#x}")

    async def _wait(self, seconds: float) -> None:
        """Wait until something arrives, at most so long."""
        assert self._woken is not None
        self._woken.clear()
        handle = self.host.call_later(max(0.0, seconds), self._woken.set)
        await self._woken.wait()
        handle.cancel()

    # -- what comes ------------------------------------------------------------------------------------------

    def _came(self, transport: Line | None, data: bytes | None) -> None:
        if transport is not self._transport or self.dead:
            return
        if self.is_asleep:
            self._unread.append((transport, data, self.world.now))
            return
        if self._unread:  # it has just woken: what came before comes first
            self._catch_up()
        self._consume(transport, data, self.world.now)

    def _consume(self, transport: Line | None, data: bytes | None, came_at: float) -> None:
        if transport is not self._transport or self.dead:
            return
        self.came_at = came_at if self.slow_since is None else self.slow_since
        assert self._woken is not None
        self._woken.set()
        if data is None:
            self._transport = None
            return
        self._heard = self.world.now
        for frame in self._dialogue.feed(data):
            self._take(frame)

    def _take(self, frame: bytes) -> None:
        xid, zxid, error = zk.header(frame)
        if xid == Xid.PING:
            self.alive_at = self._pinged
            return
        if xid == Xid.NOTIFICATION:
            kind, path, _ = zk.read_event(zk.body(frame))
            self._note(f"event {kind} {path} zxid {zxid}")
            self.history.event(self._now(), self.session, kind, path, zxid)
            self._fired(kind, path)
            return
        if zxid > 0:
            if zxid < self._zxid:
                self.world.on_error(f"{self.name}: zxid {zxid:#x} after {self._zxid:#x}")
            self._zxid = max(self._zxid, zxid)
        if xid == Xid.SET_WATCHES:
            if self._set_watches is not None:
                call, watches = self._set_watches
                self._set_watches = None
                answer = Reply(error, zxid)
                self.history.reply(self._now(), call, answer)
                self.on_reply(self.session, watches, answer)
            return
        if not self._waiting or self._waiting[0][0] != xid:
            self.world.on_error(f"{self.name}: a reply to request {xid} comes out of turn")
            return
        _, call, request = self._waiting.popleft()
        answer = packets.reply(request, zxid, error, frame[REPLY_HEADER.size :])
        self._note(f"{_short(request)} -> {error or ''} zxid {zxid}")
        self.history.reply(self._now(), call, answer)
        self.on_reply(self.session, request, answer)
        self.operations += 1
        self._learn(request, answer)

    def _learn(self, request: Request, answer: Reply) -> None:
        failed = answer.error or next((part.error for part in answer.parts or () if part.error), 0)
        self._mix.learn(request, answer, failed)
        match request:
            case GetData(path, True) | Exists(path, True) if not failed:
                self._watches[_DATA][path] = None
            case Exists(path, True) if failed == NO_NODE:
                self._watches[_ABSENT][path] = None
            case GetChildren(path, True) if not failed:
                self._watches[_LISTED][path] = None
            case AddWatch(path, recursive) if not failed:
                self._watches[_RECURSIVE if recursive else _PERSISTENT][path] = None
        wrote = (not failed and isinstance(request, Create | Delete | SetData | Multi)) or (
            failed == NODE_EXISTS and isinstance(request, Create)
        )
        if wrote or self.reads_only:
            self.worked_at = self.world.now

    def _fired(self, kind: int, path: str) -> None:
        if kind in (CREATED, CHANGED, DELETED):
            self._watches[_DATA].pop(path, None)
            self._watches[_ABSENT].pop(path, None)
        if kind in (CHILDREN, DELETED):
            self._watches[_LISTED].pop(path, None)

    # -- what it does ----------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Send requests until the connection is lost, or the session closed."""
        transport = self._transport
        self._restore_watches()
        for request in self._mix.missing_roots():
            self._send(request)
        self._due = self.world.now + self._pause()
        while self._transport is transport and transport is not None and not self.stopped:
            if self.is_asleep or self._unread:
                await self._sleep()
                continue
            now = self.world.now
            if now - self._heard > self.timeout * 2 / 3:
                self._note("hears nothing")
                return
            if now - self._sent >= self.timeout / 3:
                self._sent = self._pinged = now
                transport.give(zk.PING)
            has_room = len(self._waiting) < 2 * _BURST  # a reply makes room, and wakes
            if now >= self._due and has_room:
                self._due = now + self._pause()
                requests = self._choose()
                for request in requests:
                    self._send(request)
                if isinstance(requests[-1], CloseSession):
                    await self._closed(transport)
                    return
            wake = min(self._heard + self.timeout * 2 / 3 + 0.001, self._sent + self.timeout / 3)
            if has_room:
                wake = min(wake, self._due)
            await self._wait(max(0.001, wake - self.world.now))

    async def _closed(self, transport: Line) -> None:
        """Wait for the end of a session that was closed."""
        deadline = self.world.now + self.timeout
        while self._waiting and self._transport is transport and self.world.now < deadline:
            await self._wait(deadline - self.world.now)
            await self._sleep()
        if not self._waiting:
            # Answered: this session is over for good.
            if self._transport is not None:
                self._transport.hang_up()
                self._transport = None
            self._note(f"session {self.session:#x} is closed")
            self._forget_session()

    def _pause(self) -> float:
        return self._random.expovariate(1 / (min(self.think, _URGED) if self._is_urged else self.think))

    def _send(self, request: Request) -> None:
        transport = self._transport
        if transport is None:
            return
        call = self.history.invoke(self._now(), self.session, request)
        if isinstance(request, SetWatches):
            self._set_watches = (call, request)
            packet = zk.packet(Xid.SET_WATCHES, packets.asked(request))
        else:
            xid, packet = self._dialogue.request(packets.asked(request))
            self._waiting.append((xid, call, request))
        self._sent = self.world.now
        transport.give(packet)

    def _restore_watches(self) -> None:
        if any(self._watches):
            self._send(SetWatches(self._zxid, *map(tuple, self._watches)))

    def _choose(self) -> list[Request]:
        rng = self._random
        if self._wishes:
            wishes, self._wishes = self._wishes, []
            return wishes
        if self._retires or rng.random() < 0.01:
            return [CloseSession()]
        if self._is_urged and not self.reads_only:
            return [self._mix.write()]
        one = self._mix.read if self.reads_only else self._mix.any
        return [one() for _ in range(1 if rng.random() < 0.6 else rng.randint(2, _BURST))]

    def _now(self) -> int:
        return int(self.world.now * 1e9)

    def _note(self, what: str) -> None:
        self.world.trace(self.name, what)


def _short(request: Request) -> str:
    name = type(request).__name__
    if isinstance(request, Multi):
        return f"{name}({', '.join(_short(part) for part in request.parts)})"
    return f"{name}{tuple(request)!r}" if len(request) < 5 else name
