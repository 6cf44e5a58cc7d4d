"""The process that serves: it starts the new one, and gives it everything, or continues."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from proxy.frontend.connection import Connection
from proxy.handover.channel import MOST_SOCKETS, Channel, HandoverError
from proxy.handover.moved import FORM, Change, encode, in_parts, mark, pack
from proxy.log.status import Contact
from proxy.server import Server
from proxy.support import probe
from proxy.support.spawn import Child

log = logging.getLogger("zketcd")

_START = 600.0  # seconds in which the new process has to load the tree
_ANSWERED = 3.0  # seconds for etcd to answer what was taken from clients
_READ = 1.0  # seconds for slow reads: all clients wait
_CARRIED = 3.0  # seconds to carry the sessions over
_CARRIED_EACH = 1e-5  # seconds more for each session: ten times what it takes
_UNREAD = 1.0  # seconds for clients to read their replies; those that do not are closed at the end
_STANDSTILL = 0.05  # seconds without any progress of theirs: the same
_SERVING = 60.0  # seconds for the new process to serve, once it has everything
_MOST_CLIENTS = 500  # of one message
_MOST_BYTES = 4 << 20  # of one message: what these clients have sent, and was not handled; about
_ROUNDS = 10  # in which sockets and watches are given while clients are served
_MOST_CHANGED = 50_000  # watches that go while clients wait; clients with the most are closed at the end
_POLL = 0.002
_TAKEN_BACK = 2.0  # seconds for the sessions to return to a process that has to end
_BY_OPTIONS = ("super", "sasl")  # schemes of identities that a client has by options


class OtherForm(HandoverError):
    """The new release takes over in another form: a restart is needed."""

    pid = 0  # of the new process, which waits for the end of this one


class Lost(HandoverError):
    """No process serves: the new one has taken everything and does not, or this one cannot continue."""


class NewProcess:
    """The process that is to take over."""

    def __init__(self, process: Child, channel: Channel) -> None:
        self._process = process
        self.pid = process.pid
        self.channel = channel

    async def end(self) -> None:
        """Kill it, and wait until it has ended."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        self.channel.close()


class _Given(NamedTuple):
    """What the new process has of a connection, besides its socket and watches."""

    number: int
    marked: object  # its mark when its socket was sent; None if its state was not sent with it


