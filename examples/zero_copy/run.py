"""One run: hosts insert, merge and drop parts for some seconds, come to rest, and the bucket is counted."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple

from examples.zero_copy.host import Host, Settings, World
from examples.zero_copy.observer import Observer
from examples.zero_copy.steps import Latencies
from examples.zero_copy.storage import Violation
from examples.zero_copy.surroundings import Surroundings
from lab.client.session import ConnectionLost, ZooKeeperError

Task = Callable[[], Coroutine[Any, Any, None]]
"""What a host does as long as it lives; it ends only by an error."""


class Findings(NamedTuple):
    """What a run found."""

    inserts: int
    seconds: float
    """From the moment at which every host had a session, until the hosts had done all that was left to do."""
    latencies: Mapping[str, Latencies]
    """Kind of step -> how long each took."""
    facts: Mapping[str, float]
    """Other counts, by name."""


async def run(
    surroundings: Surroundings,
    *,
    hosts: int,
    seconds: float,
    seed: int,
    settings: Settings,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
    kind: Callable[[World, int], Host] = Host,
) -> Findings:
    """Run the workload, with something else `meanwhile`.

    Raises Violation, or ConnectionLost if no server lets the hosts in for long.
    """
    world = World(surroundings, settings, seed)
    for number in range(hosts):
        host = kind(world, number)
        world.hosts[host.name] = host
    observer = Observer(world)
    everyone = world.hosts.values()
    tasks = [
        task
        for host in everyone
        for task in (host.hold, host.follow, host.tidy, host.read, host.move, host.propose)
    ]
    try:
        await observer.make_nodes()
        async with _background(_forever(task) for task in tasks):
            for host in everyone:
                await host.session()
            begun = time.monotonic()
            surroundings.meter.restart()
            period = _Period(seconds, meanwhile)
            async with asyncio.TaskGroup() as writers:
                writers.create_task(period.run_others())
                for host in everyone:
                    writers.create_task(_write(host, period))
            world.resting = True
            await observer.wait_for_rest()
            passed = time.monotonic() - begun
            await observer.judge()
    finally:
        await asyncio.gather(*(host.close() for host in everyone))
        await observer.close()
    data = {"data written": world.storage.written, "data deleted": world.storage.deleted}
    return Findings(len(world.told), passed, world.steps.latencies(), {**world.steps.facts(), **data})


def leading(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Of what the tasks of a TaskGroup raised: the first violation, or else the first error."""
    leaves = [
        leading(error) if isinstance(error, BaseExceptionGroup) else error for error in errors.exceptions
    ]
    return next((leaf for leaf in leaves if isinstance(leaf, Violation)), leaves[0])


@asynccontextmanager
async def _background(tasks: Iterable[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Do tasks until the end of the `async with`. If one fails its error ends the `async with`, ungrouped."""
    with _ungrouped():
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(task) for task in tasks]
            yield
            for task in running:
                task.cancel()


async def _forever(task: Task) -> None:
    """Do a host's task, and begin it again after each lost connection."""
    while True:
        try:
            await task()
        except ConnectionLost:
            await asyncio.sleep(0)


@contextmanager
def _ungrouped() -> Iterator[None]:
    """Raise alone, instead of in a group, what made the hosts' tasks fail: a violation first."""
    try:
        yield
    except BaseExceptionGroup as several:  # what is raised in an `except*` would be a group again
        known = several.subgroup((Violation, ConnectionLost, ZooKeeperError))
        if known is None:
            raise
        raise leading(known) from None


class _Period:
    """How long the hosts are under load: some seconds, and as long as something else lasts."""

    def __init__(self, seconds: float, meanwhile: Callable[[], Awaitable[None]] | None) -> None:
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


async def _write(host: Host, period: _Period) -> None:
    world, limit = host.world, 2 * host.world.settings.most_parts
    while not period.over:
        behind = len(world.told) - host.inserts_seen
        if max(len(host.wanted), len(host.outdated), behind) > limit:
            await asyncio.sleep(world.settings.pause_s)
        else:
            await host.insert()
