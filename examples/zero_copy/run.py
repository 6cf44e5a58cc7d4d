"""One run: hosts insert, merge and drop parts for some seconds, come to rest, and the bucket is counted."""

import asyncio
from collections.abc import Awaitable, Callable

from codec.client import children, create, multi
from examples.invariants import Violation
from examples.observer import Observer
from examples.program import Findings, Surroundings
from examples.runner import Pace, Period, run_hosts
from examples.zero_copy.host import Host, Settings, World, log_entries

_PROGRESS = ("unmark", "move", "cleaning")


async def run(
    surroundings: Surroundings,
    *,
    hosts: int,
    seconds: float,
    seed: int,
    settings: Settings,
    rate: float = 0.0,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
    kind: Callable[[World, int], Host] = Host,
) -> Findings:
    """Run the workload, with something else `meanwhile`. `rate`: inserts a second of all hosts, 0: no limit.

    Raises Violation, or ConnectionLost if no server lets the hosts in for long.
    """
    world = World(surroundings, settings, seed)
    for number in range(hosts):
        host = kind(world, number)
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
        [
            task
            for host in world.hosts.values()
            for task in (host.hold, host.follow, host.tidy, host.read, host.move, host.propose)
        ],
        TableObserver(world),
        write,
        world.rest,
    )
    return Findings(
        len(world.told),
        timing.level,
        world.steps.latencies(),
        {
            **world.steps.facts(),
            "data written": world.storage.written,
            "data deleted": world.storage.deleted,
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


class TableObserver(Observer):
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

    async def unfinished(self) -> str:
        """See Observer."""
        session = await self.session()
        end = len((await session.call(children(self._world.paths.log))).names)
        for host in self._world.hosts.values():
            if host.pointer < end:
                return f"{host.name} has done {host.pointer} of {end} entries of the log"
            if host.outdated or host.leftovers:
                return f"{host.name} has not unmarked {sorted([*host.outdated, *host.leftovers])}"
            if host.local:
                return f"{host.name} has not moved {sorted(host.local)}"
        for above in (self._world.paths.merged, self._world.paths.moved):  # of sessions that were lost
            if held := (await session.call(children(above))).names:
                return f"locks of {sorted(held)} are held"
        return ""

    async def look(self) -> None:
        """See Observer."""
        world, paths, session = self._world, self._world.paths, await self.session()
        table: set[str] = set()
        added: list[str] = []
        for change in await log_entries(session, paths.log):
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
        left = [f"{paths.deleting}/{name}" for name in (await session.call(children(paths.deleting))).names]
        for part in (await session.call(children(paths.shared))).names:
            identities = (await session.call(children(paths.part(part)))).names
            if not identities:
                left.append(paths.part(part))
            for identity in identities:
                marks[identity] = (await session.call(children(paths.directory(part, identity)))).names
                directories = (await session.call(children(paths.data(part, identity)))).names
                left += [paths.directory(part, identity, name) for name in directories if name != part]
        world.storage.at_end(
            {host.name: host.parts for host in world.hosts.values()},
            marks,
            left,
            {part: world.rows[part] for part in table},
        )
