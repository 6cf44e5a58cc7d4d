"""One run: hosts insert, merge and drop parts for some seconds, come to rest, and the bucket is counted."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from codec.client import children, create, get, multi
from examples.invariants import Violation
from examples.observer import Observer
from examples.program import Findings, Surroundings
from examples.runner import Pace, Period, run_hosts
from examples.zero_copy.host import Host, Settings, World
from examples.zero_copy.paths import Change

_TASKS = (Host.hold, Host.follow, Host.tidy, Host.read, Host.propose)
_PROGRESS = ("unmark",)


async def run(
    surroundings: Surroundings,
    *,
    hosts: int,
    seconds: float,
    seed: int,
    settings: Settings,
    rate: float = 0.0,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
) -> Findings:
    """Run the workload, with something else `meanwhile`. `rate`: inserts a second of all hosts, 0: no limit.

    Raises Violation, or ConnectionLost if no server lets the hosts in for long.
    """
    world = World(surroundings, settings, seed)
    for number in range(hosts):
        host = Host(world, number)
        world.hosts[host.name] = host

    async def write() -> None:
        world.meter.restart()
        period, pace = Period(seconds, meanwhile), Pace(rate)
        async with asyncio.TaskGroup() as writers:
            writers.create_task(period.run_others())
            for host in world.hosts.values():
                writers.create_task(_write(host, period, pace))

    timing = await run_hosts(
        list(world.hosts.values()),
        [partial(task, host) for host in world.hosts.values() for task in _TASKS],
        BucketObserver(world),
        write,
        world.rest,
    )
    return Findings(
        len(world.told),
        timing.level,
        world.steps.latencies(),
        {
            **world.steps.facts(),
            "data written": world.bucket.written,
            "data deleted": world.bucket.deleted,
        },
    )


async def _write(host: Host, period: Period, pace: Pace) -> None:
    world, limit = host.world, 2 * host.world.settings.most_parts
    while not period.over:
        behind = len(world.told) - host.inserts_seen
        if max(len(host.wanted), len(host.outdated), behind) > limit:
            await asyncio.sleep(world.settings.pause_s)
        elif await pace.turn(period):
            await host.insert()


class BucketObserver(Observer):
    """Makes the table, and counts its marks."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._world = world

    async def make_nodes(self) -> None:
        """The table and its hosts."""
        paths, session = self._world.paths, await self.session()
        nodes = [*paths.every(), *(paths.host(name) for name in self._world.hosts)]
        await session.call(multi([create(path) for path in nodes]))

    def done(self) -> object:
        """Entries of the log that each host has done, and other steps."""
        world = self._world
        copied = [host.pointer for host in world.hosts.values()]
        return copied, [world.steps.done[kind] for kind in _PROGRESS]

    async def _log(self) -> list[Change]:
        session, log = await self.session(), self._world.paths.log
        names = sorted((await session.call(children(log))).names)
        return [Change.decode((await session.call(get(f"{log}/{name}"))).data) for name in names]

    async def unfinished(self) -> str:
        """See Observer."""
        session = await self.session()
        end = len((await session.call(children(self._world.paths.log))).names)
        for host in self._world.hosts.values():
            if host.pointer < end:
                return f"{host.name} has done {host.pointer} of {end} entries of the log"
            if host.outdated:
                return f"{host.name} has not unmarked {sorted(host.outdated)}"
        return ""

    async def look(self) -> None:
        """See Observer."""
        world, paths, session = self._world, self._world.paths, await self.session()
        table: set[str] = set()
        added: list[str] = []
        for change in await self._log():
            table.difference_update(change.removed)
            if change.added:
                table.add(change.added)
                added.append(change.added)
        for part in world.told:
            if added.count(part) != 1:
                raise Violation(
                    "parts", f"{part} was reported as inserted; it is in the log {added.count(part)} times"
                )
        marks: dict[str, list[str]] = {}
        left = [f"{paths.merged}/{name}" for name in (await session.call(children(paths.merged))).names]
        left += [f"{paths.deleting}/{name}" for name in (await session.call(children(paths.deleting))).names]
        for part in (await session.call(children(paths.shared))).names:
            identities = (await session.call(children(paths.part(part)))).names
            if not identities:
                left.append(paths.part(part))
            for identity in identities:
                marks[identity] = (await session.call(children(paths.data(part, identity)))).names
        world.bucket.at_end(
            {host.name: host.parts for host in world.hosts.values()},
            marks,
            left,
            {part: world.rows[part] for part in table},
        )
