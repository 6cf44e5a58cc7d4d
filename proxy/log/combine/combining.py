"""A proxy's part in combined appends: it is the combiner, hands its entries to it, or appends them itself."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import NamedTuple, Protocol, cast

from proxy.etcd.model import TxnResult
from proxy.log.combine.combiner import MOST_BYTES, Combiner, Offer
from proxy.log.combine.messages import (
    NONCE,
    BadMessage,
    Ends,
    Hello,
    decode_entry,
    decode_hello,
    encode_entry,
)
from proxy.log.context import Context
from proxy.log.members import Member, Members
from proxy.log.status import Combined
from proxy.support import probe
from proxy.support.latency import RoundTrip
from proxy.support.ports import Place
from proxy.support.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

_LOOK = 1.0  # seconds between two looks at which proxy combines
_CONNECT = 2.0  # seconds for a connection, and for its hello
_DOUBT = 0.25  # seconds after which an entry that the stream has not shown is appended directly
_APART = 10.0  # seconds for which entries are appended directly after the combiner was slow, or failed
_MOST_VAIN = 8  # entries that the combiner refuses, one after the other
_SAMPLES = 64  # entries, after which the combiner's time is compared
_OTHERS = 1.0  # seconds since another proxy's last entry, within which it is worth combining
_SLOWER = 0.002  # seconds by which a combiner may exceed twice the time of a direct append


class _Offered(NamedTuple):
    """An entry that another proxy was asked to append."""

    began: float  # by the clock's perf_counter
    doubt: Callable[[], None]


class Port(Protocol):
    """Where other proxies connect. Few may be there that have not said which proxy they are."""

    def open(self, make: Callable[[Place], asyncio.Protocol]) -> None:
        """Accept connections. Raises OSError."""

    async def close(self) -> None:
        """Accept no more."""


class Combining:
    """What the appender asks of combined appends.

    More than twelve attributes: it has both ends, since any proxy may become the combiner.
    """

    def __init__(self, context: Context, members: Members, quiet_for: Callable[[], float]) -> None:
        """`quiet_for()`: how many seconds ago the last entry of another proxy was applied."""
        self._context = context
        self._members = members
        self._quiet_for = quiet_for
        self._clock = context.environment.clock
        self._throttled_log = ThrottledLog(log, self._clock)
        self._loop = asyncio.get_running_loop()
        self._hello: Hello | None = None  # None: there is no incarnation
        self._offered: dict[int, _Offered] = {}  # by number, until the stream shows it; the oldest first
        self._timer: asyncio.TimerHandle | None = None
        self._apart = ("", 0.0)  # from which combiner to stay apart, until when
        self._count = 0  # of entries that it has appended
        self._vain = 0  # of entries that it has refused since
        self._round_trip = RoundTrip()  # from an offer until the stream shows the entry
        self._line: _Line | None = None
        self._trouble = ""  # why there is none, though another proxy combines
        # Not sets, whose order differs from run to run.
        self._connections: dict[_Guest, None] = {}
        self._guests: dict[str, _Guest] = {}  # of these, the proxies by incarnation; one each
        self._combiner: Combiner | None = None
        self._port: Port | None = None

    # -- what the appender says ----------------------------------------------------------------------------

    def start(self, incarnation: str, revision: int) -> None:
        """Entries have this incarnation from now on. `revision`: the create_revision of its key."""
        self._hello = Hello(revision, incarnation)

    def stop(self) -> None:
        """The incarnation is over."""
        if self._hello is not None:
            self._forget(self._hello.incarnation)
        self._hello = None
        self._offered.clear()
        if self._line is not None:
            self._line.close()

    @property
    def is_on(self) -> bool:
        """Whether entries may be appended together: this proxy has a combiner, or combines for others."""
        return self._line is not None or bool(self._guests)

    @property
    def state(self) -> Combined:
        """Which proxy appends this one's entries, or why it does so itself. For operators."""
        hello, chosen = self._hello, self._chosen()
        if not self._context.settings.peer_port.address:
            return Combined(why="it lacks --peer-listen")
        if hello is None:
            return Combined(why="it is not registered in etcd")
        if chosen is None:
            return Combined(why="another proxy lacks --peer-listen")
        if chosen.incarnation == hello.incarnation:
            return Combined(hello.incarnation)
        if self._line is not None:
            return Combined(self._line.combiner)
        return Combined(why=self._trouble or "it has not connected to the combiner yet")

    def combine(
        self, number: int, value: bytes, landed: Callable[[TxnResult], None], append: Callable[[], None]
    ) -> bool:
        """Append an entry together with those of other proxies, if this proxy combines; else False.

        `landed` gets etcd's answer. `append()` is called instead if it may not be in the log.
        """
        hello, combiner = self._hello, self._combiner
        if combiner is None or hello is None or not self._guests or not self._is_worth_it(value):
            return False
        combiner.add(Offer(hello.incarnation, hello.revision, number, value, append, landed))
        return True

    def offer(self, number: int, value: bytes, doubt: Callable[[], None]) -> bool:
        """Have an entry appended by the combiner, if it is another proxy; else False.

        `doubt()` is called, soon or late, if it may not be in the log. It takes effect when the stream shows
        it, and then `shown` has to be called.
        """
        line = self._line
        if line is None or line.hello is not self._hello or not self._is_worth_it(value):
            return False
        if not self._context.stats.round_trip.seconds:
            return False  # nothing to compare with
        line.send(encode_entry(number, value))
        self._offered[number] = _Offered(self._clock.perf_counter(), doubt)
        self._context.stats.offered_entries += 1
        if self._timer is None:
            self._timer = self._loop.call_later(_DOUBT, self._look_for_late)
        return True

    def shown(self, number: int) -> None:
        """The stream has shown an entry that was offered."""
        if (offered := self._offered.pop(number, None)) is not None:
            self._round_trip.note(self._clock.perf_counter() - offered.began)
            self._vain = 0
            self._count += 1
            direct = self._context.stats.round_trip.seconds
            if self._count % _SAMPLES == 0 and self._round_trip.seconds > 2 * direct + _SLOWER:
                self._leave("it is far away")

    def proxy_gone(self, incarnation: str) -> None:
        """The key of a proxy is gone, maybe with its host: its connection may never end."""
        if (guest := self._guests.get(incarnation)) is not None:
            guest.close()

    def _is_worth_it(self, value: bytes) -> bool:
        return len(value) <= MOST_BYTES and self._quiet_for() <= _OTHERS and self._chosen() is not None

    # -- the combiner's end --------------------------------------------------------------------------------

    def listen(self, port: Port) -> None:
        """Take other proxies' entries at a port. Raises OSError."""
        context = self._context
        self._combiner = Combiner(context.etcd, context.keys, self._clock, context.stats)
        self._port = port
        port.open(lambda place: _Guest(self, place))

    def ends(self) -> Ends:
        """For a new connection of another proxy."""
        return self._ends_for(self._context.settings.peer_port.secret)

    def is_member(self, hello: Hello) -> bool:
        """Whether the proxy lives, as far as this one knows."""
        member = self._members.get(hello.incarnation)
        return member is not None and member.revision == hello.revision

    def connected(self, guest: "_Guest") -> None:
        """Another proxy, or a stranger, has connected."""
        self._connections[guest] = None

    def enters(self, guest: "_Guest") -> None:
        """A proxy's hello has come. Its last connection ends, which the proxy has left."""
        if (former := self._guests.pop(guest.incarnation, None)) is not None:
            self._forget(guest.incarnation)
            former.close()
        self._guests[guest.incarnation] = guest

    def leaves(self, guest: "_Guest") -> None:
        """The connection is lost."""
        self._connections.pop(guest, None)
        if self._guests.get(guest.incarnation) is guest:
            del self._guests[guest.incarnation]
            self._forget(guest.incarnation)

    def _forget(self, incarnation: str) -> None:
        if self._combiner is not None:
            self._combiner.forget(incarnation)

    def take(self, offer: Offer) -> None:
        """Append an entry of another proxy."""
        assert self._combiner is not None
        if self._members.get(offer.incarnation) is None or self._chosen() is None:
            offer.refused()
        else:
            self._combiner.add(offer)

    def warn(self, message: str, *arguments: object) -> None:
        """Log a warning, now and then."""
        self._throttled_log.warn(message, *arguments)

    # -- the other proxies' end ----------------------------------------------------------------------------

    async def run(self, tls: Callable[[], ssl.SSLContext] | None) -> None:
        """Keep a connection to the combiner, if it is another proxy, for ever. `tls` makes its context."""
        while True:
            hello, chosen = self._hello, self._chosen()
            apart, until = self._apart
            if (
                hello is not None
                and chosen is not None
                and chosen.incarnation != hello.incarnation
                and (chosen.incarnation != apart or self._clock.perf_counter() >= until)
            ):
                await self._use(chosen, hello, tls)
            await asyncio.sleep(_LOOK)

    async def close(self) -> None:
        """Take and give no more entries."""
        if self._port is not None:
            await self._port.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._line is not None:
            self._line.close()
        if self._combiner is not None:
            self._combiner.close()
        for guest in list(self._connections):
            guest.close()

    def _chosen(self) -> Member | None:
        """The proxy that combines: the eldest, if all proxies have an address for that.

        One without may be of a release that reads the entries of one Txn in another order than they count.
        """
        members = list(self._members)
        return members[0] if members and all(member.peer_port.address for member in members) else None

    async def _use(self, combiner: Member, hello: Hello, tls: Callable[[], ssl.SSLContext] | None) -> None:
        """Connect to the combiner; returns once the connection is lost, or another proxy combines."""
        host, _, port = combiner.peer_port.address.rpartition(":")
        line = _Line(self._ends_for(combiner.peer_port.secret), hello, combiner.incarnation, self._told)
        try:
            context = None if tls is None else await asyncio.to_thread(tls)
            async with asyncio.timeout(_CONNECT):
                await self._loop.create_connection(lambda: line, host.strip("[]"), int(port), ssl=context)
                await line.answered
        except (OSError, ValueError, TimeoutError) as error:
            self._trouble = "the combiner cannot be reached"
            self.warn("cannot hand entries to proxy %s: %s", combiner, str(error) or "it does not answer")
            line.close()
            return
        log.info("proxy %s appends for this one", combiner)
        self._line, self._round_trip, self._count, self._vain = line, RoundTrip(), 0, 0
        while not line.lost.done() and self._hello is hello and self._chosen() == combiner:
            await asyncio.wait((line.lost,), timeout=_LOOK)
        if self._line is line:
            is_its_fault = line.lost.done() and self._hello is hello
            self._leave("its connection is lost" if is_its_fault else "")

    def _ends_for(self, secret: bytes) -> Ends:
        return Ends(secret, self._context.environment.randomness.token_bytes(NONCE))

    def _look_for_late(self) -> None:
        """Append directly what the combiner should have appended by now."""
        self._timer = None
        if self._offered:
            left = next(iter(self._offered.values())).began + _DOUBT - self._clock.perf_counter()
            if left > 0:
                self._timer = self._loop.call_later(left, self._look_for_late)
            else:
                self._leave("it is slow")

    def _told(self, line: "_Line", refused: list[int]) -> None:
        """The combiner has refused entries."""
        for number in refused:
            if (offered := self._offered.pop(number, None)) is not None:
                probe.current.reached("entries that their combiner refuses")
                self._context.stats.offers_refused += 1
                self._vain += 1
                offered.doubt()
        if self._vain >= _MOST_VAIN and line is self._line:
            self._leave("it cannot")

    def _leave(self, why: str) -> None:
        """Hand over no more entries, and append directly what may not be in the log.

        `why`: stay apart from this combiner for a while; "" if another one takes its place.
        """
        line, self._line = self._line, None
        self._trouble = f"the combiner does not append its entries: {why}" if why else ""
        if line is not None:
            line.close()
        if line is not None and why:
            self._apart = line.combiner, self._clock.perf_counter() + _APART
            self.warn("the combiner does not append this proxy's entries: %s", why)
        offered, self._offered = self._offered, {}
        if offered:
            probe.current.reached("entries that their combiner may not have appended")
        self._context.stats.offers_refused += len(offered)
        for each in offered.values():
            each.doubt()


