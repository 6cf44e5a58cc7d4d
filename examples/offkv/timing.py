"""Times each operation on several systems, one after another, and counts its requests."""

import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, NamedTuple

from bench.scenarios import Cell, Table
from bench.summary import percentiles
from examples.offkv.checking import open_store
from examples.offkv.conformance import AnyStore
from examples.offkv.store import Check, Create, Erase, Set
from lab.client.meter import Latencies
from lab.client.session import Address

_TURN = 20  # rounds on a system before the next one has its turn
_VALUE = bytes(100)
_CHILDREN = 10


class Timed(NamedTuple):
    """What an operation took on one system."""

    latencies: Latencies
    """Microseconds -> how often."""
    requests: Counter[int]
    """How many one operation sent -> how often."""


class _Clock:
    """Times operations of two clients."""

    def __init__(self, store: AnyStore, other: AnyStore) -> None:
        self.found: defaultdict[str, Timed] = defaultdict(lambda: Timed(Counter(), Counter()))
        self._stores = store, other

    async def timed(self, operation: str, work: Awaitable[Any]) -> None:
        before, begun = self._requests, time.perf_counter_ns()
        await work
        took = time.perf_counter_ns() - begun
        self.found[operation].latencies[took // 1000] += 1
        self.found[operation].requests[self._requests - before] += 1

    @property
    def _requests(self) -> int:
        return sum(store.requests for store in self._stores)

    async def round(self, key: str) -> None:
        """Each operation once, on keys that are not there yet."""
        (store, other), timed = self._stores, self.timed
        await timed("create", store.create(key, _VALUE))
        await timed("create with a lease", store.create(f"{key}-leased", _VALUE, lease=True))
        await timed("exists", store.exists(key, watch=False))
        await timed("get", store.get(key, watch=False))
        await timed("set", store.set(key, _VALUE))
        await timed("cas", store.cas(key, _VALUE, 2))
        for number in range(_CHILDREN):
            await other.create(f"{key}/{number}", b"")
        await timed(f"get_children of {_CHILDREN} keys", store.get_children(key, watch=False))
        operations: list[Create | Set | Erase] = [
            Create(f"{key}/new", b""),
            Set(key, _VALUE),
            Erase(f"{key}/0"),
        ]
        await timed(
            "commit: check, create, set, erase", store.commit([Check(key, 3), Check(f"{key}/1")], operations)
        )
        await timed(
            "get with a watch, until it fires for another client's set", _until_fired(store, other, key)
        )
        await timed(f"erase of a key with {_CHILDREN} below it", store.erase(key))


async def _until_fired(store: AnyStore, other: AnyStore, key: str) -> None:
    watch = (await store.get(key)).watch
    await other.set(key, b"new")
    await watch.wait()


async def time_all(
    systems: Mapping[str, Sequence[Address | str]], root: str, times: int
) -> dict[str, Mapping[str, Timed]]:
    """Do each operation `times` times on each system, in rotating turns; what was found, by system.

    The clients of a system are at its first address and its last one. Raises ConnectionLost, EtcdError.
    """
    stores = {
        label: [await open_store(addresses[at], f"{root}/timed") for at in (0, -1)]
        for label, addresses in systems.items()
    }
    clocks = {label: _Clock(*pair) for label, pair in stores.items()}
    try:
        for pair in stores.values():
            await pair[0].make_prefix()
        for start in range(0, times, _TURN):
            for clock in clocks.values():
                for number in range(start, min(start + _TURN, times)):
                    await clock.round(f"/{number}")
    finally:
        for pair in stores.values():
            await pair[0].close()
            await pair[1].clear(root)
            await pair[1].close()
    return {label: clock.found for label, clock in clocks.items()}


def figures(timed: Timed) -> dict[str, float]:
    """Requests of an operation, and its latencies in milliseconds."""
    p50, p99 = percentiles(timed.latencies.items(), (0.5, 0.99))
    return {
        "requests": sum(number * times for number, times in timed.requests.items()) / timed.requests.total(),
        "p50, ms": p50 / 1000,
        "p99, ms": p99 / 1000,
    }


def table(found: Mapping[str, Mapping[str, Timed]]) -> Table:
    """A row for each operation, three columns for each system."""
    first = next(iter(found.values()))
    rows: list[list[Cell]] = [
        [operation, *(value for each in found.values() for value in figures(each[operation]).values())]
        for operation in first
    ]
    names = figures(next(iter(first.values())))
    head = ["operation", *(f"{label}: {name}" for label in found for name in names)]
    return Table("liboffkv's operations", head, rows)
