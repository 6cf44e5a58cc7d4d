"""One run: tables are made, hosts insert for some seconds, come to rest, and are judged."""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from codec.client import children, create, delete, get, multi
from codec.constants import CreateMode
from examples.observer import Observer
from examples.program import Findings, Surroundings
from examples.replicated_merge_tree.host import Host, World
from examples.replicated_merge_tree.replica import Replica, Table
from examples.replicated_merge_tree.table import PARTITIONS, leaked, sequence_number
from examples.runner import Pace, Period, Task, run_hosts
from examples.tree import make_parents
from examples.world import Connecting
from lab.client.session import ConnectionLost, Session

_DUPLICATES = 0.1
_QUEUE_LIMIT = 20
"""A host with more entries in a queue lets its inserts wait."""


class Shape(NamedTuple):
    """How large a run is."""

    hosts: int = 4
    replicas: int = 0
    """Of each table: so many hosts are a shard. 0: all hosts are one."""
    tables: int = 1
    """Of each shard."""
    writers: int = 2
    """Inserts at a time on each host."""
    rate: float = 0.0
    """Inserts a second of all hosts together, 0 for as many as they can."""
    seconds: float = 10.0
    query_every: float = 0.5
    """Seconds between two DDL queries."""


def make_hosts(world: World, shape: Shape) -> list[Host]:
    """The hosts with their replicas: shard after shard. The last shard may be smaller."""
    hosts = [Host(world, number) for number in range(shape.hosts)]
    size = shape.replicas or shape.hosts
    for shard, start in enumerate(range(0, shape.hosts, size), 1):
        for number in range(1, shape.tables + 1):
            table = Table(f"{world.tables}/{shard:02d}/events-{number}")
            for host in hosts[start : start + size]:
                host.add(table)
    return hosts


async def run(
    surroundings: Surroundings,
    shape: Shape,
    connecting: Connecting,
    seed: int,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
) -> Findings:
    """Run the workload, with something else `meanwhile`.

    Raises Violation, or ConnectionLost if no server lets the hosts in for long.
    """
    world = World(surroundings, connecting, seed)
    hosts = make_hosts(world, shape)

    async def write() -> None:
        world.meter.restart()
        load, period = _Load(world, hosts, shape), Period(shape.seconds, meanwhile)
        async with asyncio.TaskGroup() as group:
            group.create_task(period.run_others())
            group.create_task(load.query(period))
            for host in hosts:
                for _ in range(shape.writers):
                    group.create_task(load.insert(host, period))
        world.meter.stop()
        world.steps.stop()

    tasks: list[Task] = [partial(task, host) for host in hosts for task in (Host.hold, Host.work_on_queries)]
    tasks += [
        partial(task, replica)
        for host in hosts
        for replica in host.replicas
        for task in (Replica.copy_log, Replica.execute_queue)
    ]
    timing = await run_hosts(hosts, tasks, TableObserver(world, hosts), write, world.rest)
    steps = world.steps
    return Findings(
        steps.timed["insert"],
        timing.loaded,
        steps.latencies(),
        {"seconds until all replicas were level": timing.level, **steps.facts()},
    )


class _Load:
    """Inserts at every host, and now and then a query on all of them."""

    def __init__(self, world: World, hosts: Sequence[Host], shape: Shape) -> None:
        self._world = world
        self._hosts = hosts
        self._shape = shape
        self._pace = Pace(shape.rate)
        self._recent: dict[Table, deque[tuple[str, str]]] = {}

    async def insert(self, host: Host, period: Period) -> None:
        """Insert new blocks, and some that were inserted before."""
        while not period.over:
            replica = host.random.choice(host.replicas)
            if len(replica.queue) > _QUEUE_LIMIT:
                await asyncio.sleep(self._world.pause_s)
            elif await self._pace.turn(period):
                recent = self._recent.setdefault(replica.table, deque(maxlen=2 * self._shape.hosts))
                if recent and host.random.random() < _DUPLICATES:
                    block = host.random.choice(recent)
                else:
                    block = (host.random.choice(PARTITIONS), self._world.identity())
                    recent.append(block)
                await replica.insert(*block)

    async def query(self, period: Period) -> None:
        """Run DDL queries, each whether or not the one before is done."""
        chance = random.Random(self._world.seed)
        async with asyncio.TaskGroup() as group:
            while not period.over:
                group.create_task(chance.choice(self._hosts).run_query())
                await asyncio.sleep(self._shape.query_every)


