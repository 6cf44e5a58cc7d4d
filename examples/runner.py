"""One run of simulated hosts: made, loaded for some time, at rest, judged, closed. Every workload uses it.

A workload brings its hosts, the tasks that each host does as long as it lives, the load, and an observer.
What is here knows nothing of what they do.
"""

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple

from examples.invariants import Violation, leading
from examples.member import Member
from examples.observer import Observer
from examples.world import Connecting
from lab.arguments import count, seconds
from lab.client.session import ConnectionLost, ZooKeeperError

Task = Callable[[], Coroutine[Any, Any, None]]
"""Something to do. What a host does as long as it lives ends only by an error."""


class Timing(NamedTuple):
    """How long a run took, in seconds from the moment at which every host had a session."""

    loaded: float
    """Until the load was over."""
    level: float
    """Until the hosts had done everything that was left to do."""


async def run_hosts(
    hosts: Sequence[Member], tasks: Sequence[Task], observer: Observer, load: Task, rest: Callable[[], None]
) -> Timing:
    """Run a workload. `rest` is called when the load is over: nothing new is begun any more.

    A task begins again after a lost connection. Raises Violation, or ConnectionLost if no server lets the
    hosts in for long.
    """
    try:
        await observer.make_nodes()
        async with background(forever(task) for task in tasks):
            for host in hosts:
                await host.session()
            begun = time.monotonic()
            await load()
            loaded = time.monotonic() - begun
            rest()
            await observer.wait_for_rest()
            level = time.monotonic() - begun
            await observer.judge()
    finally:
        await asyncio.gather(*(host.close() for host in hosts))
        await observer.close()
    return Timing(loaded, level)


@asynccontextmanager
async def background(tasks: Iterable[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Do tasks until the end of the `async with`. If one fails its error ends the `async with`, ungrouped."""
    with ungrouped():
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(task) for task in tasks]
            yield
            for task in running:
                task.cancel()


async def forever(task: Task) -> None:
    """Do a host's task, and begin it again after each lost connection."""
    while True:
        try:
            await task()
        except ConnectionLost:
            await asyncio.sleep(0)


@contextmanager
def ungrouped() -> Iterator[None]:
    """Raise alone, instead of in a group, what made a workload's tasks fail: a violation first."""
    try:
        yield
    except BaseExceptionGroup as several:  # what is raised in an `except*` would be a group again
        known = several.subgroup((Violation, ConnectionLost, ZooKeeperError))
        if known is None:
            raise
        raise leading(known) from None


class Period:
    """How long the hosts are under load: some seconds, and as long as something else lasts."""

    def __init__(self, seconds: float, meanwhile: Callable[[], Awaitable[None]] | None = None) -> None:
        """`meanwhile`: e.g. faults, of which all are to come during the load."""
        self._meanwhile = meanwhile
        self._until = time.monotonic() + seconds
        self._others_done = meanwhile is None

    @property
    def over(self) -> bool:
        """Whether the hosts are to end what they do."""
        return self._others_done and time.monotonic() >= self._until

    async def run_others(self) -> None:
        """Run beside the load."""
        if self._meanwhile is not None:
            await self._meanwhile()
            self._others_done = True


class Pace:
    """Admits so many callers a second, evenly; with a rate of 0 it delays none.

    Two servers that are compared at one rate have the same work; else the faster one would get more of it.
    A turn that comes late is not made up for.
    """

    def __init__(self, rate: float) -> None:
        self._interval = 1 / rate if rate else 0.0
        self._next = 0.0
        self._queue = asyncio.Lock()

    async def turn(self, period: Period) -> bool:
        """Wait for the next turn; False if the period was over before."""
        async with self._queue:
            if period.over:
                return False
            now = time.monotonic()
            self._next = max(now, self._next + self._interval)
            await asyncio.sleep(self._next - now)
        return True


def add_options(parser: argparse.ArgumentParser, session_timeout_s: float) -> None:
    """The options that all workloads with hosts have."""
    parser.add_argument("--hosts", type=count, default=4, help="simulated servers (default: %(default)s)")
    parser.add_argument(
        "--session-timeout",
        type=seconds,
        default=session_timeout_s,
        help="of each host's session, in seconds (default: %(default)g)",
    )


def connecting(options: argparse.Namespace) -> Connecting:
    """What these options say about the hosts' sessions."""
    return Connecting(session_timeout_ms=round(options.session_timeout * 1000))
