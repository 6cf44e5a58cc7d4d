"""What a proxy takes from its host besides the network: clocks and randomness.

`Server` takes one `Environment` and hands it, or what is needed of it, to each part that a simulation runs;
that hands in its own. No other module of `proxy` reads a clock or draws random values (a test checks that).
Deadlines and sleeps use the event loop's clock.
"""

import secrets
import time as host_time
from dataclasses import dataclass, field


class Clock:
    """The host's clocks. Subclasses simulate one."""

    #: Seconds since 1970, and nanoseconds.
    time = staticmethod(host_time.time)
    time_ns = staticmethod(host_time.time_ns)
    #: Seconds and nanoseconds for measuring durations; the origin means nothing. The event loop's time has
    #: that of `monotonic`: both asyncio and uvloop read the same clock of Linux.
    monotonic = staticmethod(host_time.monotonic)
    perf_counter = staticmethod(host_time.perf_counter)
    perf_counter_ns = staticmethod(host_time.perf_counter_ns)
    #: Nanoseconds of CPU time that this process has used.
    process_time_ns = staticmethod(host_time.process_time_ns)
    #: Seconds of CPU time that this thread has used.
    thread_time = staticmethod(host_time.thread_time)


class Randomness:
    """The host's source of random values that cannot be predicted."""

    token_bytes = staticmethod(secrets.token_bytes)
    token_hex = staticmethod(secrets.token_hex)
    randbits = staticmethod(secrets.randbits)


@dataclass(frozen=True, slots=True)
class Environment:
    """A host's clocks and randomness."""

    clock: Clock = field(default_factory=Clock)
    randomness: Randomness = field(default_factory=Randomness)


HOST = Environment()
"""The real host."""


def clock_ms(clock: Clock = HOST.clock) -> int:
    """Milliseconds since 1970."""
    return int(clock.time() * 1000)
