"""The load generator at an offered rate: requests come by the clock, whatever the server does.

Open loop. `bench.load.drive` waits for replies, so a server that is slow gets fewer requests and the waits
that it would have caused are never seen. Here each request has a moment at which it is due, and its latency
counts from then, also if the generator or a full connection holds it back.
"""

import select
import time
from collections import deque
from collections.abc import Sequence
from itertools import cycle

from bench.errors import Stalled
from bench.load import STALL_SECONDS, Connection, Timing

TICK_NS = 1_000_000
"""Requests are due once a millisecond, as many as the rate says: a timer for each would be the limit."""
CHUNK = 8
"""How many of them leave on one connection before the next connection's turn."""


def drive(connections: Sequence[Connection], depth: int, rate: int, seconds: float) -> Timing:
    """Offers `rate` requests a second for `seconds`, with at most `depth` in flight on each connection.

    What is due but finds all connections full waits here, and is not sent once the time is over: a server
    that did not keep up shows by its rate. The connections' streams must have no end. Raises Stalled and
    BadReply as `bench.load.drive` does.
    """
    poller = select.epoll()
    try:
        in_flight = {}
        by_descriptor = {}
        for connection in connections:
            connection.socket.setblocking(False)
            descriptor = connection.socket.fileno()
            by_descriptor[descriptor] = connection
            in_flight[connection] = 0
            poller.register(descriptor, select.EPOLLIN)
        turns = cycle(connections)
        waiting: deque[tuple[int, int]] = deque()
        start = heard = time.perf_counter_ns()
        end = start + int(seconds * 1e9)
        asked = answered = 0
        due = Schedule(start, rate)
        while True:
            now = time.perf_counter_ns()
            if now < end:
                waiting.extend(due.until(now))
            else:
                waiting.clear()
                if answered == asked:
                    break
            room = sum(depth - count for count in in_flight.values()) if waiting else 0
            while waiting and room:
                moment, count = waiting.popleft()
                connection = next(turns)
                sending = min(count, CHUNK, depth - in_flight[connection])
                if sending:
                    connection.send(sending, moment)
                    in_flight[connection] += sending
                    asked += sending
                    room -= sending
                if count > sending:
                    waiting.appendleft((moment, count - sending))
            # select takes microseconds, epoll's own timeout only milliseconds.
            wake = min(due.next, end) if now < end else now + TICK_NS
            select.select([poller], [], [], max(0, wake - time.perf_counter_ns()) / 1e9)
            for descriptor, _ in poller.poll(0):
                connection = by_descriptor[descriptor]
                count = connection.receive()
                in_flight[connection] -= count
                answered += count
                heard = time.perf_counter_ns()
            if answered < asked and time.perf_counter_ns() - heard > STALL_SECONDS * 1e9:
                raise Stalled(f"no reply for {STALL_SECONDS:.0f} s, {asked - answered} requests in flight")
        finished = time.perf_counter_ns()
    finally:
        poller.close()
    return Timing(
        [connection.answered for connection in connections],
        (finished - start) / 1e9,
        [sample for connection in connections for sample in connection.samples],
    )


class Schedule:
    """When how many requests are due. Pure: times are arguments, in ns."""

    def __init__(self, start: int, rate: int) -> None:
        """`rate` is requests a second; below a thousand each has a moment of its own."""
        self._start = start
        self._rate = rate
        self._tick = max(TICK_NS, 1_000_000_000 // rate)
        self._ticks = 0
        self._requests = 0

    @property
    def next(self) -> int:
        """The next moment at which requests are due."""
        return self._start + self._ticks * self._tick

    def until(self, now: int) -> list[tuple[int, int]]:
        """(moment, how many) of the requests that have become due since the last call."""
        found = []
        while (moment := self.next) <= now:
            self._ticks += 1
            total = round(self._ticks * self._tick * self._rate / 1e9)
            if total > self._requests:
                found.append((moment, total - self._requests))
                self._requests = total
        return found
