"""What a reader of any result must know of the machine and the moment it comes from."""

import asyncio
import os
import platform
import random
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from lab.servers import zookeeper_jar_version
from lab.servers.etcd import EtcdServer, etcd_version
from proxy.etcd.access import Access
from proxy.etcd.model import Put, Txn

_TRIES = 7
_STEPS = 1_000_000
_PLACES = 1 << 22  # of a list, whose objects are larger than the caches together
_TXNS = 200
_TIMEOUT = 10.0  # seconds
_FSYNCS = 50
_SPEEDS = {
    "loop ns": "a step of an empty loop of Python {} ns",
    "gather ns": "a random read of a list {} ns",
    "fsync us": "an fsync {} us",
    "txn us": "a Txn of etcd {} us",
}


def machine() -> dict[str, object]:
    """The time, cores, and how busy the machine is."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load average at start": os.getloadavg()[0],
    }


def speeds(places: int = _PLACES) -> dict[str, object]:
    """How fast the machine is now, by small measurements. `places`: of the list of which it reads.

    The same commit gives other ratios on other machines: other tenants of the cores cost a program in Python
    more than one in Java. Raises BinaryMissing, StartFailed.
    """
    with tempfile.TemporaryFile() as file:
        fsync = _best(_FSYNCS, lambda: _written(file.fileno()))
    with EtcdServer() as etcd:
        txn = asyncio.run(_txn_seconds(etcd.endpoint))
    found = (_loop_seconds() * 1e9, _gather_seconds(places) * 1e9, fsync * 1e6, txn * 1e6)
    return {name: round(value) for name, value in zip(_SPEEDS, found, strict=True)}


def here_and_now(places: int = _PLACES) -> dict[str, object]:
    """The machine, its `speeds`, and the versions of the servers that the harness starts.

    Raises BinaryMissing, StartFailed.
    """
    return {**machine(), "zookeeper": zookeeper_jar_version(), "etcd": etcd_version(), **speeds(places)}


def described(environment: Mapping[str, Any]) -> str:
    """What stands below a table: where its figures come from. `environment` is what `here_and_now` gave."""
    text = (
        f"{environment['cores']} cores, ZooKeeper {environment['zookeeper']}, etcd {environment['etcd']}, "
        f"Python {environment['python']}, {str(environment['time'])[:10]}"
    )
    # Results of older runs have no speeds.
    told = [words.format(environment[name]) for name, words in _SPEEDS.items() if name in environment]
    return "; ".join([text, ", ".join(told)] if told else [text])


def _best(tries: int, work: Callable[[], object]) -> float:
    """Seconds of the shortest of some tries."""
    found = []
    for _ in range(tries):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return min(found)


def _loop_seconds() -> float:
    def work() -> None:
        for _ in range(_STEPS):
            pass

    return _best(_TRIES, work) / _STEPS


def _gather_seconds(places: int) -> float:
    """A read of an object whose place in memory cannot be foreseen."""
    objects = [float(number) for number in range(places)]
    random.Random(1).shuffle(objects)

    def work() -> None:
        for _ in objects:  # counts a reference to each, in its own memory
            pass

    return _best(3, work) / places


def _written(descriptor: int) -> None:
    os.pwrite(descriptor, bytes(4096), 0)
    os.fsync(descriptor)


async def _txn_seconds(endpoint: str) -> float:
    """One write after the other, as of a client that waits; the middle one."""
    etcd = Access((endpoint,)).client()
    found = []
    try:
        for number in range(_TXNS):
            begun = time.perf_counter()
            await etcd.txn(Txn((), (Put(b"speed/%d" % number, bytes(100)),)), _TIMEOUT)
            found.append(time.perf_counter() - begun)
    finally:
        await etcd.close()
    return sorted(found)[_TXNS // 2]