class TableObserver(Observer):
    """Makes the tables and the queue of DDL, and looks at all of them when the hosts are at rest."""

    def __init__(self, world: World, hosts: Sequence[Host]) -> None:
        super().__init__(world)
        self._world = world
        self._hosts = hosts
        self._tables = list({replica.table: None for host in hosts for replica in host.replicas})

    async def make_nodes(self) -> None:
        """See Observer."""
        world, session = self._world, await self.session()
        for path in (world.ddl, world.sessions):
            await make_parents(session, path)
            await session.call(create(path))
        await session.call(multi([create(f"{world.sessions}/{host.name}") for host in self._hosts]))
        for table in self._tables:
            await make_parents(session, table.root)
            nodes = table.nodes(table.members)
            await session.call(multi([create(path, data) for path, data in nodes.items()]))

    def done(self) -> object:
        """See Observer."""
        return {**self._world.steps.done}

    async def unfinished(self) -> str:
        """See Observer."""
        session = await self.session()
        queries = set((await session.call(children(self._world.ddl))).names)
        for host in self._hosts:
            if queries - host.finished:
                return f"{host.name} has not finished {sorted(queries - host.finished)}"
        for table in self._tables:
            end = len((await session.call(children(table.log))).names)
            for replica in table.members.values():
                if replica.pointer < end or replica.queue:
                    at = f"has copied {replica.pointer} of {end} entries of the log"
                    return f"{table.root}: {replica.name} {at} and has {len(replica.queue)} to do"
            for partition in PARTITIONS:  # those of a lost session stay until its timeout
                if taken := (await session.call(children(f"{table.block_numbers}/{partition}"))).names:
                    return f"{partition} has the block numbers {sorted(taken)}"
        return ""

    async def look(self) -> None:
        """See Observer."""
        session, world = await self.session(), self._world
        queries = (await session.call(children(world.ddl))).names
        world.ddl_judge.at_end(queries, world.names)
        for query in queries:
            await _is_empty(session, f"{world.ddl}/{query}/active")
        for table in self._tables:
            await self._look_at(session, table)

    async def _look_at(self, session: Session, table: Table) -> None:
        judge = table.judge
        for replica in table.members.values():
            root = f"{table.replicas}/{replica.name}"
            listed = (await session.call(children(f"{root}/parts"))).names
            judge.parts_found(replica.name, replica.disk, listed)
            await _is_empty(session, f"{root}/queue")
        names = (await session.call(children(table.blocks))).names
        blocks = {name: (await session.call(get(f"{table.blocks}/{name}"))).data.decode() for name in names}
        judge.at_end({replica.name: replica.disk for replica in table.members.values()}, blocks)
        for partition in PARTITIONS:
            numbers = f"{table.block_numbers}/{partition}"
            floor = judge.floor(partition)
            try:
                path = await session.call(create(f"{numbers}/block-", b"", CreateMode.EPHEMERAL_SEQUENTIAL))
            except ConnectionLost:
                judge.number_unknown(partition)
                raise
            judge.number_given(partition, sequence_number(path), floor)
            judge.counter_is(partition, sequence_number(path) + 1)
            await session.call(delete(path))


async def _is_empty(session: Session, path: str) -> None:
    leaked([f"{path}/{name}" for name in (await session.call(children(path))).names])
