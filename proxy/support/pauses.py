"""Pauses of the whole process, as clients notice them: how late the event loop is.

Part of the shell: it reads clocks. As ZooKeeper's JvmPauseMonitor, which sleeps and looks how much longer
that took. The cause may be work of ours that holds the loop, the garbage collector, or a host that has
stopped the process; so the message says how much CPU time was used.
"""

import asyncio
import gc
import logging
from collections.abc import Mapping

from proxy.support.environment import HOST, Clock
from proxy.support.latency import MILLISECOND, Histogram

log = logging.getLogger(__name__)

_INTERVAL = 0.1  # seconds between two looks


async def watch_pauses(
    pauses: Histogram, warn_seconds: float, clock: Clock = HOST.clock, interval: float = _INTERVAL
) -> None:
    """Record until cancelled how late the loop is; log a warning from `warn_seconds` on, never with 0.

    `interval`: seconds between two looks.
    """
    collector = _Collector(clock)
    gc.callbacks.append(collector)
    try:
        while True:
            began, used, collecting = clock.perf_counter_ns(), clock.process_time_ns(), collector.nanos
            await asyncio.sleep(interval)
            late = max(0, clock.perf_counter_ns() - began - int(interval * 1e9))
            pauses.note(late)
            if late >= warn_seconds * 1e9 > 0:
                log.warning(
                    "this process paused for about %d ms, in which it used %d ms of CPU time, %d ms of them"
                    " to collect garbage: %s",
                    late // MILLISECOND,
                    (clock.process_time_ns() - used) // MILLISECOND,
                    (collector.nanos - collecting) // MILLISECOND,
                    _cause(late, clock.process_time_ns() - used),
                )
    finally:
        gc.callbacks.remove(collector)


def _cause(late: int, used: int) -> str:
    """What to look at, by the share of the pause that this process has worked."""
    if used < late // 2:
        return "the host or the container did not let it run"
    return "a request or a piece of its own work held the event loop"


class _Collector:
    """Adds up how long the garbage collector runs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.nanos = 0
        self._began = 0

    def __call__(self, phase: str, _info: Mapping[str, int]) -> None:
        """The collector starts or stops."""
        if phase == "start":
            self._began = self._clock.perf_counter_ns()
        else:
            self.nanos += self._clock.perf_counter_ns() - self._began