class _End(asyncio.Protocol):
    """One end of a connection between proxies."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self._transport: asyncio.Transport | None = None
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._ends.greeting())

    def connection_lost(self, _error: Exception | None) -> None:
        self.is_lost = True

    def send(self, body: bytes) -> None:
        """Seal and send a message."""
        if self._transport is not None and not self.is_lost:
            self._transport.write(self._ends.seal(body))

    def close(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()


class _Line(_End):
    """A proxy's connection to the combiner."""

    def __init__(
        self, ends: Ends, hello: Hello, combiner: str, told: Callable[["_Line", list[int]], None]
    ) -> None:
        super().__init__(ends)
        self.hello = hello
        self.combiner = combiner  # its incarnation
        self._told = told
        self._said_hello = False
        loop = asyncio.get_running_loop()
        self.answered: asyncio.Future[None] = loop.create_future()  # the combiner takes entries
        self.lost: asyncio.Future[None] = loop.create_future()

    def data_received(self, data: bytes) -> None:
        try:
            bodies = self._ends.open(data)
            if self._ends.is_greeted and not self._said_hello:
                self._said_hello = True
                self.send(self.hello.encode())
            if bodies and not self.answered.done():
                del bodies[0]
                self.answered.set_result(None)
            self._told(self, [decode_entry(body)[0] for body in bodies])
        except BadMessage as error:
            log.warning("closing the connection to the combiner: %s", error)
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.lost.set_result(None)
        if not self.answered.done():
            self.answered.set_exception(ConnectionResetError("it has closed the connection"))
            self.answered.exception()  # seen, if the wait is over


