"""What the users of all hosts do for some time: inserts, and now and then a change of everything."""

import asyncio
import random
from collections import deque
from collections.abc import Sequence

from examples.replicated_merge_tree.changes import drop_partition, mutate
from examples.replicated_merge_tree.ddl import run_query
from examples.replicated_merge_tree.host import Host
from examples.replicated_merge_tree.inserts import Batch, insert
from examples.replicated_merge_tree.replica import Replica, Table
from examples.replicated_merge_tree.world import World
from examples.runner import Pace, Period

PARTITIONS = ("202401", "202402", "202403")
_DUPLICATES = 0.1
_QUORUM = 2
_ROWS = 10
_CHANGES = ("query", "mutation", "query", "drop")


class Load:
    """Inserts at every host, by so many writers, at some rate."""

    def __init__(self, world: World, hosts: Sequence[Host], writers: int, rate: float) -> None:
        """`rate`: inserts a second of all hosts together, 0 for as many as they can."""
        self._world = world
        self._hosts = hosts
        self._writers = writers
        self._pace = Pace(rate)
        self._recent: dict[Table, deque[Batch]] = {}

    async def run(self, period: Period) -> None:
        """Return when everything that was begun is done."""
        async with asyncio.TaskGroup() as group:
            for host in self._hosts:
                for _ in range(self._writers):
                    group.create_task(self._write(host, period))
            group.create_task(self._change(period))
            group.create_task(period.run_others())

    async def _write(self, host: Host, period: Period) -> None:
        settings = self._world.settings
        while not period.over:
            replica = host.random.choice(host.replicas)
            if len(replica.queue) > settings.queue_limit:
                await asyncio.sleep(settings.pause_s)
            elif await self._pace.turn(period):
                await insert(replica, self._batch(replica))

    def _batch(self, replica: Replica) -> Batch:
        """New rows, or some that were inserted before."""
        table = replica.table
        recent = self._recent.setdefault(table, deque(maxlen=2 * self._writers * len(table.members)))
        if recent and replica.random.random() < _DUPLICATES:
            return replica.random.choice(recent)._replace(quorum=0)
        # With a host down a quorum might wait for it, and the host for entries of the log that do not come.
        possible = len(table.members) >= _QUORUM and all(each.host.up for each in table.members.values())
        share = self._world.settings.quorum_inserts if possible else 0.0
        batch = new_batch(replica, _QUORUM if replica.random.random() < share else 0)
        recent.append(batch)
        return batch

    async def _change(self, period: Period) -> None:
        world = self._world
        chance = random.Random(world.seed)
        async with asyncio.TaskGroup() as group:
            number = 0
            while not period.over:
                group.create_task(self._do(_CHANGES[number % len(_CHANGES)], chance.choice(self._hosts)))
                number += 1
                await asyncio.sleep(world.settings.changes_s)

    async def _do(self, change: str, host: Host) -> None:
        replica = host.random.choice(host.replicas)
        if change == "query":
            await run_query(host)
        elif change == "mutation":
            await mutate(replica)
        else:
            await drop_partition(replica, replica.random.choice(PARTITIONS))


def new_batch(replica: Replica, quorum: int = 0) -> Batch:
    """Rows that were never inserted."""
    return Batch(replica.world.identity(), replica.random.choice(PARTITIONS), _ROWS, quorum)
