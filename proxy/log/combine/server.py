"""The combiner's end: it takes the entries of other proxies, and appends them with its own."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from proxy.log.combine.choice import Choice, Done
from proxy.log.combine.combiner import Combiner, Offer
from proxy.log.combine.messages import (
    MOST_BYTES,
    NONCE,
    BadMessage,
    Hello,
    Mode,
    SignedMessages,
    decode_entry,
    decode_hello,
    encode_entry,
)
from proxy.log.combine.peer_connection import CONNECT, PeerConnection
from proxy.log.context import Context
from proxy.log.living import LivingProxies
from proxy.support import probe
from proxy.support.ports import Slot
from proxy.support.throttled_log import ThrottledLog
from schema.compression import size_before, unwrap_head
from schema.entry import FORMAT, Kind, kinds_in
from schema.errors import BadValue

log = logging.getLogger(__name__)

_MOST_WAITING = 64  # entries of a proxy, which has fewer in flight (`window`); it appends late ones itself
# How far the number of an entry may be above the last one that was applied here. Every proxy keeps an entry
# in memory until its predecessors come.
_FURTHEST = 1 << 16
_MOST_BEFORE = 16 * MOST_BYTES  # bytes of an entry before compression
# What combined entries may have. Other kinds, which change what holds for all proxies, are appended by
# their sender, which needs the right to write to etcd for that.
_COMBINED = bytes((Kind.CLIENT, Kind.OPEN, Kind.ATTACH, Kind.CLOSE, Kind.CARRY_OVER, Kind.NODE_DUE))


class Port(Protocol):
    """Where other proxies connect. Few may be there that have not said which proxy they are."""

    def open(self, make: Callable[[Slot], asyncio.Protocol]) -> None:
        """Accept connections. Raises OSError."""

    async def close(self) -> None:
        """Accept no more."""


class CombinerServer:
    """Appends for other proxies, while this one is the combiner."""

    def __init__(self, context: Context, living: LivingProxies) -> None:
        self._context = context
        self._living = living
        self.throttled_log = ThrottledLog(log, context.environment.clock)
        #: All, in a dictionary: the order of a set differs from run to run.
        self.connections: dict[_FromProxy, None] = {}
        #: Those with a hello, by the incarnation of their proxy.
        self.connection_of: dict[str, _FromProxy] = {}
        self.combiner = Combiner(context.etcd, context.keys, context.environment.clock, context.stats)
        self.choice = Choice()
        self._port: Port | None = None

    def listen(self, port: Port, choice: Choice | None = None) -> None:
        """Take other proxies' entries at a port. `choice`: in place of the usual one. Raises OSError."""
        self.choice = choice or self.choice
        self._port = port
        port.open(self._connection)

    def proxy_gone(self, incarnation: str) -> None:
        """The key of a proxy is gone, maybe with its host: its connection may never end."""
        if (connection := self.connection_of.get(incarnation)) is not None:
            connection.close()

    def applied(self) -> None:
        """Entries of any proxies were applied: the choice may be another one now."""
        if not self.connection_of:
            return
        choice, stats = self.choice, self._context.stats
        usually = choice.usually_together
        done = Done(stats.applied_requests, stats.applied_entries, stats.combined_entries)
        if choice.applied(done, self._context.environment.clock.perf_counter()):
            mode = self.mode.encode()
            for connection in self.connection_of.values():
                connection.send(mode)
        if choice.usually_together is not usually:
            probe.current.reached("another choice between combined and direct appends")
            how = "by each of them" if usually else "together"
            self.throttled_log.info("the proxies' entries are appended %s now: that is quicker", how)

    @property
    def mode(self) -> Mode:
        """How all proxies are to append."""
        return Mode(self.choice.together, self.choice.usually_together)

    async def close(self) -> None:
        """Take no more entries."""
        if self._port is not None:
            await self._port.close()
        self.combiner.close()
        for connection in list(self.connections):
            connection.close()

    def _connection(self, slot: Slot) -> "_FromProxy":
        nonce = self._context.environment.randomness.token_bytes(NONCE)
        return _FromProxy(self, SignedMessages(self._context.settings.peer_port.secret, nonce), slot)

    # -- what a connection says ----------------------------------------------------------------------------

    def enters(self, connection: "_FromProxy", hello: Hello) -> None:
        """A proxy's hello has come. Its last connection ends, which the proxy has left. Raises BadMessage."""
        proxy = self._living.get(hello.incarnation)
        if proxy is None or proxy.revision != hello.revision:
            raise BadMessage(f"no living proxy is called {hello.incarnation!r}")
        if (former := self.connection_of.pop(hello.incarnation, None)) is not None:
            self.combiner.forget(hello.incarnation)
            former.close()
        self.connection_of[hello.incarnation] = connection

    def leaves(self, connection: "_FromProxy") -> None:
        """The connection is lost."""
        self.connections.pop(connection, None)
        if self.connection_of.get(connection.incarnation) is connection:
            del self.connection_of[connection.incarnation]
            self.combiner.forget(connection.incarnation)

    def take(self, offer: Offer) -> None:
        """Append an entry of another proxy, or let it do so itself."""
        is_living = self._living.get(offer.incarnation) is not None and self._living.combiner is not None
        if not is_living or offer.number > self._applied(offer.incarnation) + _FURTHEST:
            offer.refused()
        else:
            self.combiner.add(offer)

    def _applied(self, incarnation: str) -> int:
        return self._context.machine.applied.get(incarnation, 0)


