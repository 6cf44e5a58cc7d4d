"""One run: the table is made, the hosts start, write for some seconds, come to rest, and are judged."""

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable

from examples.client import ConnectionLost, Session
from examples.invariants import Violation
from examples.member import Period, forever, ungrouped
from examples.observer import Observer
from examples.program import Findings, Surroundings
from examples.replicated_merge_tree.changes import drop_partition, mutate
from examples.replicated_merge_tree.ddl import clean_queue, run_query, work_on_queries
from examples.replicated_merge_tree.host import Host, Settings, World
from examples.replicated_merge_tree.inserts import Batch, create_lock, insert
from examples.replicated_merge_tree.leadership import lead
from examples.replicated_merge_tree.parts import Content, Part
from examples.replicated_merge_tree.paths import sequence_number
from examples.replicated_merge_tree.replication import copy_log, execute_queue, parse_mutation, tidy
from examples.replicated_merge_tree.selection import missing_mutations
from examples.requests import children, create, exists, get, multi
from examples.tree import make_parents

PARTITIONS = ("202401", "202402", "202403")
_TASKS: tuple[Callable[[Host], Awaitable[None]], ...] = (
    Host.hold,
    copy_log,
    execute_queue,
    lead,
    tidy,
    work_on_queries,
    clean_queue,
)
_DUPLICATES = 0.1
_QUORUM_INSERTS = 0.05
_ROWS = 10
_CHANGES = ("query", "mutation", "query", "drop")
_PROGRESS = ("end of a queue entry", "drop of a range", "removal of old parts")


class Load:
    """What the users of all hosts do for some time."""

    def __init__(self, world: World, writers: int, period: Period) -> None:
        self._world = world
        self._writers = writers
        self._period = period
        self._recent: deque[Batch] = deque(maxlen=2 * writers * len(world.hosts))

    async def run(self) -> None:
        """Return when everything that was begun is done."""
        async with asyncio.TaskGroup() as group:
            for host in self._world.hosts.values():
                for _ in range(self._writers):
                    group.create_task(self._write(host))
            group.create_task(self._change())
            group.create_task(self._period.run_others())

    async def _write(self, host: Host) -> None:
        settings = self._world.settings
        while not self._period.over:
            if len(host.queue) > settings.queue_limit:
                await asyncio.sleep(settings.pause_s)
            elif self._recent and host.random.random() < _DUPLICATES:
                await insert(host, host.random.choice(self._recent)._replace(quorum=0))
            else:
                quorum = min(2, len(self._world.hosts)) if host.random.random() < _QUORUM_INSERTS else 0
                batch = Batch(self._world.identity(), host.random.choice(PARTITIONS), _ROWS, quorum)
                self._recent.append(batch)
                await insert(host, batch)

    async def _change(self) -> None:
        world = self._world
        chance = random.Random(world.seed)
        hosts = list(world.hosts.values())
        async with asyncio.TaskGroup() as group:
            number = 0
            while not self._period.over:
                group.create_task(self._do(_CHANGES[number % len(_CHANGES)], chance.choice(hosts)))
                number += 1
                await asyncio.sleep(world.settings.changes_s)

    async def _do(self, change: str, host: Host) -> None:
        if change == "query":
            await run_query(host)
        elif change == "mutation":
            await mutate(host)
        else:
            await drop_partition(host, host.random.choice(PARTITIONS))


async def run(
    surroundings: Surroundings,
    *,
    hosts: int,
    writers: int,
    seconds: float,
    seed: int,
    settings: Settings,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
) -> Findings:
    """Run the workload, with something else `meanwhile`.

    Raises Violation, or ConnectionLost if no server lets the hosts in for long.
    """
    world = World(surroundings.addresses, surroundings.root, surroundings.meter, settings, seed)
    for number in range(hosts):
        host = Host(world, number)
        world.hosts[host.name] = host
    observer = TableObserver(world)
    try:
        with ungrouped():
            async with asyncio.TaskGroup() as group:
                await observer.make_nodes()
                background = [
                    group.create_task(forever(host, task)) for host in world.hosts.values() for task in _TASKS
                ]
                for host in world.hosts.values():
                    await host.session()
                world.meter.restart()
                begun = time.monotonic()
                await Load(world, writers, Period(seconds, meanwhile)).run()
                written = time.monotonic() - begun
                world.resting = True
                await observer.wait_for_rest()
                level = time.monotonic() - begun
                await observer.judge()
                for task in background:
                    task.cancel()
    finally:
        for host in world.hosts.values():
            await host.close()
        await observer.close()
    steps = world.steps
    return Findings(
        steps.done["insert"] + steps.done["quorum insert"],
        written,
        {kind: latencies for kind, latencies in sorted(steps.latencies.items()) if kind != "session"},
        {"seconds until all replicas were level": level, **steps.facts()},
    )


