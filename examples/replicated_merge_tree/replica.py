"""A table, and one host's replica of it: the parts on its disk, its queue, and both in ZooKeeper."""

import asyncio
import random
import time
from collections.abc import Iterable, Sequence
from typing import Any

from codec.constants import CreateMode, ErrorCode
from examples.invariants import Violation
from examples.member import Member
from examples.replicated_merge_tree.disk import Disk
from examples.replicated_merge_tree.entries import GET, Entry
from examples.replicated_merge_tree.judge import Judge
from examples.replicated_merge_tree.parts import Content, Part, digest
from examples.replicated_merge_tree.paths import TablePaths, sequence_number
from examples.replicated_merge_tree.queue import Queue, Queued
from examples.replicated_merge_tree.world import World
from examples.steps import Step
from examples.tree import BATCH
from lab.client.requests import Request, children, create, delete, exists, get, maybe, multi, set_data
from lab.client.session import MultiFailed, Session, ZooKeeperError


class Table(TablePaths):
    """A replicated table: its paths, its replicas, and the judge who sees all of them."""

    def __init__(self, world: World, shard: int, number: int) -> None:
        super().__init__(f"{world.tables}/{shard:02d}/events-{number}")
        self.judge = Judge()
        self.members: dict[str, Replica] = {}
        """By the name of the host."""

    def holders(self, part: Part) -> set[str]:
        """The replicas that have or had a part."""
        return {name for name, replica in self.members.items() if part in replica.disk.had}

    def having_rows_of(self, part: Part) -> set[str]:
        """The replicas that have rows of a part, in whatever part of theirs."""
        return {name for name, replica in self.members.items() if replica.disk.has_rows_of(part)}