def is_combined(number: int, value: bytes) -> bool:
    """Whether the combiner may append a value; if not, its proxy does. Raises BadMessage if it is no entry.

    No proxy would serve the tree with a value in its log that is no entry.
    """
    try:
        if size_before(value) > _MOST_BEFORE:
            unwrap_head(FORMAT, value, "an entry")
            return False
        return not kinds_in(value).translate(None, _COMBINED)
    except BadValue as error:
        raise BadMessage(f"entry {number}: {error}") from None


class _FromProxy(PeerConnection):
    """Another proxy's connection to this one, the combiner."""

    def __init__(self, server: CombinerServer, messages: SignedMessages, slot: Slot) -> None:
        """`slot`: among the strangers; it is given back when the hello has come."""
        super().__init__(messages)
        self._server = server
        self._slot = slot
        self._hello: Hello | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def incarnation(self) -> str:
        """The proxy's; "" before its hello."""
        return "" if self._hello is None else self._hello.incarnation

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.connections[self] = None
        self._timer = asyncio.get_running_loop().call_later(CONNECT, self.close)

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._messages.verify(data):
                if self._hello is None:
                    self._enter(decode_hello(body))
                else:
                    self._take(self._hello, *decode_entry(body))
        except BadMessage as error:
            assert self._transport is not None
            peer = self._transport.get_extra_info("peername")
            self._server.throttled_log.warn("closing %s: %s", peer, error)
            self.close()

    def _enter(self, hello: Hello) -> None:
        self._server.enters(self, hello)
        self._hello = hello
        self._slot.release()
        if self._timer is not None:
            self._timer.cancel()
        self.send(b"")
        if (mode := self._server.mode) != Mode():  # which holds until a message comes
            self.send(mode.encode())

    def _take(self, hello: Hello, number: int, value: bytes) -> None:
        if self._server.combiner.waiting_of(hello.incarnation) >= _MOST_WAITING:
            raise BadMessage(f"{_MOST_WAITING} entries wait, more than a proxy sends")
        refused = partial(self.send, encode_entry(number, b""))
        if is_combined(number, value):
            self._server.take(Offer(hello.incarnation, hello.revision, number, value, refused))
        else:
            refused()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if self._timer is not None:
            self._timer.cancel()
        self._slot.release()
        self._server.leaves(self)