class TableObserver(Observer):
    """Makes the table, and looks at it."""

    def __init__(self, world: World) -> None:
        super().__init__(world.addresses, world.settings.connecting, world.settings.pause_s)
        self._world = world

    async def make_nodes(self) -> None:
        """The table, its replicas, and the queue of DDL."""
        world = self._world
        session = await self.session()
        for path in (world.table.root, world.ddl):
            await make_parents(session, path)
        await session.call(create(world.ddl))
        await session.call(multi([create(path) for path in world.table.every()]))
        for host in world.hosts.values():
            await session.call(multi([create(path, data) for path, data in host.paths.every().items()]))

    def done(self) -> object:
        """Entries of the log that each host has done, and other steps."""
        world = self._world
        copied = [host.pointer for host in world.hosts.values()]
        return copied, [world.steps.done[kind] for kind in _PROGRESS]

    async def unfinished(self) -> str:
        """See Observer."""
        world, session = self._world, await self.session()
        await session.call(exists(world.table.root))
        log = (await session.call(children(world.table.log))).names
        end = max((sequence_number(name) + 1 for name in log), default=0)
        queries = set((await session.call(children(world.ddl))).names)
        mutations = await self._mutations(session)
        for host in world.hosts.values():
            if host.pointer < end:
                return f"{host.name} has copied {host.pointer} of {end} entries of the log"
            for queued in host.queue:
                return f"{host.name} has not done {queued.entry}"
            if host.disk.pending or host.disk.outdated:
                return f"{host.name} has parts that are pending or outdated"
            if unfinished := queries - host.finished_queries:
                return f"{host.name} has not finished {sorted(unfinished)}"
            for part in host.disk.active:
                if missing := missing_mutations(part, mutations.get(part.partition, ())):
                    return f"{host.name} lacks the mutations {missing} in {part.text}"
        return ""

    async def _mutations(self, session: Session) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for name in (await session.call(children(self._world.table.mutations))).names:
            data = (await session.call(get(f"{self._world.table.mutations}/{name}"))).data
            for partition, number in parse_mutation(data).items():
                found.setdefault(partition, []).append(number)
        return found

    async def look(self) -> None:
        """See Observer."""
        world, judge, session = self._world, self._world.judge, await self.session()
        await session.call(exists(world.table.root))
        judge.ddl_at_end(world.queries, world.hosts)
        replicas: dict[str, dict[Part, Content]] = {}
        listed: dict[str, set[Part]] = {}
        for host in world.hosts.values():
            names = (await session.call(children(host.paths.parts))).names
            listed[host.name] = {Part.parse(name) for name in names}
            replicas[host.name] = {part: host.disk.content(part) or {} for part in host.disk.active}
            if queued := (await session.call(children(host.paths.queue))).names:
                raise Violation("queue", f"{host.name} holds nothing, ZooKeeper {queued}")
        judge.at_end(replicas, listed)
        blocks = (await session.call(children(world.table.blocks))).names
        judge.blocks_at_end(name.partition("_")[2] for name in blocks)
        for partition in (await session.call(children(world.table.block_numbers))).names:
            host = next(iter(world.hosts.values()))
            floor = judge.floor(partition)
            try:
                path = await session.call(create_lock(host, partition))
            except ConnectionLost:
                judge.number_unknown(partition)
                raise
            judge.number_given(partition, sequence_number(path), floor)
            judge.counter_is(partition, sequence_number(path) + 1)
