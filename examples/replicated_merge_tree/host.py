"""A simulated ClickHouse server: one session, replicas of several tables, and its part in distributed DDL.

Distributed DDL (ClickHouse: DDLWorker) is a queue of queries that every host executes once, in order. A query
is a persistent sequential node; below it each host says that it is at work (`active`, ephemeral) and that it
is done (`finished`, persistent). The host that asked polls `finished`.
"""

import asyncio
import random

from codec.client import children, create, delete, exists, get, maybe
from codec.constants import CreateMode, ErrorCode
from examples import world
from examples.member import Member
from examples.program import Surroundings
from examples.replicated_merge_tree.replica import Replica, Table
from examples.replicated_merge_tree.table import DdlJudge
from examples.steps import Step
from examples.world import Connecting
from lab.client.session import ConnectionLost, MultiFailed, ZooKeeperError

_FIRST_POLL_S = 0.05
_LONGEST_POLL_S = 1.0


class World(world.World):
    """What all hosts of a run share."""

    def __init__(self, surroundings: Surroundings, connecting: Connecting, seed: int) -> None:
        super().__init__(surroundings.addresses, surroundings.meter, connecting, pause_s=0.2, seed=seed)
        clickhouse = f"{surroundings.root}/clickhouse"
        self.tables = f"{clickhouse}/tables"
        self.sessions = f"{clickhouse}/sessions/zookeeper"
        self.ddl = f"{clickhouse}/task_queue/ddl"
        self.ddl_judge = DdlJudge()
        self.names: list[str] = []
        """Of all hosts."""


class Host(Member):
    """One server. Its own node is `sessions/NAME`, whose version newer ClickHouse checks, too."""

    def __init__(self, world: World, number: int) -> None:
        name = f"replica-{number:02d}"
        super().__init__(world, name, number, f"{world.sessions}/{name}")
        self.world = world
        self.random = random.Random(f"{world.seed} {number}")
        self.replicas: list[Replica] = []
        self.finished: set[str] = set()
        """DDL queries that are finished here, also in ZooKeeper."""
        self._executed: set[str] = set()
        world.names.append(name)

    def add(self, table: Table) -> None:
        """Have a replica of a table."""
        self.replicas.append(Replica(self.world, table, self))

    async def settle(self, step: Step) -> None:
        """See Member."""
        for replica in self.replicas:
            await replica.begin(step)

    async def work_on_queries(self) -> None:
        """Execute new DDL queries whenever the queue changes."""
        while True:
            (names, _), watch = await (await self.session()).watched(children(self.world.ddl))
            for name in sorted(set(names) - self.finished):
                with self.world.steps.step("DDL, each host", await self.session()) as step:
                    await self._process(step, name)
                self.finished.add(name)
            await watch.wait()

    async def _process(self, step: Step, name: str) -> None:
        root = f"{self.world.ddl}/{name}"
        finished = f"{root}/finished/{self.name}"
        entry = await step.call(get(root))
        if self.name not in entry.data.decode() or await step.call(exists(finished)) is not None:
            step.counts = False
            return
        await _make_status_nodes(step, root)
        active = f"{root}/active/{self.name}"
        while True:
            try:
                await step.call(create(active, b"", CreateMode.EPHEMERAL))
                break
            except ZooKeeperError as error:
                if error.code != ErrorCode.NODE_EXISTS:
                    raise
            found, watch = await step.watched(exists(active))  # of this host's session before
            if found is not None:
                await watch.wait()
        if name not in self._executed:
            self._executed.add(name)
            self.world.ddl_judge.executed(self.name, name)
        await step.multi(delete(active), create(finished, b"0\n"), self.fence)

    async def run_query(self) -> None:
        """Run a DDL query on all hosts, and wait until all have finished it."""
        identity = self.world.identity()
        name: str | None = None
        with self.world.steps.step("DDL, all hosts", await self.session()) as step:
            while True:
                step.session = await self.session()
                try:
                    name = name or await self._find(step, identity) or await self._enqueue(step, identity)
                    await self._wait_for_all(step, name)
                    return
                except ConnectionLost:
                    continue

    async def _find(self, step: Step, identity: str) -> str | None:
        """The name of a query that was appended in an earlier session, if it was."""
        names = (await step.call(children(self.world.ddl))).names if step.requests else []
        found = await step.all(*(get(f"{self.world.ddl}/{name}") for name in names))
        return next(
            (name for name, each in zip(names, found, strict=True) if f"`{identity}`".encode() in each.data),
            None,
        )

    async def _enqueue(self, step: Step, identity: str) -> str:
        hosts = ", ".join(f"'{name}'" for name in self.world.names)
        query = f"version: 1\nquery: CREATE TABLE `{identity}`\nhosts: [{hosts}]\ninitiator: {self.name}\n"
        self.still(step)
        path = await step.call(
            create(f"{self.world.ddl}/query-", query.encode(), CreateMode.PERSISTENT_SEQUENTIAL)
        )
        await _make_status_nodes(step, path)
        return path.rpartition("/")[2]

    async def _wait_for_all(self, step: Step, name: str) -> None:
        pause = _FIRST_POLL_S
        while True:
            found = await step.call(maybe(children(f"{self.world.ddl}/{name}/finished")))
            if found is not None and len(found.names) >= len(self.world.names):
                self.world.ddl_judge.reported(name, self.world.names, found.names)
                return
            await asyncio.sleep(pause)
            pause = min(pause + _FIRST_POLL_S, _LONGEST_POLL_S)


async def _make_status_nodes(step: Step, root: str) -> None:
    try:
        await step.multi(create(f"{root}/active"), create(f"{root}/finished"))
    except MultiFailed as failed:
        if failed.code != ErrorCode.NODE_EXISTS:
            raise
