"""A table, and one host's replica of it: the parts on its disk, its queue, and both in ZooKeeper."""

import asyncio
from collections.abc import Sequence
from typing import Any

from codec.client import Request, check, children, create, delete, exists, get, set_data
from codec.constants import CreateMode, ErrorCode
from examples.invariants import Violation
from examples.member import Member
from examples.replicated_merge_tree.table import Entry, Judge, TablePaths, part_of, sequence_number
from examples.steps import Step
from examples.tree import BATCH
from examples.world import World
from lab.client.session import ConnectionLost, MultiFailed, Session, ZooKeeperError


class Table(TablePaths):
    """A replicated table: its paths, its replicas, and the judge who sees all of them."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.judge = Judge()
        self.members: dict[str, Replica] = {}
        """By the name of the host."""


class Replica:
    """What one host has of one table."""

    def __init__(self, world: World, table: Table, host: Member) -> None:
        self.table = table
        self.name = host.name
        self.disk: dict[str, str] = {}
        """Part -> the block that it holds."""
        self.queue: dict[str, Entry] = {}
        """Name of the queue's node -> an entry of the log that is not done yet."""
        self.pointer = 0
        self._world = world
        self._host = host
        self._root = f"{table.replicas}/{self.name}"
        self._work = asyncio.Event()
        # What was asked for, and whether it is done is not known yet:
        self._committing: dict[str, str] = {}
        self._copying: tuple[int, Sequence[Entry]] | None = None
        self._removing: str | None = None
        table.members[self.name] = self

    # The beginning of a session

    async def begin(self, step: Step) -> None:
        """Find out what became of requests without an answer, and say that the replica is active."""
        judge = self.table.judge
        listed = (await step.call(children(f"{self._root}/parts"))).names
        self.disk |= {part: block for part, block in self._committing.items() if part in listed}
        self._committing.clear()
        judge.parts_found(self.name, self.disk, listed)
        pointer = int((await step.call(get(f"{self._root}/log_pointer"))).data)
        nodes = sorted((await step.call(children(f"{self._root}/queue"))).names)
        found = await step.all(*(get(f"{self._root}/queue/{node}") for node in nodes))
        queue = {node: Entry.decode(each.data) for node, each in zip(nodes, found, strict=True)}
        held = {entry.part for node, entry in self.queue.items() if node != self._removing or node in nodes}
        until, entries = self._copying or (self.pointer, ())
        if pointer not in (self.pointer, until):
            raise Violation("queue", f"{self.name} is at {self.pointer}, ZooKeeper has {pointer}")
        if pointer != self.pointer:
            judge.copied(self.name, self.pointer, range(self.pointer, until))
            held |= {entry.part for entry in entries}
        judge.queue_found(self.name, held, [entry.part for entry in queue.values()])
        self.pointer, self.queue, self._copying, self._removing = pointer, queue, None, None
        await self._activate(step)
        self._work.set()

    async def _activate(self, step: Step) -> None:
        """ReplicatedMergeTreeRestartingThread::activateReplica."""
        is_active = f"{self._root}/is_active"
        while True:
            requests: list[Request[Any]] = [
                create(is_active, str(step.session.id).encode(), CreateMode.EPHEMERAL),
                set_data(f"{self._root}/host", self.name.encode()),
                self._host.fence,
            ]
            if await step.call(exists(is_active)) is not None:
                requests.insert(0, delete(is_active))
            try:
                await step.multi(*requests)
            except MultiFailed as failed:
                if failed.code not in (ErrorCode.NO_NODE, ErrorCode.NODE_EXISTS):
                    raise
                continue  # the session before has ended just now
            return

    # Inserts: ReplicatedMergeTreeSink

    async def insert(self, partition: str, token: str) -> None:
        """Insert a block until the outcome is known."""
        block_id = f"{partition}_{token}"
        with self._world.steps.step("insert", await self._host.session()) as step:
            while True:
                step.session = await self._host.session()
                try:
                    if await self._store(step, partition, block_id):
                        return
                except ConnectionLost:
                    continue

    async def _store(self, step: Step, partition: str, block_id: str) -> bool:
        """Whether the block is in the table now, by this insert or an earlier one."""
        table, block = self.table, f"{self.table.blocks}/{block_id}"
        lock = await self._number(step, partition, create(block), delete(block))
        if lock is None:
            found = await step.call(get(block))
            table.judge.duplicate(block_id, found.data.decode())
            return True
        part = part_of(partition, sequence_number(lock))
        entry = Entry(part, self.name, block_id)
        try:
            await self._commit(
                step,
                part,
                block_id,
                create(f"{table.log}/log-", entry.encode(), CreateMode.PERSISTENT_SEQUENTIAL),
                delete(lock),
                create(block, part.encode()),
            )
        except ConnectionLost:
            await self._host.session()  # it has found out what became of the multi
            if part not in self.disk:
                raise
        except MultiFailed as failed:
            if (failed.failed, failed.code) == (1, ErrorCode.NO_NODE):
                raise Violation("block-number", f"{lock} is gone, its session lives") from failed
            if (failed.failed, failed.code) != (2, ErrorCode.NODE_EXISTS):
                raise
            await step.call(delete(lock))  # another insert of the block was quicker
            return False
        table.judge.inserted(part, block_id)
        return True

    async def _number(self, step: Step, partition: str, *before: Request[Any]) -> str | None:
        """Take a block number in one multi with other requests; the path of its node, None if one fails."""
        judge = self.table.judge
        floor = judge.floor(partition)
        number = f"{self.table.block_numbers}/{partition}/block-"
        try:
            *_, path = await step.multi(*before, create(number, b"", CreateMode.EPHEMERAL_SEQUENTIAL))
        except ConnectionLost:
            judge.number_unknown(partition)
            raise
        except MultiFailed as failed:
            if (failed.failed, failed.code) != (0, ErrorCode.NODE_EXISTS):
                raise
            return None
        judge.number_given(partition, sequence_number(path), floor)
        return str(path)

    async def _commit(self, step: Step, part: str, block_id: str, *more: Request[Any]) -> None:
        """Make a part one of the table's by one multi, with `more` before it. Raises MultiFailed."""
        self._host.still(step)
        self._committing[part] = block_id
        header = f"part header format version: 1\nchecksums: {block_id}".encode()
        try:
            await step.multi(*more, create(f"{self._root}/parts/{part}", header), self._host.fence)
        except MultiFailed:
            self._committing.pop(part, None)
            raise
        self._committing.pop(part, None)
        self.disk[part] = block_id

    # The log and the queue: ReplicatedMergeTreeQueue::pullLogsToQueue, executeFetch

    async def copy_log(self) -> None:
        """Copy new entries into the queue whenever the log changes."""
        while True:
            with self._world.steps.step("copy of the log", await self._host.session()) as step:
                (names, _), watch = await step.watched(children(self.table.log))
                new = sorted(name for name in names if sequence_number(name) >= self.pointer)
                for start in range(0, len(new), BATCH):
                    await self._copy(step, new[start : start + BATCH])
                step.counts = bool(new)
            await watch.wait()

    async def _copy(self, step: Step, names: Sequence[str]) -> None:
        data = [each.data for each in await step.all(*(get(f"{self.table.log}/{name}") for name in names))]
        self._host.still(step)
        pointer = sequence_number(names[-1]) + 1
        entries = [Entry.decode(each) for each in data]
        self._copying = (pointer, entries)
        *paths, _, _ = await step.multi(
            *(create(f"{self._root}/queue/queue-", each, CreateMode.PERSISTENT_SEQUENTIAL) for each in data),
            set_data(f"{self._root}/log_pointer", str(pointer).encode()),
            self._host.fence,
        )
        self.table.judge.copied(self.name, self.pointer, map(sequence_number, names))
        self.pointer, self._copying = pointer, None
        self.queue |= {path.rpartition("/")[2]: entry for path, entry in zip(paths, entries, strict=True)}
        self._work.set()

    async def execute_queue(self) -> None:
        """Fetch what is in the queue. What no active replica has yet waits; later entries are fetched."""
        while True:
            self._work.clear()
            session = await self._host.session()
            waits = False
            for node, entry in list(self.queue.items()):
                here = entry.part in self.disk
                if here or (entry.part not in self._committing and await self._fetch(session, entry)):
                    await self._remove(session, node)
                else:
                    waits = True
            try:
                async with asyncio.timeout(self._world.pause_s if waits else None):
                    await self._work.wait()
            except TimeoutError:
                pass

    async def _fetch(self, session: Session, entry: Entry) -> bool:
        """Whether the part is here now, from an active replica that has it."""
        with self._world.steps.step("fetch", session) as step:
            step.counts = False
            replicas = (await step.call(children(self.table.replicas))).names
            # Any replica that has the part will do: each begins at another one.
            first = replicas.index(self.name)
            for name in [*replicas[first + 1 :], *replicas[:first]]:
                root = f"{self.table.replicas}/{name}"
                if await step.call(exists(f"{root}/is_active")) is None:
                    continue
                if entry.part not in (await step.call(children(f"{root}/parts"))).names:
                    continue
                await step.call(get(f"{root}/host"))
                block_id = self.table.members[name].disk.get(entry.part)  # the transfer between the servers
                if block_id is not None:
                    await self._commit(step, entry.part, block_id, check(f"{root}/parts/{entry.part}", 0))
                    step.counts = True
                    break
        return step.counts

    async def _remove(self, session: Session, node: str) -> None:
        with self._world.steps.step("end of a queue entry", session) as step:
            self._host.still(step)
            self._removing = node
            try:
                await step.multi(delete(f"{self._root}/queue/{node}"), self._host.fence)
            except ZooKeeperError as error:
                raise Violation("queue", f"{self.name} lost an entry of its queue: {error}") from error
            del self.queue[node]
            self._removing = None
