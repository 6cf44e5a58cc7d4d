"""A simulated host: a replica of the table with its disk, its queue, and its session."""

import asyncio
import random
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from codec.constants import CreateMode
from examples.client import Address, MultiFailed, ZooKeeperError
from examples.invariants import Violation
from examples.member import Connecting, Member
from examples.meter import Meter
from examples.replicated_merge_tree.disk import Disk
from examples.replicated_merge_tree.entries import Entry
from examples.replicated_merge_tree.judge import Judge
from examples.replicated_merge_tree.parts import Content, Part, digest
from examples.replicated_merge_tree.paths import TablePaths, sequence_number
from examples.replicated_merge_tree.queue import Queue, Queued
from examples.requests import Request, children, create, delete, exists, get, multi, set_data
from examples.steps import Step, Steps

BATCH = 100
"""How many operations a multi of ClickHouse has at most: its MULTI_BATCH_SIZE."""


class Settings(NamedTuple):
    """How the hosts behave."""

    connecting: Connecting = Connecting()
    least_to_merge: int = 4
    most_to_merge: int = 10
    old_parts_s: float = 2.0
    """An outdated part stays for so long."""
    pause_s: float = 0.2
    """Between two looks for something to merge or to clean up."""
    changes_s: float = 0.5
    """Between two mutations, drops of a partition, or DDL queries."""
    cleanup_s: float = 2.0
    """Between two clean-ups of the log, the blocks and the queue of DDL."""
    window: int = 1000
    """How many blocks are remembered for deduplication."""
    queue_limit: int = 20
    """A host with more entries in its queue lets its inserts wait."""


class World:
    """What the hosts share: the table's paths, the judge, the figures, and each other's disks."""

    def __init__(
        self, addresses: Sequence[Address], root: str, meter: Meter, settings: Settings, seed: int
    ) -> None:
        self.addresses = addresses
        self.table = TablePaths(f"{root}/clickhouse/tables/01/events")
        self.ddl = f"{root}/clickhouse/task_queue/ddl"
        self.meter = meter
        self.settings = settings
        self.seed = seed
        self.judge = Judge()
        self.steps = Steps()
        self.hosts: dict[str, Host] = {}
        self.queries: set[str] = set()
        """All that were ever seen in the queue of DDL."""
        self.resting = False
        """Nothing is merged any more."""
        self._identities = 0

    def identity(self) -> str:
        """A new name for an entry, a block or a query."""
        self._identities += 1
        return f"{self.seed}-{self._identities:06d}"

    def holders(self, part: Part) -> set[str]:
        """The replicas that have or had a part."""
        return {name for name, host in self.hosts.items() if part in host.disk.had}


