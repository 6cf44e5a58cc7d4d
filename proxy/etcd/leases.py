"""Keeping leases alive over one stream that repairs itself.

The caller decides what a lease stands for and when to keep it alive.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from proxy.etcd import rpc_pb2 as pb
from proxy.etcd import wire
from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdError, EtcdUnknown
from proxy.etcd.rpc import MemberStream
from proxy.support.environment import HOST, Clock, Randomness
from proxy.support.tasks import Tasks, together
from proxy.support.throttled_log import ThrottledLog

_LOG = logging.getLogger(__name__)
_FIRST_DELAY = 0.05
_LONGEST_DELAY = 1.0
_KEEP_ALIVES = 3.0  # in the time of a lease that is held
_FIRST_TIMEOUT = 0.5  # seconds for an answer; doubled after each that did not arrive in time


class LeaseKeeper:
    """Renews leases on request and reports each answer. Made by EtcdClient.lease_keeper().

    `on_alive(lease_id, ttl)` is called in the event loop with the seconds the lease now has, 0 if it is gone.
    `answer_timeout`: seconds after which a stream is given up at the latest.
    A request that a stream lost is sent again on the next one, so each is answered in the end.
    """

    def __init__(
        self,
        open_stream: Callable[[], Awaitable[MemberStream]],
        on_alive: Callable[[int, int], None],
        answer_timeout: float,
        clock: Clock = HOST.clock,
    ) -> None:
        self._throttled_log = ThrottledLog(_LOG, clock)
        self._open_stream = open_stream
        self._on_alive = on_alive
        self._answer_timeout = answer_timeout
        # For the next answer: a member that hangs costs little, and a slow etcd gets its time all the same.
        self._timeout = min(_FIRST_TIMEOUT, answer_timeout)
        # Lease ids in the order of `send`. A second `send` before the answer changes nothing.
        self._waiting: dict[int, None] = {}
        # Lease ids sent and not answered, with the loop's time of sending, oldest first.
        self._sent: dict[int, float] = {}
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._delay = _FIRST_DELAY

    def send(self, lease_id: int) -> None:
        """Ask for one renewal; returns at once."""
        self._waiting[lease_id] = None
        self._wake.set()

    async def run(self) -> None:
        """Serve until cancelled. A stream is opened when there is something to send."""
        while True:
            await self._wake.wait()
            try:
                await self._serve(await self._open_stream())
            except EtcdError as failure:
                self._throttled_log.warn("lease keep-alive stream broken, opening another: %s", failure)
            self._waiting = dict.fromkeys((*self._sent, *self._waiting))
            self._sent.clear()
            if self._waiting:
                self._wake.set()
            await asyncio.sleep(self._delay)
            self._delay = min(2 * self._delay, _LONGEST_DELAY)

    async def _serve(self, stream: MemberStream) -> None:
        """Use one stream until it breaks."""
        try:
            await together([self._write(stream), stream.listen(self._take), self._expect_answers(stream)])
        finally:
            stream.close()

    async def _write(self, stream: MemberStream) -> None:
        while True:
            await self._wake.wait()
            while self._waiting:
                lease_id = next(iter(self._waiting))
                del self._waiting[lease_id]
                self._sent.setdefault(lease_id, self._loop.time())
                stream.write(pb.LeaseKeepAliveRequest(id=lease_id).SerializeToString())
            self._wake.clear()

    def _take(self, answer: bytes) -> None:
        response = wire.decode(pb.LeaseKeepAliveResponse, answer)
        self._delay = _FIRST_DELAY
        self._timeout = min(_FIRST_TIMEOUT, self._answer_timeout)
        self._sent.pop(response.id, None)
        self._on_alive(response.id, response.ttl)

    async def _expect_answers(self, stream: MemberStream) -> None:
        """HTTP/2's pings would find a stopped etcd too, but too late for short leases."""
        while True:
            # A request that is sent during the longer sleep is no older than the timeout after it.
            await asyncio.sleep(self._timeout / 4 if self._sent else self._timeout)
            oldest = next(iter(self._sent.values()), None)
            if oldest is not None and self._loop.time() - oldest > self._timeout:
                waited, self._timeout = self._timeout, min(2 * self._timeout, self._answer_timeout)
                stream.distrust()
                raise EtcdUnknown(f"no answer to a lease keep-alive in {waited:.1f} s")


class LeaseHolder:
    """Holds one lease at a time. Its stream of keep-alives lives as long as the client."""

    def __init__(self, etcd: Etcd, clock: Clock = HOST.clock) -> None:
        self._etcd = etcd
        self._now = clock.monotonic
        self._ask_for_time = etcd.lease_keeper(self._kept)
        self._asked: float | None = None  # when the keep-alive was sent that has no answer
        # When the lease is over: when etcd says so, or when another process may have been granted its id.
        self._until = -math.inf
        self._is_shared = False

    @asynccontextmanager
    async def held(
        self, lease: int, seconds: int, timeout: float = 5.0, *, is_shared: bool
    ) -> AsyncIterator["asyncio.Future[None]"]:
        """Have a lease while the block runs, and revoke it at its end. Raises EtcdError.

        What it yields is done when the lease is lost: etcd has not kept it alive. `timeout`: seconds for a
        request. If the process is killed, what has the lease is there for so many `seconds` yet.

        `is_shared`: other processes ask for this id. So it is lost when no answer has come in its time; any
        other one is when etcd says so, since an election prolongs it.
        """
        asked = self._now()
        granted = await self._etcd.lease_grant(lease, seconds, timeout)
        self._asked, self._until = None, asked + granted if is_shared else math.inf
        self._is_shared = is_shared
        keeping = Tasks()
        try:
            yield keeping.start(self._keep(lease, granted / _KEEP_ALIVES), "keep a lease alive")
        finally:
            await keeping.close()
            if self._now() < self._until:
                with suppress(EtcdError):
                    await self._etcd.lease_revoke(lease, timeout)

    async def _keep(self, lease: int, interval: float) -> None:
        while (left := self._until - self._now()) > 0:
            if self._asked is None:
                self._asked = self._now()
                self._ask_for_time(lease)
            await asyncio.sleep(min(interval, left))

    def _kept(self, _lease: int, ttl: int) -> None:
        # An answer that comes too late may be about a lease that another process has by then.
        if self._asked is not None and self._now() < self._until:
            if self._is_shared or not ttl:
                self._until = self._asked + ttl
            self._asked = None


@asynccontextmanager
async def kept_lease(
    etcd: Etcd, seconds: int, randomness: Randomness = HOST.randomness
) -> AsyncIterator[int]:
    """A lease of a command, as of `LeaseHolder.held`. Raises EtcdError."""
    lease = randomness.randbits(62) + 1
    async with LeaseHolder(etcd).held(lease, seconds, is_shared=False):
        yield lease
