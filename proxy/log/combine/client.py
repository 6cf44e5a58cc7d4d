"""The other proxies' end: a proxy has its entries appended by the combiner, while that is quick."""

import asyncio
import logging
import ssl
from collections.abc import Callable

from proxy.log.combine.end import End
from proxy.log.combine.messages import (
    CONNECT,
    NONCE,
    BadMessage,
    Ends,
    Hello,
    Way,
    decode_told,
    encode_entry,
)
from proxy.log.context import Context
from proxy.log.living import LivingProxies, LivingProxy
from proxy.support import probe
from proxy.support.latency import RoundTrip
from proxy.support.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

_MOST_VAIN = 8  # entries that the combiner refuses, one after the other
_SAMPLES = 64  # entries, after which the combiner's time is compared
_SLOWER = 0.002  # seconds by which a combiner may exceed twice the time of a direct append


class Client:
    """Keeps a connection to the combiner, and offers it this proxy's entries."""

    def __init__(self, context: Context, living: LivingProxies) -> None:
        self._environment = context.environment
        self._waits = context.settings.combine_waits
        self._living = living
        self._stats = context.stats
        self._throttled_log = ThrottledLog(log, context.environment.clock)
        self._loop = asyncio.get_running_loop()
        #: Of the incarnation that entries have; None: there is none.
        self.hello: Hello | None = None
        # When each was offered, and `doubt`, by number until the stream shows it; the oldest first.
        self._offered: dict[int, tuple[float, Callable[[], None]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._apart = ("", 0.0)  # from which combiner to stay apart, until when
        #: The connection to the combiner, if it is another proxy.
        self.line: _Line | None = None
        #: Why there is none, though another proxy combines.
        self.trouble = ""

    def stop(self) -> None:
        """The incarnation is over."""
        self.hello = None
        self._offered.clear()
        if self.line is not None:
            self.line.close()

    def offer(self, number: int, value: bytes, doubt: Callable[[], None]) -> bool:
        """Have an entry appended by the combiner, if it is another proxy; else False.

        `doubt()` is called, soon or late, if it may not be in the log. It takes effect when the stream shows
        it, and then `shown` has to be called.
        """
        line = self.line
        if line is None or line.hello is not self.hello or not line.way.together:
            return False
        if not self._stats.round_trip.seconds:
            return False  # without a time of its own, this proxy cannot compare the combiner's
        line.send(encode_entry(number, value))
        self._offered[number] = self._environment.clock.perf_counter(), doubt
        self._stats.offered_entries += 1
        if self._timer is None:
            self._timer = self._loop.call_later(self._waits.answer_within, self._look_for_late)
        return True

    def shown(self, number: int) -> bool:
        """The stream has shown an entry; returns whether it was offered, and not appended directly since."""
        offered = self._offered.pop(number, None)
        if offered is None:
            return False
        if (line := self.line) is not None:
            line.round_trip.note(self._environment.clock.perf_counter() - offered[0])
            line.vain = 0
            line.count += 1
            direct = self._stats.round_trip.seconds
            if line.count % _SAMPLES == 0 and line.round_trip.seconds > 2 * direct + _SLOWER:
                self._leave("it is far away")
        return True

    async def run(self, tls: Callable[[], ssl.SSLContext] | None) -> None:
        """Keep a connection to the combiner, if it is another proxy, for ever. `tls` makes its context."""
        while True:
            hello, chosen = self.hello, self._living.combiner
            apart, until = self._apart
            if (
                hello is not None
                and chosen is not None
                and chosen.incarnation != hello.incarnation
                and (chosen.incarnation != apart or self._environment.clock.perf_counter() >= until)
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
        ends = Ends(combiner.value.peer_port.secret, self._environment.randomness.token_bytes(NONCE))
        line = _Line(ends, hello, combiner.incarnation, self._told, self._throttled_log)
        try:
            context = None if tls is None else await asyncio.to_thread(tls)
            async with asyncio.timeout(CONNECT):
                await self._loop.create_connection(lambda: line, host.strip("[]"), int(port), ssl=context)
                await line.answered
        except (OSError, ValueError, TimeoutError) as error:
            self.trouble = "the combiner cannot be reached"
            self._throttled_log.warn(
                "cannot hand entries to proxy %s: %s", combiner, str(error) or "it does not answer"
            )
            line.close()
            return
        except asyncio.CancelledError:
            line.close()
            raise
        log.info("proxy %s appends for this one", combiner)
        self.line = line
        while not line.lost.done() and self.hello is hello and self._living.combiner == combiner:
            await asyncio.wait((line.lost,), timeout=self._waits.poll)
        if self.line is line:
            is_its_fault = line.lost.done() and self.hello is hello
            self._leave("its connection is lost" if is_its_fault else "")

    def _look_for_late(self) -> None:
        """Append directly what the combiner should have appended by now."""
        self._timer = None
        if self._offered:
            left = (
                next(iter(self._offered.values()))[0]
                + self._waits.answer_within
                - self._environment.clock.perf_counter()
            )
            if left > 0:
                self._timer = self._loop.call_later(left, self._look_for_late)
            else:
                self._leave("it is slow")

    def _told(self, line: "_Line", refused: list[int]) -> None:
        """The combiner has refused entries."""
        for number in refused:
            if (offered := self._offered.pop(number, None)) is not None:
                probe.current.reached("entries that their combiner refuses")
                self._stats.offers_refused += 1
                line.vain += 1
                offered[1]()
        if line.vain >= _MOST_VAIN and line is self.line:
            self._leave("it cannot")

    def _leave(self, why: str) -> None:
        """Hand over no more entries, and append directly what may not be in the log.

        `why`: stay apart from this combiner for a while; "" if another one takes its place.
        """
        line, self.line = self.line, None
        self.trouble = f"the combiner does not append its entries: {why}" if why else ""
        if line is not None:
            line.close()
        if line is not None and why:
            self._apart = line.combiner, self._environment.clock.perf_counter() + self._waits.retry_after
            self._throttled_log.warn("the combiner does not append this proxy's entries: %s", why)
        offered, self._offered = self._offered, {}
        if offered:
            probe.current.reached("entries that their combiner may not have appended")
        self._stats.offers_refused += len(offered)
        for _, doubt in offered.values():
            doubt()


class _Line(End):
    """A proxy's connection to the combiner."""

    def __init__(
        self,
        ends: Ends,
        hello: Hello,
        combiner: str,
        told: Callable[["_Line", list[int]], None],
        throttled_log: ThrottledLog,
    ) -> None:
        super().__init__(ends)
        self.hello = hello
        self.combiner = combiner  # its incarnation
        self._told = told
        self._throttled_log = throttled_log
        self._said_hello = False
        self.way = Way()  # as the combiner has said last
        self.count = 0  # of entries that the combiner has appended
        self.vain = 0  # of entries that it has refused since
        self.round_trip = RoundTrip()  # from an offer until the stream shows the entry
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
            refused = []
            for told in map(decode_told, bodies):
                if isinstance(told, Way):
                    self.way = told
                else:
                    refused.append(told)
            self._told(self, refused)
        except BadMessage as error:
            self._throttled_log.warn("closing the connection to the combiner: %s", error)
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.lost.set_result(None)
        if not self.answered.done():
            self.answered.set_exception(ConnectionResetError("it has closed the connection"))
            self.answered.exception()  # seen, if the wait is over
