"""One run: tables are made, hosts start, write for some seconds, lose this and that, and are judged."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from examples.program import Findings, Surroundings
from examples.replicated_merge_tree.ddl import clean_queue, work_on_queries
from examples.replicated_merge_tree.host import Host
from examples.replicated_merge_tree.leadership import lead
from examples.replicated_merge_tree.load import Load
from examples.replicated_merge_tree.losses import lose
from examples.replicated_merge_tree.observer import TableObserver
from examples.replicated_merge_tree.part_check import check_parts
from examples.replicated_merge_tree.replica import Table
from examples.replicated_merge_tree.replication import copy_log, execute_queue, follow_mutations, tidy
from examples.replicated_merge_tree.world import Settings, World
from examples.runner import Period, Task, run_hosts

_OF_A_HOST = (Host.hold, work_on_queries, clean_queue)
_OF_A_REPLICA = (copy_log, execute_queue, follow_mutations, lead, tidy, check_parts)


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
    losses: int = 0
    """After the timed part."""


def make_hosts(world: World, shape: Shape) -> list[Host]:
    """The hosts with their replicas: shard after shard. The last shard may be smaller."""
    hosts = [Host(world, number) for number in range(shape.hosts)]
    size = shape.replicas or shape.hosts
    for shard, start in enumerate(range(0, shape.hosts, size), 1):
        for number in range(1, shape.tables + 1):
            table = Table(world, shard, number)
            for host in hosts[start : start + size]:
                host.add(table)
    return hosts


def tasks_of(host: Host) -> list[Task]:
    """What a host does as long as it runs."""
    own: list[Task] = [partial(task, host) for task in _OF_A_HOST]
    return own + [partial(task, replica) for replica in host.replicas for task in _OF_A_REPLICA]


async def run(
    surroundings: Surroundings,
    shape: Shape,
    settings: Settings,
    seed: int,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
) -> Findings:
    """Run the workload. After the timed part something is lost, and something else goes on `meanwhile`.

    Raises Violation, or ConnectionLost if no server lets the hosts in for long.
    """
    world = World(surroundings, settings, seed)
    hosts = make_hosts(world, shape)
    tables = {replica.table for host in hosts for replica in host.replicas}
    load = Load(world, hosts, shape.writers, shape.rate)

    async def afterwards() -> None:
        await asyncio.gather(lose(world, hosts, shape.losses), *([meanwhile()] if meanwhile else []))

    timed = 0.0

    async def write() -> None:
        nonlocal timed
        world.meter.restart()
        begun = time.monotonic()
        await load.run(Period(shape.seconds))
        timed = time.monotonic() - begun
        world.meter.stop()
        world.steps.stop()
        if shape.losses or meanwhile:
            await load.run(Period(0.0, afterwards))

    timing = await run_hosts(
        hosts,
        [task for host in hosts for task in tasks_of(host)],
        TableObserver(world, hosts),
        write,
        world.rest,
    )
    steps = world.steps
    return Findings(
        steps.timed["insert"] + steps.timed["quorum insert"],
        timed,
        steps.latencies(),
        {
            "parts given up": sum(table.judge.parts_lost for table in tables),
            "seconds until all replicas were level": timing.level,
            **steps.facts(),
        },
    )