class Replica:
    """What one host has of one table."""

    def __init__(self, world: World, table: Table, host: Member) -> None:
        self.world = world
        self.table = table
        self.host = host
        self.name = host.name
        self.paths = table.replica(self.name)
        self.random = random.Random(f"{world.seed} {table.root} {host.number}")
        self.disk = Disk()
        self.disk_lost = False
        """The host has come back with an empty disk, and the replica is not made anew yet."""
        self.queue = Queue()
        self.mutations: dict[str, dict[str, int]] = {}
        """Name of the node -> partition -> block number."""
        self.seen: set[str] = set()
        """Identities of all entries that this replica has copied from the log."""
        self.pointer = 0
        self.known_partitions: set[str] = set()
        self.postponed: dict[str, tuple[float, float]] = {}
        """Identity of an entry whose part no replica had -> when to search again, and the last pause."""
        self.queue_lock = asyncio.Lock()
        """Held while something is added to the queue."""
        self.work = asyncio.Event()
        """Set when the queue has something new, or something may go on."""
        self.to_check = asyncio.Event()
        """Set when a part is missing."""
        table.members[self.name] = self
        self._removal = asyncio.Lock()
        # What was asked for, and whether it is done is not known yet:
        self._copying: tuple[int, list[Entry]] = (0, [])
        self._fetching_again: dict[Part, Entry] = {}
        self._giving_up: set[Part] = set()
        self._removing_entries: set[str] = set()
        self._removing_parts: set[Part] = set()

    async def session(self) -> Session:
        """See Member."""
        return await self.host.session()

    @property
    def fence(self) -> Request[None]:
        """See Member."""
        return self.host.fence

    def notice_missing(self, part: Part) -> None:
        """Somebody has found out that a part's files are not there."""
        if part in self.disk.missing:
            self.to_check.set()

    # The beginning of a session

    async def activate(self, step: Step) -> None:
        """Say that the replica is active: ReplicatedMergeTreeRestartingThread::activateReplica."""
        data = str(step.session.id).encode()
        while True:
            requests: list[Request[Any]] = [
                create(self.paths.is_active, data, CreateMode.EPHEMERAL),
                set_data(self.paths.host, self.name.encode()),
                self.fence,
            ]
            if await step.call(exists(self.paths.is_active)) is not None:
                requests.insert(0, delete(self.paths.is_active))
            try:
                await step.multi(*requests)
            except MultiFailed as failed:
                if failed.code not in (ErrorCode.NO_NODE, ErrorCode.NODE_EXISTS):
                    raise
                continue  # the session before has ended just now
            return

    async def compare_parts(self, step: Step) -> None:
        """Find out what became of parts whose multi has no answer, and compare the disk with ZooKeeper."""
        listing = await step.call(maybe(children(self.paths.parts)))
        listed = {Part.parse(name) for name in listing.names} if listing is not None else set()
        now = time.monotonic()
        for part in list(self.disk.pending):
            if part in listed:
                self._committed(part, now)
            else:
                self._not_committed(part)
        if self.disk_lost:
            self.disk.wipe()
            self._removing_parts.clear()
            return
        for part in self._removing_parts - listed:
            self.disk.removed(part)
        self._removing_parts.clear()
        for part in self._fetching_again.keys() - listed:
            self.disk.missing.discard(part)
        if differing := sorted(part.text for part in self.disk.parts().symmetric_difference(listed)):
            raise Violation("parts", f"{self.name} and ZooKeeper differ by {differing} in a new session")
        if self.disk.missing:
            self.to_check.set()

    async def compare_queue(self, step: Step) -> None:
        """Read the queue, and compare it with what this replica knows."""
        pointer, stored = await self._read_queue(step)
        nodes = {queued.node for queued in stored}
        held = [
            queued.entry.identity
            for queued in self.queue
            if queued.node not in self._removing_entries or queued.node in nodes
        ]
        new = [entry for part, entry in self._fetching_again.items() if part not in self.disk.missing]
        until, copying = self._copying
        if copying and pointer != self.pointer:
            self.table.judge.copied(self.name, self.pointer, range(self.pointer, until))
            new += copying
            self.seen.update(entry.identity for entry in copying)
        elif pointer != self.pointer:
            raise Violation("queue", f"{self.name} is at {self.pointer}, ZooKeeper has {pointer}")
        unknown = {entry.identity for entry in new}
        found = [queued.entry.identity for queued in stored]
        if not unknown.issubset(found):
            raise Violation("queue", f"ZooKeeper has {found} for {self.name}, and not {unknown}")
        held += [identity for identity in found if identity in unknown]
        self.table.judge.queue_read(self.name, held, found)
        self._take_queue(pointer, stored)

    async def take_cloned_queue(self, step: Step) -> None:
        """Read the queue after it was copied from another replica."""
        pointer, stored = await self._read_queue(step)
        self.table.judge.cloned(self.name, pointer)
        self.seen.update(queued.entry.identity for queued in stored)
        self._take_queue(pointer, stored)

    async def _read_queue(self, step: Step) -> tuple[int, list[Queued]]:
        pointer = int((await step.call(get(self.paths.log_pointer))).data)
        nodes = sorted((await step.call(children(self.paths.queue))).names)
        entries = await step.all(*(get(f"{self.paths.queue}/{node}") for node in nodes))
        return pointer, [
            Queued(node, Entry.decode(entry.data)) for node, entry in zip(nodes, entries, strict=True)
        ]

    def _take_queue(self, pointer: int, stored: Sequence[Queued]) -> None:
        self.pointer = pointer
        self._copying = (0, [])
        self._fetching_again.clear()
        self._removing_entries.clear()
        self.queue = Queue([*self.disk.active, *self.disk.missing], stored)
        self.work.set()

    # Parts

    async def commit(self, step: Step, part: Part, content: Content, *more: Request[Any]) -> None:
        """Make a part one of the table's by one multi, with `more` before it. Raises MultiFailed.

        If the connection is lost, the part stays pending until the next session.
        """
        self.host.still(step)
        self.disk.pending[part] = content
        header = f"part header format version: 1\nchecksums: {digest(content)}".encode()
        try:
            await step.multi(*more, create(self.paths.part(part.text), header), self.fence)
        except MultiFailed:
            self._not_committed(part)
            raise
        self._committed(part, time.monotonic())

    def _committed(self, part: Part, now: float) -> None:
        if part in self._giving_up:
            self._giving_up.discard(part)
            self.table.judge.given_up(self.name, part, self.table.having_rows_of(part))
        self.table.judge.part_made(self.name, part, self.disk.pending[part])
        self.disk.commit(part, now)
        self.work.set()

    def _not_committed(self, part: Part) -> None:
        self._giving_up.discard(part)
        self.disk.forget(part)

    async def give_up(self, step: Step, part: Part, *more: Request[Any]) -> None:
        """Commit an empty part in place of one that no replica has: see `commit`."""
        self._giving_up.add(part)
        await self.commit(step, part, {}, *more)

    async def remove_outdated(self, step: Step, parts: Iterable[Part]) -> None:
        """Delete the znodes of outdated parts, and forget the parts."""
        async with self._removal:
            await self.remove_parts(step, [part for part in parts if part in self.disk.outdated])

    async def remove_parts(self, step: Step, parts: Iterable[Part]) -> None:
        """Delete the znodes of any parts, and forget the parts."""
        left = sorted(parts)
        for start in range(0, len(left), BATCH):
            chunk = left[start : start + BATCH]
            self.host.still(step)
            self._removing_parts.update(chunk)
            try:
                await step.multi(*(delete(self.paths.part(part.text)) for part in chunk), self.fence)
            except MultiFailed as failed:
                raise Violation("parts", f"{self.name} has lost a part in ZooKeeper: {failed}") from failed
            for part in chunk:
                self.disk.removed(part)
            self._removing_parts.difference_update(chunk)

    # The queue

    async def remove_entries(self, step: Step, nodes: Sequence[str]) -> None:
        """Take entries out of the queue."""
        self.host.still(step)
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
        self.host.still(step)
        pointer = sequence_number(names[-1]) + 1
        entries = [Entry.decode(each) for each in data]
        self._copying = (pointer, entries)
        created = await step.multi(
            *(self.queue_node(each) for each in data),
            set_data(self.paths.log_pointer, str(pointer).encode()),
            self.fence,
        )
        self.table.judge.copied(self.name, self.pointer, map(sequence_number, names))
        self.pointer, self._copying = pointer, (0, [])
        self.seen.update(entry.identity for entry in entries)
        for path, entry in zip(created, entries, strict=False):
            self._add(path, entry)

    async def fetch_again(self, step: Step, part: Part) -> None:
        """Take a missing part out of ZooKeeper and queue a fetch: removePartAndEnqueueFetch. One multi."""
        self.host.still(step)
        entry = self._fetching_again[part] = self.entry_to_get(part)
        _, path, _ = await step.multi(
            delete(self.paths.part(part.text)), self.queue_node(entry.encode()), self.fence
        )
        del self._fetching_again[part]
        self.disk.missing.discard(part)
        self._add(path, entry)

    def entry_to_get(self, part: Part, quorum: int = 0) -> Entry:
        """An entry that is in this replica's queue and not in the log."""
        return Entry(GET, part, "", self.world.identity(), quorum=quorum)

    def queue_node(self, data: bytes) -> Request[str]:
        """A request for a new last entry of the queue."""
        return create(f"{self.paths.queue}/queue-", data, CreateMode.PERSISTENT_SEQUENTIAL)

    def _add(self, path: str, entry: Entry) -> None:
        self.queue.add(Queued(path.rpartition("/")[2], entry))
        self.work.set()


def numbers_taken(names: Iterable[str]) -> list[int]:
    """The block numbers of the children of a partition's node."""
    return sorted(map(sequence_number, names))