class Sender:
    """One attempt to hand the server over."""

    def __init__(self, server: Server, listeners: Mapping[str, int]) -> None:
        """`listeners`: the numbers of the listening sockets, by name."""
        self._server = server
        self._listeners = listeners
        self._frozen = False
        self._failed = False
        self._successor = ""  # the new process's incarnation, once it may append
        self._sessions_gone = asyncio.Event()  # they are carried over, and nothing after that is applied
        self._count_gone = 0
        self._went: Contact | None = None  # to etcd at that moment
        self._reloads = 0  # of the state, before the connections were frozen
        self._same_users = True  # as the new process has
        # The connections whose sockets the new process has.
        self._given: dict[Connection, _Given] = {}

    async def run(self, start: Callable[[], Awaitable[NewProcess]]) -> int:
        """Hand over to the process that `start` starts; its id.

        Raises OtherForm; Lost; or another HandoverError, after which this process continues as before.
        """
        new = await start()
        try:
            await self._hand_over(new.channel)
        except OtherForm as error:
            error.pid = new.pid
            new.channel.leave_open()  # the new process binds its ports when it sees the end
            raise
        except BaseException as error:
            try:
                await self._continue_serving(new, is_ending=isinstance(error, asyncio.CancelledError))
            except Exception as fault:
                raise Lost(f"this process cannot continue to serve: {fault!r}") from fault
            if isinstance(error, OSError):
                raise HandoverError(str(error)) from error
            raise
        try:
            await new.channel.receive("serving", timeout=_SERVING)
        except HandoverError as error:
            raise Lost(f"the new process has taken over, but does not serve: {error}") from error
        return new.pid

    async def _hand_over(self, channel: Channel) -> None:
        server, loop = self._server, asyncio.get_running_loop()
        try:
            hello = (await channel.receive("hello", timeout=_START)).fields
        except HandoverError as error:
            raise HandoverError(f"the new process did not start: the log says why ({error})") from error
        log.info("release %s is ready to take over", hello["release"])
        if hello["form"] != FORM:
            await channel.send("restart")
            raise OtherForm(
                f"release {hello['release']} takes over in form {hello['form']}, this one in form {FORM}:"
                " this process drains and ends, and the new one starts as after a restart"
            )
        for what, ours in server.must_match.items():
            theirs = hello["place"].get(what, "none")
            if theirs != ours:
                raise HandoverError(f"{what} is {theirs} now, and was {ours}: restart instead")
        self._same_users = hello.get("users") == server.users
        if not server.log.contact().in_touch:
            raise HandoverError("etcd does not answer, or this proxy's state is old")
        await self._pass_ahead(channel)
        began = loop.time()
        self._frozen = True
        self._reloads = server.log.stats.reloads
        server.freeze()
        await self._answered()
        server.log.outbox.hold()
        self._successor = hello["incarnation"]
        server.sessions.expect_successor(self._successor, self._carried)
        seconds = _CARRIED + _CARRIED_EACH * len(server.machine.sessions)
        await channel.send("frozen", incarnation=server.log.incarnation)
        await channel.receive("carried", timeout=seconds)
        await self._all_carried(seconds)
        await self._pass_sockets(channel)
        moving = await self._pass_clients(channel)
        await channel.send("listeners", [*self._listeners.values()], names=[*self._listeners])
        await channel.receive("taken")
        await channel.send("go")
        server.log.outbox.end()  # else this process would wait at its end for what it cannot send
        log.info("gave %d connections away; they waited %.3f s so far", moving, loop.time() - began)

    async def _pass_ahead(self, channel: Channel) -> None:
        """Give what can be given while clients are served, and then what has changed meanwhile.

        Each time that is less, unless a client sets new watches faster than they are given.
        """
        for _ in range(_ROUNDS):
            await self._pass_sockets(channel)
            if await self._pass_watches(channel, self._given) <= 1:
                return

    async def _pass_sockets(self, channel: Channel) -> None:
        """Give the sockets of clients that the new process has not got yet."""
        new = [each for each in self._server.connections if each.outbound.fd >= 0 and each not in self._given]
        for some in _parts(new, MOST_SOCKETS):
            clients, fds = [], []
            for each in some:
                if each.outbound.fd < 0:
                    continue  # it is closed by now
                marked = self._marked(each)
                self._given[each] = _Given(len(self._given), marked)
                clients.append(
                    (
                        each.identity.address,
                        each.identity.port,
                        None if marked is None else encode(pack(each)),
                    )
                )
                fds.append(each.outbound.fd)
            await channel.send("sockets", fds, clients=clients)
            await channel.receive("adopted")

    def _marked(self, connection: Connection) -> object:
        """The mark of a connection whose state is sent with its socket; else None."""
        if self._frozen:
            connection.regulate()  # it may have come after the others were frozen
            if connection.session is not None:
                probe.current.reached("a client that came between the sockets and the freeze")
        return mark(connection) if connection.can_move and connection.is_quiet else None

    async def _pass_watches(self, channel: Channel, connections: Iterable[Connection]) -> int:
        """Send what has changed of their watches since the last time, at first all; in how many messages."""
        count = 0
        for part in in_parts(self._changes(connections)):
            await channel.send("watches", changes=part)
            count += 1
        return count

    def _changes(self, connections: Iterable[Connection]) -> Iterator[Change]:
        watches = self._server.watches
        for each in connections:
            if watches.count_changes(each):
                number = self._given[each].number
                got, gone = watches.take_changes(each)
                yield Change(number, True, got)
                yield Change(number, False, gone)

    async def _pass_clients(self, channel: Channel) -> int:
        """Say which connections move, and what has changed since their sockets were given; how many."""
        moving = self._in_time(each for each in await self._quiet() if self._moves(each))
        await self._pass_watches(channel, moving)
        for some in _parts(moving, _MOST_CLIENTS):
            numbers: list[int] = []
            changed: list[tuple[int, Sequence[Any]]] = []
            for each in some:
                number, marked = self._given[each]
                numbers.append(number)
                if marked is None or marked != mark(each):
                    changed.append((number, encode(pack(each))))
            await channel.send("clients", numbers=numbers, changed=changed)
        return len(moving)

    def _in_time(self, connections: Iterable[Connection]) -> list[Connection]:
        """Those whose changed watches do not take long all together, the ones with the fewest first."""
        counts = {each: self._server.watches.count_changes(each) for each in connections}
        ordered = sorted(counts, key=counts.__getitem__)
        sums = accumulate(map(counts.__getitem__, ordered))
        return [each for each, so_far in zip(ordered, sums, strict=True) if so_far <= _MOST_CHANGED]

    def _moves(self, connection: Connection) -> bool:
        """Whether it moves. Rights that the new process may not give have to be proved anew."""
        holds = self._same_users or all(each.scheme not in _BY_OPTIONS for each in connection.identities)
        return holds and connection.can_move

    async def _answered(self) -> None:
        """Wait until all requests are answered, except to clients that do not read.

        Raises HandoverError, but not for slow reads alone: their clients do not move, and come again.
        """
        loop, server = asyncio.get_running_loop(), self._server
        began = loop.time()
        busy = [each for each in server.connections if each.order.queue.count]  # no other one takes a request
        while server.log.outbox.outstanding or any(
            each.order.queue.count and not each.outbound.unsent for each in busy
        ):
            waited = loop.time() - began
            if waited > _READ and not server.log.outbox.outstanding:
                break
            if waited > _ANSWERED:
                if server.state_gate.first_slow_read is not None:
                    raise HandoverError(f"reads that take long were not answered in {_ANSWERED:g} s")
                raise HandoverError(f"etcd has not answered all requests in {_ANSWERED:g} s")
            await asyncio.sleep(_POLL)

    async def _all_carried(self, seconds: float) -> None:
        """Wait until the new process has the sessions of all clients. Raises HandoverError."""
        try:
            await asyncio.wait_for(self._sessions_gone.wait(), seconds)
        except TimeoutError:
            raise HandoverError("the sessions were not carried over in time") from None
        if self._server.log.stats.reloads != self._reloads:
            # It may be further than the place at which the new process waits: both would send the events in
            # between, and clients would find an older state there than they have seen here.
            raise HandoverError("this process has loaded its state anew meanwhile")
        left = len(self._server.sessions) - self._count_gone
        if left > 0:  # fewer: some have gone on to another proxy
            raise HandoverError(
                f"{left} sessions were not carried over: this proxy's lease ran out meanwhile"
            )

    async def _quiet(self) -> Iterable[Connection]:
        """Wait until clients have read their replies and events, while any of them still reads.

        Returns those that have read all.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _UNREAD
        before, since = (0, 0), loop.time()
        # No event is sent any more, so none joins them.
        busy = {each for each in self._given if not each.is_quiet}
        while busy:
            left = sum(each.order.queue.count for each in busy), sum(each.outbound.unsent for each in busy)
            now = loop.time()
            if left != before:
                before, since = left, now
            elif now - since > _STANDSTILL:
                break
            if now > deadline:
                break
            await asyncio.sleep(_POLL)
            busy = {each for each in busy if not each.is_quiet}
        return (each for each in self._given if each not in busy)

    def _carried(self, count: int) -> None:
        """So many sessions are carried over. What the new process has sent may be applied after its end."""
        self._count_gone += count
        if not self._sessions_gone.is_set() and not self._failed:
            self._sessions_gone.set()
            self._went = self._server.log.contact()
            self._server.log.applier.worker.hold()

    async def _continue_serving(self, new: NewProcess, *, is_ending: bool) -> None:
        """The new process has failed, or this one has to end: end the new one, and serve as before.

        Clients' writes wait until the sessions are back. With an etcd that is away, that takes as long.
        """
        server = self._server
        self._failed = True
        server.watches.forget_changes()
        await new.end()
        if not self._frozen:
            return
        if self._sessions_gone.is_set():
            server.log.applier.worker.release()
        await server.thaw()
        try:
            if self._successor:
                async with asyncio.timeout(_TAKEN_BACK if is_ending else None):
                    await server.log.take_back(self._successor, self._went or server.log.contact())
                server.sessions.forget_successor()
        except TimeoutError:
            log.warning("the sessions stay with %s: their clients have to reconnect", self._successor)
        finally:
            server.log.outbox.release()


def _parts(connections: Iterable[Connection], most: int) -> Iterator[list[Connection]]:
    """The connections in lists of at most so many, whose bytes fit in one message."""
    some: list[Connection] = []
    size = 0
    for each in connections:
        some.append(each)
        size += len(each.inbound.unhandled())
        if len(some) == most or size >= _MOST_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
