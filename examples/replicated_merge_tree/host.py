"""A simulated ClickHouse server: one session, replicas of several tables, and its part in distributed DDL."""

import asyncio
import random

from examples.member import Member
from examples.replicated_merge_tree import recovery
from examples.replicated_merge_tree.replica import Replica, Table
from examples.replicated_merge_tree.world import World
from examples.steps import Step
from lab.client.session import ConnectionLost


class Host(Member):
    """One server. Its own node is `sessions/NAME`, whose version newer ClickHouse checks, too."""

    def __init__(self, world: World, number: int) -> None:
        name = f"replica-{number:02d}"
        super().__init__(world, name, number, f"{world.sessions}/{name}")
        self.world = world
        self.random = random.Random(f"{world.seed} {number}")
        self.replicas: list[Replica] = []
        self.executed: set[str] = set()
        """DDL queries that this host has executed."""
        self.finished_queries: set[str] = set()
        """Those of which it knows that ZooKeeper knows it."""
        self._up = asyncio.Event()
        self._up.set()
        world.names.append(name)

    def add(self, table: Table) -> None:
        """Have a replica of a table."""
        self.replicas.append(Replica(self.world, table, self))

    @property
    def up(self) -> bool:
        """Whether the host runs."""
        return self._up.is_set()

    def die(self, *, with_disk: bool) -> None:
        """End at this instant, without a word to the server."""
        self._up.clear()
        self.drop()
        if with_disk:
            for replica in self.replicas:
                replica.disk.wipe()
                replica.disk_lost = True

    def come_back(self) -> None:
        """Run again."""
        self._up.set()

    async def hold(self) -> None:
        """See Member."""
        await self._up.wait()
        await super().hold()

    async def settle(self, step: Step) -> None:
        """See Member."""
        if not self.up:  # it died while it connected
            raise ConnectionLost("the host is down")
        for replica in self.replicas:
            await recovery.begin(replica, step)
