"""A new process takes over from a simulated proxy, by the real code of `proxy.handover`.

Real is all that decides: `Sender`, `take`, and the form of what is passed on. Simulated are the process, the
socket pair between the two, and the numbers of sockets.

A fault can be planned for a step: when one of the two is about to send a message of a kind, or has just got
it, then one of the two is killed or stands still for a while.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, NamedTuple

from proof.simulation.proxies import Proxy
from proof.simulation.spoiling import PlantedError
from proof.simulation.transports import Socket
from proof.simulation.world import Host
from proxy.etcd.model import EtcdError
from proxy.frontend.connection import Connection
from proxy.handover.channel import Channel, HandoverError, Message
from proxy.handover.receiver import take
from proxy.handover.sender import Lost, NewProcess, Sender
from proxy.log.record import TreeNotServable
from proxy.server import Server

OLD, NEW = "old", "new"
STEPS = ("hello", "sockets", "adopted", "frozen", "carried", "clients", "listeners", "taken", "go", "serving")
_OF_THE_NEW = ("hello", "adopted", "carried", "taken", "serving")  # the others are the old one's
_MESSAGE = 0.005  # seconds that one takes: as with thousands of connections


class Trouble(NamedTuple):
    """A failure at one step of a handover."""

    step: str
    whose: str  # OLD or NEW
    before: bool  # it is sent, or else after it was received
    pause: float  # seconds that the process stands still; 0: it is killed
    resets: bool = False  # all clients of the proxy lose their connections

    def __str__(self) -> str:
        what = f"pauses for {self.pause} s" if self.pause else "is killed"
        return f"the {self.whose} process {what} {'before' if self.before else 'after'} {self.step!r}"


#: Clients connect while the new process adopts those that were there before.
RETURNING = Trouble("adopted", NEW, before=True, pause=2.0, resets=True)


def any_trouble(rng: Random) -> Trouble | None:
    """A trouble by chance, or none."""
    if rng.random() < 0.3:
        return None
    whose = rng.choice((OLD, NEW))
    before = rng.random() < 0.5
    steps = [step for step in STEPS if (step in _OF_THE_NEW) == ((whose == NEW) == before)]
    return Trouble(rng.choice(steps), whose, before, rng.choice((0.0, 0.5, 2.0, 8.0)))


class _End(Channel):
    """One end of the simulated socket pair."""

    def __init__(self, host: Host, at_step: Callable[[str, bool], None]) -> None:
        self.other: _End
        self.gone = False  # this process has ended
        self.sent: set[str] = set()  # the kinds of messages
        self._host = host
        self._at_step = at_step
        self._came: deque[Message | None] = deque()
        self._waiting: asyncio.Future[None] | None = None

    def end(self) -> None:
        """This process has ended: the other one learns it after all messages."""
        if not self.gone:
            self.gone = True
            other = self.other
            other._host.call_soon_at(self._host.world.now + 2 * _MESSAGE, other._take, None)

    async def ended(self) -> None:
        while await self._next() is not None:
            continue

    async def send(
        self, kind: str, fds: list[int] | None = None, timeout: float = 10.0, **fields: Any
    ) -> None:
        del timeout
        self._at_step(kind, True)
        await asyncio.sleep(_MESSAGE)
        if self.other.gone:
            raise HandoverError("the other process cannot be reached")
        self.sent.add(kind)
        message = Message(kind, json.loads(json.dumps(fields)), fds or [])
        other, arrives = self.other, self._host.world.now + _MESSAGE
        other._host.call_soon_at(arrives, other._take, message)

    async def receive(self, *kinds: str, timeout: float | None = 10.0) -> Message:
        try:
            async with asyncio.timeout(timeout):
                message = await self._next()
        except TimeoutError:
            raise HandoverError(f"no {kinds} from the other process: timed out") from None
        if message is None or message.kind not in kinds:
            raise HandoverError(f"no {kinds} from the other process: {message}")
        self._at_step(message.kind, False)
        await asyncio.sleep(0)
        return message

    def _take(self, message: Message | None) -> None:
        self._came.append(message)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def _next(self) -> Message | None:
        while not self._came:
            self._waiting = self._host.create_future()
            await self._waiting
        return self._came[0] if self._came[0] is None else self._came.popleft()


class HotRestart(NewProcess):
    """One attempt. It is the new process too, as the old one sees it (`sender.NewProcess`)."""

    pid = 0

    def __init__(self, proxy: Proxy, elsewhere: Host, trouble: Trouble | None) -> None:
        """`elsewhere`: where a fault is made, so that it can end either process."""
        assert proxy.host is not None
        self._proxy = proxy
        self._elsewhere = elsewhere
        self._trouble = trouble
        self._old, self._new = proxy.host, proxy.process()
        self._server: Server | None = None  # of the new process
        self._has_gone = False  # the new process got the word that all is its own
        self.channel = ours = _End(self._old, partial(self._at_step, OLD))
        self._ours = ours
        self._theirs = _End(self._new, partial(self._at_step, NEW))
        ours.other, self._theirs.other = self._theirs, ours
        self._old.on_kill, self._new.on_kill = self._kill_old, self._kill_new

    def begin(self) -> None:
        """Let the old process start the new one."""
        self._old.call_soon(lambda: self._old.create_task(self._give(), name="hand over"))

    # -- the old process -------------------------------------------------------------------------------------

    async def _give(self) -> None:
        proxy, server = self._proxy, self._proxy.server
        assert server is not None
        try:
            await Sender(server, {"main": Socket().fileno()}).run(self._start)
        except Lost as error:
            proxy.world.trace(proxy.name, f"lost its new process: {error}")
        except HandoverError as error:
            proxy.world.trace(proxy.name, f"no upgrade: {error}")
            return
        await server.stop()
        self._ours.end()
        self._elsewhere.call_soon(self._proxy.end_process, self._old)

    async def _start(self) -> "HotRestart":
        host = self._new
        self._proxy.others[host] = None
        host.call_soon(lambda: host.create_task(self._take(), name="take over"))
        return self

    async def end(self) -> None:
        """The old process ends the new one."""
        self._elsewhere.call_soon(self._kill_new)
        await asyncio.sleep(_MESSAGE)

    # -- the new process -------------------------------------------------------------------------------------

    async def _take(self) -> None:
        proxy, host, channel = self._proxy, self._new, self._theirs
        error: BaseException
        try:
            server = self._server = proxy.server_of(host)
            await server.start(lambda _count: None, None, None, self._taken)
            proxy.take_entries(server, host)
            proxy.world.trace(proxy.name, f"a new process serves as {server.log.incarnation}")
            try:
                await channel.send("serving")
            except HandoverError as gone:
                proxy.world.trace(proxy.name, f"its old process: {gone}")
            error = await server.failed()
        except (TreeNotServable, EtcdError, HandoverError, PlantedError, MemoryError) as failure:
            error = failure
        proxy.world.trace(proxy.name, f"the new process ends: {type(error).__name__}: {error}")
        if self._has_gone and not host.spoiled:
            proxy.ended = f"{type(error).__name__}: {error}"
        self._elsewhere.call_soon(self._kill_new)

    async def _taken(self) -> dict[str, Any]:
        assert self._server is not None
        taken = await take(self._theirs, self._server, self._adopt)
        return {name: Socket() for name in taken}

    async def _adopt(self, number: int, connection: Connection) -> None:
        new = self._proxy.transports.of_number(number).second(self._new, connection)
        made = self._new.create_future()

        def make() -> None:  # as uvloop does it: it reads from the next turn on
            connection.connection_made(new)
            self._new.call_soon(new.poll)
            made.set_result(None)

        self._new.call_soon(make)
        await made

    def _go(self) -> None:
        """From here on the new process is the proxy."""
        proxy = self._proxy
        self._has_gone = True
        proxy.host, proxy.server = self._new, self._server
        proxy.others.pop(self._new, None)
        if not self._old.dead:
            proxy.others[self._old] = None
        proxy.world.trace(proxy.name, "a new process takes over")

    # -- faults ----------------------------------------------------------------------------------------------

    def _at_step(self, whose: str, step: str, before: bool) -> None:
        if (step, whose, before) == ("go", NEW, False):
            self._go()
        trouble = self._trouble
        if trouble is None or trouble[:3] != (step, whose, before):
            return
        self._trouble = None
        self._proxy.world.trace("nemesis", str(trouble))
        if trouble.resets:
            for transport in list(self._proxy.transports):
                transport.reset()
        host, elsewhere = (self._old if whose == OLD else self._new), self._elsewhere
        if trouble.pause:
            elsewhere.call_soon(host.pause)
            elsewhere.call_later(trouble.pause, host.resume)
        else:
            elsewhere.call_soon(self._kill_old if whose == OLD else self._kill_new)

    def _kill_new(self) -> None:
        if self._has_gone:
            if self._proxy.host is self._new:
                self._proxy.kill()
        else:
            self._proxy.end_process(self._new)
        self._theirs.end()

    def _kill_old(self) -> None:
        proxy = self._proxy
        if proxy.host is self._old and "go" not in self._ours.sent:
            proxy.kill()  # the new one ends as well: it has nothing to take over
        else:
            proxy.end_process(self._old)
        self._ours.end()
