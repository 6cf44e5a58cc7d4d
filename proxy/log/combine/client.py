"""The other proxies' end: a proxy has its entries appended by the combiner, while that is quick."""

import asyncio
import logging
import ssl
from collections.abc import Callable

from proxy.log.combine.messages import (
    NONCE,
    BadMessage,
    Hello,
    Mode,
    SignedMessages,
    decode_answer,
    encode_entry,
)
from proxy.log.combine.peer_connection import CONNECT, PeerConnection
from proxy.log.context import Context
from proxy.log.living import LivingProxies, LivingProxy
from proxy.support import probe
from proxy.support.latency import RoundTrip
from proxy.support.names import Names
from proxy.support.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

_MOST_REFUSED = 8  # entries that the combiner refuses, one after the other
_SAMPLES = 64  # entries, after which the combiner's time is compared
_SLOWER = 0.002  # seconds by which a combiner may exceed twice the time of a direct append


class CombinerClient:
    """Keeps a connection to the combiner, and offers it this proxy's entries."""

    def __init__(self, context: Context, living: LivingProxies) -> None:
        self._now = context.environment.clock.perf_counter
        self._token_bytes = context.environment.randomness.token_bytes
        self._waits = context.settings.combine_waits
        self._living = living
        self._stats = context.stats
        self.throttled_log = ThrottledLog(log, context.environment.clock)
        self._loop = asyncio.get_running_loop()
        self._names = Names()
        #: Of the incarnation that entries have; None: there is none.
        self.hello: Hello | None = None
        # When each was offered, and `direct`, by number until the stream shows it; the oldest first.
        self._offered: dict[int, tuple[float, Callable[[], None]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._avoided = ("", 0.0)  # a combiner that gets no entries, and until when
        #: The connection to the combiner, if it is another proxy.
        self.connection: _ToCombiner | None = None
        #: Why there is none, though another proxy combines.
        self.why_unused = ""

    def stop(self) -> None:
        """The incarnation is over."""
        self.hello = None
        self._offered.clear()
        if self.connection is not None:
            self.connection.close()

    def offer(self, number: int, value: bytes, direct: Callable[[], None]) -> bool:
        """Have an entry appended by the combiner, if it is another proxy; else False.

        `direct()` is called, soon or late, if it may not be in the log. It takes effect when the stream shows
        it, and then `shown` has to be called.
        """
        connection = self.connection
        if connection is None or connection.hello is not self.hello or not connection.mode.together:
            return False
        if not self._stats.round_trip.seconds:
            return False  # without a time of its own, this proxy cannot compare the combiner's
        connection.send(encode_entry(number, value))
        self._offered[number] = self._now(), direct
        self._stats.offered_entries += 1
        if self._timer is None:
            self._timer = self._loop.call_later(self._waits.answer_within, self._look_for_late)
        return True

    def shown(self, number: int) -> bool:
        """The stream has shown an entry; returns whether it was offered, and not appended directly since."""
        offered = self._offered.pop(number, None)
        if offered is None:
            return False
        if (connection := self.connection) is not None:
            connection.round_trip.note(self._now() - offered[0])
            connection.refused_in_a_row = 0
            connection.count += 1
            direct = self._stats.round_trip.seconds
            if connection.count % _SAMPLES == 0 and connection.round_trip.seconds > 2 * direct + _SLOWER:
                self._leave("it is far away")
        return True

    async def run(self, tls: Callable[[], ssl.SSLContext] | None) -> None:
        """Keep a connection to the combiner, if it is another proxy, for ever. `tls` makes its context."""
        while True:
            hello, chosen = self.hello, self._living.combiner
            avoided, until = self._avoided
            if (
                hello is not None
                and chosen is not None
                and chosen.incarnation != hello.incarnation
                and (chosen.incarnation != avoided or self._now() >= until)
            ):
                await self._use(chosen, hello, tls)
            await asyncio.sleep(self._waits.poll)

    def close(self) -> None:
        """Give no more entries. Those that may not be in the log are appended directly."""
        self.hello = None
        self._leave("")
        if self._timer is not None:
            self._timer.cancel()

    async def _use(
        self, combiner: LivingProxy, hello: Hello, tls: Callable[[], ssl.SSLContext] | None
    ) -> None:
        """Connect to the combiner; returns once the connection is lost, or another proxy combines."""
        host, _, port = combiner.value.peer_port.address.rpartition(":")
        messages = SignedMessages(combiner.value.peer_port.secret, self._token_bytes(NONCE))
        connection = _ToCombiner(self, messages, hello, combiner.incarnation)
        try:
            try:
                context = None if tls is None else await asyncio.to_thread(tls)
                async with asyncio.timeout(CONNECT):
                    await self._names.connect(
                        lambda: connection, host.strip("[]"), int(port), context=context
                    )
                    await connection.answered
            except (OSError, ValueError, TimeoutError) as error:
                self.why_unused = "the combiner cannot be reached"
                self.throttled_log.warn(
                    "cannot hand entries to proxy %s: %s", combiner, str(error) or "it does not answer"
                )
                return
            log.info("proxy %s appends for this one", combiner)
            self.connection = connection
            while not connection.lost.done() and self.hello is hello and self._living.combiner == combiner:
                await asyncio.wait((connection.lost,), timeout=self._waits.poll)
            if self.connection is connection:
                is_its_fault = connection.lost.done() and self.hello is hello
                self._leave("its connection is lost" if is_its_fault else "")
        finally:
            connection.close()

    def _look_for_late(self) -> None:
        """Append directly what the combiner should have appended by now."""
        self._timer = None
        if self._offered:
            left = next(iter(self._offered.values()))[0] + self._waits.answer_within - self._now()
            if left > 0:
                self._timer = self._loop.call_later(left, self._look_for_late)
            else:
                self._leave("it is slow")

    def refused(self, connection: "_ToCombiner", number: int) -> None:
        """The combiner has refused an entry."""
        if (offered := self._offered.pop(number, None)) is None:
            return
        probe.current.reached("entries that their combiner refuses")
        self._stats.offers_refused += 1
        connection.refused_in_a_row += 1
        offered[1]()
        if connection.refused_in_a_row >= _MOST_REFUSED and connection is self.connection:
            self._leave("it cannot")

    def _leave(self, why: str) -> None:
        """Hand over no more entries, and append directly what may not be in the log.

        `why`: avoid this combiner for a while; "" if another one takes its place.
        """
        connection, self.connection = self.connection, None
        self.why_unused = f"the combiner does not append its entries: {why}" if why else ""
        if connection is not None:
            connection.close()
            if why:
                self._avoided = connection.combiner, self._now() + self._waits.retry_after
                self.throttled_log.warn("the combiner does not append this proxy's entries: %s", why)
        offered, self._offered = self._offered, {}
        if offered:
            probe.current.reached("entries that their combiner may not have appended")
        self._stats.offers_refused += len(offered)
        for _, direct in offered.values():
            direct()


class _ToCombiner(PeerConnection):
    """A proxy's connection to the combiner."""

    def __init__(self, client: CombinerClient, messages: SignedMessages, hello: Hello, combiner: str) -> None:
        super().__init__(messages)
        self.hello = hello
        self.combiner = combiner  # its incarnation
        self._client = client
        self._said_hello = False
        self.mode = Mode()  # the last one that has come
        self.count = 0  # of entries that it has appended
        self.refused_in_a_row = 0  # of entries that it has refused since
        self.round_trip = RoundTrip()  # from an offer until the stream shows the entry
        loop = asyncio.get_running_loop()
        self.answered: asyncio.Future[None] = loop.create_future()  # the combiner takes entries
        self.lost: asyncio.Future[None] = loop.create_future()

    def data_received(self, data: bytes) -> None:
        try:
            bodies = self._messages.verify(data)
            if self._messages.is_greeted and not self._said_hello:
                self._said_hello = True
                self.send(self.hello.encode())
            if bodies and not self.answered.done():
                del bodies[0]
                self.answered.set_result(None)
            for answer in map(decode_answer, bodies):
                if isinstance(answer, Mode):
                    self.mode = answer
                else:
                    self._client.refused(self, answer)
        except BadMessage as error:
            self._client.throttled_log.warn("closing the connection to the combiner: %s", error)
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.lost.set_result(None)
        if not self.answered.done():
            self.answered.set_exception(ConnectionResetError("it has closed the connection"))
            self.answered.exception()  # seen, if the wait is over
