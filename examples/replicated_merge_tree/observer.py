"""Makes the tables and the queue of DDL, and looks at all of them when the hosts are at rest."""

from collections.abc import Mapping, Sequence

from examples.invariants import Violation
from examples.observer import Observer
from examples.replicated_merge_tree.host import Host
from examples.replicated_merge_tree.inserts import create_lock
from examples.replicated_merge_tree.parts import Content, Part
from examples.replicated_merge_tree.paths import sequence_number
from examples.replicated_merge_tree.recovery import creation
from examples.replicated_merge_tree.replica import Replica, Table
from examples.replicated_merge_tree.replication import parse_mutation
from examples.replicated_merge_tree.selection import missing_mutations
from examples.replicated_merge_tree.world import World
from examples.tree import make_parents, paths_below
from lab.client.requests import children, create, delete, get, multi
from lab.client.session import ConnectionLost, Session

_PROGRESS = ("end of a queue entry", "drop of a range", "removal of old parts", "session")


class TableObserver(Observer):
    """Sees all tables of a run."""

    def __init__(self, world: World, hosts: Sequence[Host]) -> None:
        super().__init__(world)
        self._world = world
        self._hosts = hosts
        self._tables = {replica.table: None for host in hosts for replica in host.replicas}

    async def make_nodes(self) -> None:
        """The tables, their replicas, the nodes of the hosts' sessions, and the queue of DDL."""
        world, session = self._world, await self.session()
        for path in (world.ddl, world.sessions):
            await make_parents(session, path)
            await session.call(create(path))
        for host in self._hosts:
            await session.call(create(f"{world.sessions}/{host.name}"))
        for table in self._tables:
            await make_parents(session, table.root)
            await session.call(multi([create(path) for path in table.every()]))
            for replica in table.members.values():
                await session.call(multi(creation(replica, lost=False)))

    def done(self) -> object:
        """Entries of the log that each replica has done, and other steps."""
        copied = [replica.pointer for table in self._tables for replica in table.members.values()]
        return copied, [self._world.steps.done[kind] for kind in _PROGRESS]

    # Waiting

    async def unfinished(self) -> str:
        """See Observer."""
        session = await self.session()
        queries = set((await session.call(children(self._world.ddl))).names)
        for host in self._hosts:
            if unfinished := queries - host.finished_queries:
                return f"{host.name} has not finished {sorted(unfinished)}"
        for table in self._tables:
            if left := await self._unfinished_in(session, table):
                return f"{table.root}: {left}"
        return ""

    async def _unfinished_in(self, session: Session, table: Table) -> str:
        log = (await session.call(children(table.log))).names
        end = max((sequence_number(name) + 1 for name in log), default=0)
        mutations = await _mutations(session, table)
        for replica in table.members.values():
            if left := _left_to_do(replica, end, mutations):
                return f"{replica.name} {left}"
        for partition in (await session.call(children(table.block_numbers))).names:
            if taken := (await session.call(children(table.numbers(partition)))).names:
                return f"{partition} has the block numbers {sorted(taken)}"
        return ""

    # At the end

    async def look(self) -> None:
        """See Observer."""
        session = await self.session()
        self._world.ddl_judge.at_end(self._world.queries, self._world.names)
        for table in self._tables:
            await self._look_at(session, table)

    async def _look_at(self, session: Session, table: Table) -> None:
        judge = table.judge
        replicas: dict[str, dict[Part, Content]] = {}
        listed: dict[str, set[Part]] = {}
        for replica in table.members.values():
            names = (await session.call(children(replica.paths.parts))).names
            listed[replica.name] = {Part.parse(name) for name in names}
            replicas[replica.name] = {part: replica.disk.content(part) or {} for part in replica.disk.active}
            if queued := (await session.call(children(replica.paths.queue))).names:
                raise Violation("queue", f"{replica.name} holds nothing, ZooKeeper {queued}")
            if (lost := (await session.call(get(replica.paths.is_lost))).data) != b"0":
                raise Violation("lost-replica", f"{replica.name} has {lost!r} as is_lost")
        judge.at_end(replicas, listed)
        blocks = (await session.call(children(table.blocks))).names
        judge.blocks_at_end(name.partition("_")[2] for name in blocks)
        judge.lost_parts_at_end(int((await session.call(get(table.lost_part_count))).data or 0))
        judge.nodes_at_end(table.unknown(await paths_below(session, table.root), table.members))
        await self._look_at_block_numbers(session, table)

    async def _look_at_block_numbers(self, session: Session, table: Table) -> None:
        judge = table.judge
        for partition in (await session.call(children(table.block_numbers))).names:
            floor = judge.floor(partition)
            try:
                path = await session.call(create_lock(table, partition))
            except ConnectionLost:
                judge.number_unknown(partition)
                raise
            judge.number_given(partition, sequence_number(path), floor)
            judge.counter_is(partition, sequence_number(path) + 1)
            await session.call(delete(path))


def _left_to_do(replica: Replica, end: int, mutations: Mapping[str, Sequence[int]]) -> str:
    """What a replica has not done, empty if nothing. `end`: of the log."""
    disk = replica.disk
    if replica.pointer < end:
        return f"has copied {replica.pointer} of {end} entries of the log"
    for queued in replica.queue:
        return f"has not done {queued.entry}"
    if disk.pending or disk.outdated or disk.missing:
        return "has parts that are pending, outdated or missing"
    for part in disk.active:
        if missing := missing_mutations(part, mutations.get(part.partition, ())):
            return f"lacks the mutations {missing} in {part.text}"
    return ""


async def _mutations(session: Session, table: Table) -> dict[str, list[int]]:
    """Partition -> block numbers of its mutations."""
    found: dict[str, list[int]] = {}
    for name in (await session.call(children(table.mutations))).names:
        data = (await session.call(get(f"{table.mutations}/{name}"))).data
        for partition, number in parse_mutation(data).items():
            found.setdefault(partition, []).append(number)
    return found
