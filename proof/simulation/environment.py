"""The clocks and the randomness of a simulated host, as `proxy.server` takes them."""

from typing_extensions import override

from proof.simulation.world import Host
from proxy.support.environment import Clock, Environment, Randomness


class SimulatedClock(Clock):
    """The clocks of a host."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @override
    def time(self) -> float:
        return self._host.wall()

    @override
    def time_ns(self) -> int:
        return int(self._host.wall() * 1e9)

    @override
    def monotonic(self) -> float:
        return self._host.time()

    @override
    def perf_counter(self) -> float:
        return self._host.stopwatch()

    @override
    def perf_counter_ns(self) -> int:
        return int(self._host.time() * 1e9)


class SeededRandomness(Randomness):
    """Random values from the host's seed."""

    def __init__(self, host: Host) -> None:
        self._random = host.random

    @override
    def token_bytes(self, nbytes: int | None = None) -> bytes:
        return self._random.randbytes(nbytes or 32)

    @override
    def token_hex(self, nbytes: int | None = None) -> str:
        return self._random.randbytes(nbytes or 32).hex()

    @override
    def randbits(self, k: int) -> int:
        return self._random.getrandbits(k)


def environment(host: Host) -> Environment:
    """The environment of a host's programs."""
    return Environment(SimulatedClock(host), SeededRandomness(host))