class Host(Member):
    """One ClickHouse server with one replica."""

    def __init__(self, world: World, number: int) -> None:
        name = f"replica-{number:02d}"
        self.world = world
        self.table = world.table
        self.paths = world.table.replica(name)
        super().__init__(
            name,
            number,
            self.paths.host,
            world.addresses,
            world.settings.connecting,
            world.meter,
            world.steps,
        )
        self.random = random.Random(f"{world.seed}/{number}")
        self.disk = Disk()
        self.queue = Queue()
        self.mutations: dict[str, dict[str, int]] = {}
        """Name of the node -> partition -> block number."""
        self.seen: set[str] = set()
        """Identities of all entries that this host has copied from the log."""
        self.pointer = 0
        self._copying: tuple[int, list[Entry]] = (0, [])
        """The pointer and entries of a copy whose outcome is not known yet."""
        self._removing_entries: set[str] = set()
        self._removing_parts: set[Part] = set()
        """What is being deleted; whether it is done is not known yet."""
        self.executed: set[str] = set()
        """DDL queries that this host has executed."""
        self.finished_queries: set[str] = set()
        """Those of which it knows that ZooKeeper knows it."""
        self.known_partitions: set[str] = set()
        self.postponed: dict[str, tuple[float, float]] = {}
        """Identity of an entry whose part no replica had -> when to search again, and the last pause."""
        self.pull_lock = asyncio.Lock()
        self.work = asyncio.Event()
        """Set when the queue has something new, or something may go on."""
        self._removal = asyncio.Lock()

    async def presence(self, step: Step) -> list[Request[Any]]:
        """The node that says that the replica is active."""
        data = str(step.session.id).encode()
        found: list[Request[Any]] = [create(self.paths.is_active, data, CreateMode.EPHEMERAL)]
        if await step.call(exists(self.paths.is_active)) is not None:
            found.insert(0, delete(self.paths.is_active))
        return found

    async def settle(self, step: Step) -> None:
        """Compare parts and queue with ZooKeeper's."""
        listing = await step.call(children(self.paths.parts))
        listed = {Part.parse(name) for name in listing.names}
        now = time.monotonic()
        for part in list(self.disk.pending):
            if part in listed:
                self._committed(part, now)
            else:
                self.disk.forget(part)
        for part in self._removing_parts - listed:
            self.disk.removed(part)
        self._removing_parts.clear()
        if differing := sorted(part.text for part in self.disk.parts().symmetric_difference(listed)):
            raise Violation("parts", f"{self.name} and ZooKeeper differ by {differing} in a new session")
        await self._reload_queue(step)

    async def _reload_queue(self, step: Step) -> None:
        stored_pointer = int((await step.call(get(self.paths.log_pointer))).data)
        nodes = sorted((await step.call(children(self.paths.queue))).names)
        entries = await step.all(*(get(f"{self.paths.queue}/{node}") for node in nodes))
        stored = [Queued(node, Entry.decode(entry.data)) for node, entry in zip(nodes, entries, strict=True)]
        held = [
            queued
            for queued in self.queue
            if queued.node not in self._removing_entries or queued.node in nodes
        ]
        identities = [queued.entry.identity for queued in held]
        pointer, copying = self._copying
        if copying and stored_pointer != self.pointer:
            self.world.judge.copied(self.name, self.pointer, range(self.pointer, pointer))
            identities += [entry.identity for entry in copying]
            self.seen.update(entry.identity for entry in copying)
        elif stored_pointer != self.pointer:
            raise Violation("queue", f"{self.name} is at {self.pointer}, ZooKeeper has {stored_pointer}")
        self.world.judge.queue_read(self.name, identities, [each.entry.identity for each in stored])
        self.pointer = stored_pointer
        self._copying = (0, [])
        self._removing_entries.clear()
        self.queue = Queue(self.disk.active, stored)

    async def commit(self, step: Step, part: Part, content: Content, *more: Request[Any]) -> None:
        """Make a part one of the table's by one multi, with `more` before it. Raises MultiFailed.

        If the connection is lost, the part stays pending until the next session.
        """
        self.still(step)
        self.disk.pending[part] = content
        header = f"part header format version: 1\nchecksums: {digest(content)}".encode()
        try:
            await step.multi(*more, create(self.paths.part(part.text), header), self.fence)
        except MultiFailed:
            self.disk.forget(part)
            raise
        self._committed(part, time.monotonic())

    def _committed(self, part: Part, now: float) -> None:
        self.world.judge.part_made(self.name, part, self.disk.pending[part])
        self.disk.commit(part, now)
        self.work.set()

    async def remove_parts(self, step: Step, parts: Iterable[Part]) -> None:
        """Delete the znodes of outdated parts, and forget the parts."""
        async with self._removal:
            left = [part for part in parts if part in self.disk.outdated]
            for start in range(0, len(left), BATCH):
                chunk = left[start : start + BATCH]
                self.still(step)
                self._removing_parts.update(chunk)
                try:
                    await step.multi(*(delete(self.paths.part(part.text)) for part in chunk), self.fence)
                except MultiFailed as failed:
                    raise Violation(
                        "parts", f"{self.name} has lost a part in ZooKeeper: {failed}"
                    ) from failed
                for part in chunk:
                    self.disk.removed(part)
                self._removing_parts.difference_update(chunk)

    async def remove_entries(self, step: Step, nodes: Sequence[str]) -> None:
        """Take entries out of the queue."""
        self.still(step)
        self._removing_entries.update(nodes)
        try:
            await step.all(*(multi([delete(f"{self.paths.queue}/{node}"), self.fence]) for node in nodes))
        except ZooKeeperError as error:
            raise Violation("queue", f"{self.name} lost an entry of its queue: {error}") from error
        for node in nodes:
            self.queue.done(node)
        self._removing_entries.difference_update(nodes)

    async def copy(self, step: Step, names: Sequence[str], data: Sequence[bytes]) -> None:
        """Copy entries of the log into the queue by one multi."""
        self.still(step)
        pointer = sequence_number(names[-1]) + 1
        entries = [Entry.decode(each) for each in data]
        self._copying = (pointer, entries)
        created = await step.multi(
            *(create(f"{self.paths.queue}/queue-", each, CreateMode.PERSISTENT_SEQUENTIAL) for each in data),
            set_data(self.paths.log_pointer, str(pointer).encode()),
            self.fence,
        )
        self.world.judge.copied(self.name, self.pointer, map(sequence_number, names))
        self.pointer, self._copying = pointer, (0, [])
        self.seen.update(entry.identity for entry in entries)
        for path, entry in zip(created, entries, strict=False):
            self.queue.add(Queued(path.rpartition("/")[2], entry))
        self.work.set()


def numbers_taken(names: Iterable[str]) -> list[int]:
    """The block numbers of the children of a partition's node."""
    return sorted(map(sequence_number, names))