class _Guest(_End):
    """Another proxy's connection to this one, the combiner."""

    def __init__(self, host: Combining, place: Place) -> None:
        """`place`: among the strangers; it is given back when the hello has come."""
        super().__init__(host.ends())
        self._host = host
        self._place = place
        self._hello: Hello | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def incarnation(self) -> str:
        """The proxy's; "" before its hello."""
        return "" if self._hello is None else self._hello.incarnation

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._host.connected(self)
        self._timer = asyncio.get_running_loop().call_later(_CONNECT, self.close)

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._ends.open(data):
                if self._hello is None:
                    self._enter(decode_hello(body))
                else:
                    self._take(self._hello, *decode_entry(body))
        except BadMessage as error:
            assert self._transport is not None
            self._host.warn("closing %s: %s", self._transport.get_extra_info("peername"), error)
            self.close()

    def _enter(self, hello: Hello) -> None:
        if not self._host.is_member(hello):
            raise BadMessage(f"no living proxy is called {hello.incarnation!r}")
        self._hello = hello
        self._host.enters(self)
        self._place.release()
        if self._timer is not None:
            self._timer.cancel()
        self.send(b"")

    def _take(self, hello: Hello, number: int, value: bytes) -> None:
        self._host.take(
            Offer(
                hello.incarnation,
                hello.revision,
                number,
                value,
                lambda: self.send(encode_entry(number, b"")),
            )
        )

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if self._timer is not None:
            self._timer.cancel()
        self._place.release()
        self._host.leaves(self)
