"""One round: clients on an empty tree, faults one after another, and then everything is judged.

A round has a history of its own, so that memory is bounded and a mistake is found soon.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from proof.history import (
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
    Sync,
)
from proof.history.calls import failure
from proof.history.records import Event, Request
from proof.simulation.clients import Client
from proof.simulation.loads import Home
from proof.simulation.mix import LOCKS
from proof.torture.acts import Fault
from proof.torture.availability import Episode, measured
from proof.torture.judge import Acknowledged, Evidence, Seen, questions
from proof.torture.real import RealAddress, RealClock
from proof.torture.script import Scene, Script
from proof.torture.zketcd import Zketcd

_WRITES = Create | Delete | SetData | Multi
TWO = "two at once"  # what an episode of two faults is called
RECOVERY_LIMIT = 120.0  # seconds after a fault's end until everything works again
_SETTLE_LIMIT = 150.0  # seconds until the sessions of dead clients are over, and all proxies are level
_AUDIT_LIMIT = 60.0
_POLL = 0.05
_THINK = 0.1  # seconds between two bursts of a client's requests, on average
_NEVER = 1e9
_TIMEOUTS_MS = (3_000, 6_000, 12_000)
# Clients that have an ephemeral node and then only send pings. Their timeout is so long that they stay where
# they are while their server is paused or cut off, so that their sessions have to be carried over.
_IDLE = 2
_IDLE_TIMEOUT_MS = 24_000


class Plan(NamedTuple):
    """The settings of a round."""

    number: int
    clients: int
    least: int = 1
    """Faults that there are, however long they take."""


class Judged(NamedTuple):
    """The result of one round."""

    episodes: list[Episode]
    violations: list[str]
    aside: Counter[str]
    operations: int
    sessions: int
    expiries: int
    events: int
    history: History
    settled: bool


class Round:
    """One round."""

    def __init__(self, system: Zketcd, clock: RealClock, plan: Plan) -> None:
        self._system = system
        self._clock = clock
        self._plan = plan
        self._random = clock.random(f"round {plan.number}")
        self._history = History()
        self._clients: list[Client] = []
        self._idle: list[Client] = []
        self._everybody: list[Client] = []
        self._answers: list[Acknowledged] = []
        self._writes: dict[str, list[float]] = {}
        self._reads: dict[str, list[float]] = {}
        self._violations: list[str] = []
        self._episodes: list[Episode] = []
        self._addresses: list[RealAddress] = []
        self._direct: list[RealAddress] = []
        self._homes: dict[int, list[Home]] = {}
        self._stall = 0.0
        self._early: list[tuple[int, str]] = []  # sessions that ended too early, unless that is excused
        clock.on_error = self._violate

    async def run(self, until: float, script: Script) -> Judged:
        """Continue until a time of the clock."""
        self._system.begin_round(self._expired)
        async with asyncio.TaskGroup() as group:
            system = self._system
            self._addresses = [RealAddress(name, port, group) for name, port in system.ports.items()]
            self._direct = [RealAddress(name, port, group) for name, port in system.direct.items()]
            measuring = group.create_task(self._measure_stalls())
            for _ in range(self._plan.clients):
                self._new_client(group)
            self._new_client(group, reads_only=True)
            for _ in range(_IDLE):
                self._new_idle(group)
            await self._recover(self._clock.now, "the start of the round")
            while (
                self._clock.now < until or len(self._episodes) < self._plan.least
            ) and not self._violations:
                scene = script.next()
                await self._episode(group, scene)
                await asyncio.sleep(scene.quiet)
            await self._finish()
            seen = await self._audit(group)
            measuring.cancel()
        return await self._judge(seen)

    # -- clients ---------------------------------------------------------------------------------------------

    def _new_client(self, group: asyncio.TaskGroup, *, reads_only: bool = False) -> Client:
        client = self._client(self._addresses, self._random.choice(_TIMEOUTS_MS), reads_only=reads_only)
        self._clients.append(client)
        if not reads_only:
            self._writes[client.name] = []
        self._reads[client.name] = []
        group.create_task(client.run())
        return client

    def _new_idle(self, group: asyncio.TaskGroup) -> None:
        client = self._client(self._addresses, _IDLE_TIMEOUT_MS)
        client.think = _NEVER
        client.wish(Create(f"{LOCKS}/{client.name}", ephemeral=True))
        client.urge()
        self._idle.append(client)
        group.create_task(client.run())

    def _client(
        self, addresses: Sequence[RealAddress], timeout_ms: int, *, reads_only: bool = False
    ) -> Client:
        client = Client(
            self._clock,
            asyncio.get_running_loop(),
            f"round{self._plan.number}-client{len(self._everybody) + 1}",
            addresses,
            self._history,
            timeout_ms,
            reads_only=reads_only,
        )
        client.think = _THINK
        client.on_reply = lambda *answered: self._answered(client, *answered)
        client.on_session = self._came
        self._everybody.append(client)
        return client

    def _answered(self, client: Client, session: int, request: Request, reply: Reply) -> None:
        now = self._clock.now
        self._answers.append(Acknowledged(now, session, request, reply, client.timeout))
        if client.name not in self._reads:
            return
        if isinstance(request, GetData | GetChildren | Exists):
            self._reads[client.name].append(now)
        elif client.name in self._writes and isinstance(request, _WRITES) and not failure(reply):
            self._writes[client.name].append(now)

    def _came(self, session: int, proxy: str) -> None:
        self._homes.setdefault(session, []).append(Home(int(self._clock.now * 1e9), proxy))

    def _kill_client(self, group: asyncio.TaskGroup) -> None:
        client = self._random.choice(self._clients)
        if client.is_connected:
            client.die()
            self._clients.remove(client)
            self._writes.pop(client.name, None)
            self._reads.pop(client.name, None)
            self._new_client(group, reads_only=client.reads_only)

    def _violate(self, what: str) -> None:
        if len(self._violations) < 50:
            self._clock.trace("VIOLATION", what)
            self._violations.append(what)

    def _expired(self, session: int) -> None:
        """The log ends a session. A client that is not connected would tell the history late, or never.

        The history has no pings, so whether the end comes too early after one is looked at here.
        """
        for client in self._everybody:
            since = self._clock.now - client.alive_at
            if client.session == session and since < client.timeout:
                what = (
                    f"session {session:#x} of {client.name} ended {since:.2f} s after a ping that was"
                    f" answered; its timeout is {client.timeout:.0f} s"
                )
                self._early.append((session, what))
        if any(client.session == session and not client.is_connected for client in self._everybody):
            self._history.expired(int(self._clock.now * 1e9), session)

    # -- faults ----------------------------------------------------------------------------------------------

    async def _episode(self, group: asyncio.TaskGroup, scene: Scene) -> None:
        """One fault, or two at once."""
        kinds = scene.kinds
        for times in (*self._writes.values(), *self._reads.values()):
            times.clear()
        self._stall = 0.0
        name = kinds[0] if len(kinds) == 1 else TWO
        began = self._clock.now
        going: list[Fault] = []
        for kind in kinds:
            self._clock.trace("faults", f"{kind} begins, for {scene.hold:.0f} s")
            going.append(await asyncio.to_thread(self._system.begin, kind))
        if scene.dies:
            self._kill_client(group)
        await asyncio.sleep(scene.hold)
        what = ", ".join(f"{kind} ({fault.what})" for kind, fault in zip(kinds, going, strict=True))
        await self._end(what, going)
        ended = self._clock.now
        self._clock.trace("faults", f"{what} has ended")
        worked = await self._recover(ended, what)
        if worked is not None:
            span = began, ended, worked
            self._episodes.append(measured(name, what, span, self._writes, self._reads, self._stall))

    async def _measure_stalls(self) -> None:
        while True:
            before = self._clock.now
            await asyncio.sleep(_POLL)
            self._stall = max(self._stall, self._clock.now - before - _POLL)

    async def _end(self, what: str, going: Sequence[Fault]) -> None:
        for fault in sorted(going, key=lambda fault: fault.last):
            await asyncio.to_thread(fault.end)
        for server in self._system.ended():
            self._violate(f"ended by itself under {what}: {server}")
        await asyncio.to_thread(self._system.mend)

    async def _recover(self, since: float, after: str) -> float | None:
        """Wait until everything works; when that was, None if it takes too long."""
        for client in self._clients:
            client.urge()
        while self._clock.now - since < RECOVERY_LIMIT:
            lacking = await self._what_lacks(since)
            if not lacking:
                return self._clock.now
            await asyncio.sleep(_POLL)
        lacking = await self._what_lacks(since)
        self._violate(f"no recovery within {RECOVERY_LIMIT:.0f} s after {after}: {lacking}")
        return None

    async def _what_lacks(self, since: float) -> str:
        for client in self._clients:
            if client.worked_at < since:
                return f"{client.name} has not {'read' if client.reads_only else 'written'}"
        server = await asyncio.to_thread(self._system.lacks)
        return f"{server} does not serve" if server else ""

    # -- the end ---------------------------------------------------------------------------------------------

    async def _finish(self) -> None:
        """Close all sessions, and wait for those of dead clients."""
        clients = [*self._clients, *self._idle]
        for client in clients:
            client.retire()
            client.urge()
        if not await self._until(lambda: not any(client.session for client in clients)):
            self._violate("clients could not close their sessions")
        for client in clients:
            client.stopped = True
        deadline = self._clock.now + _SETTLE_LIMIT
        while left := await self._system.sessions():
            if self._clock.now > deadline:
                self._violate(f"sessions of dead clients have not ended: {', '.join(left)}")
                break
            await asyncio.sleep(_POLL)
        for address in self._addresses:
            address.close()

    async def _until(self, probe: Callable[[], bool], limit: float = _SETTLE_LIMIT) -> bool:
        deadline = self._clock.now + limit
        while not probe():
            if self._clock.now > deadline:
                return False
            await asyncio.sleep(_POLL)
        return True

    async def _audit(self, group: asyncio.TaskGroup) -> dict[str, Seen]:
        """The whole tree as each server has it, read by sessions that are part of the history."""
        seen: dict[str, Seen] = {}
        paths = sorted(await self._system.tree())
        for address in self._direct:
            answers = seen[address.name] = Seen({}, {})
            deadline = self._clock.now + _AUDIT_LIMIT
            # A connection may be lost: a proxy closes it if etcd is silent for a session's timeout.
            while len(answers.children) < len(paths):
                if self._clock.now > deadline:
                    self._violate(f"{address.name} does not answer the audit")
                    break
                wishes = [Sync(), *questions(paths), CloseSession()]
                client = self._client([address], self._random.choice(_TIMEOUTS_MS), reads_only=True)
                for wish in wishes:
                    client.wish(wish)
                client.on_reply = _recorder(answers)
                client.retire()
                group.create_task(client.run())
                await self._until(partial(_is_through, client), _AUDIT_LIMIT)
                client.stopped = True
        last = max((answer.reply.zxid or 0 for answer in self._answers), default=0)
        if not await self._until(lambda: self._system.knows(last)):
            self._violate(f"the log does not hold zxid {last:#x}, which clients have seen")
        return seen

    async def _judge(self, seen: dict[str, Seen]) -> Judged:
        broken = bool(self._violations)
        verdict = await self._system.judge(
            Evidence(self._history, self._answers, self._homes, self._early, seen, broken)
        )
        return Judged(
            self._episodes,
            [*self._violations, *verdict.violations],
            verdict.aside,
            sum(client.operations for client in self._everybody),
            sum(client.sessions for client in self._everybody),
            sum(client.expiries for client in self._everybody),
            sum(isinstance(record, Event) for record in self._history.records),
            verdict.history,
            verdict.settled,
        )


def _is_through(client: Client) -> bool:
    """Whether a client has had a session and has closed it."""
    return client.sessions > 0 and client.session == 0


def _recorder(answers: Seen) -> Callable[[int, Request, Reply], None]:
    def record(_session: int, request: Request, reply: Reply) -> None:
        if isinstance(request, GetData):
            answers.data[request.path] = reply
        elif isinstance(request, GetChildren):
            answers.children[request.path] = reply

    return record
