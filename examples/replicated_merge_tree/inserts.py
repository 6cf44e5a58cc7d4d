"""Inserts: a block number, one multi, and maybe a wait for a quorum. ClickHouse: ReplicatedMergeTreeSink"""

import asyncio
from typing import Any, NamedTuple

from codec.constants import CreateMode, ErrorCode
from examples.invariants import Violation
from examples.replicated_merge_tree import quorum
from examples.replicated_merge_tree.entries import GET, Entry
from examples.replicated_merge_tree.judge import Insert
from examples.replicated_merge_tree.parts import Block, Part
from examples.replicated_merge_tree.paths import TablePaths, sequence_number
from examples.replicated_merge_tree.replica import Replica
from examples.steps import Step
from lab.client.requests import Request, check, children, create, delete, exists, get, maybe, set_data
from lab.client.session import ConnectionLost, MultiFailed

_RETRY = (ErrorCode.NO_NODE, ErrorCode.NODE_EXISTS, ErrorCode.BAD_VERSION)


class Batch(NamedTuple):
    """The rows of an insert, all in one partition."""

    token: str
    partition: str
    rows: int
    quorum: int = 0  # replicas that must have it before it is told as done; 0: no matter

    @property
    def block_id(self) -> str:
        """The name under which the block is remembered."""
        return f"{self.partition}_{self.token}"


async def insert(replica: Replica, batch: Batch) -> Part | None:
    """Insert until the outcome is known; the new part, or None for a block that was there.

    A connection that is lost costs a new session, in which the replica knows what it had inserted.
    """
    stored: Part | None = None
    with replica.world.steps.step(
        "quorum insert" if batch.quorum else "insert", await replica.session()
    ) as step:
        while True:
            step.session = await replica.session()
            try:
                stored = stored or await _store(replica, step, batch)
                if stored is not None and batch.quorum:
                    await _wait_for_quorum(replica, step, stored)
                    if await step.call(exists(f"{replica.table.failed_parts}/{stored.text}")) is None:
                        replica.table.judge.quorum_told(stored, replica.table.holders(stored), batch.quorum)
            except ConnectionLost:
                continue
            return stored


async def _store(replica: Replica, step: Step, batch: Batch) -> Part | None:
    """Put the block into the table; None if it is there already."""
    while True:
        active_version = await _before_a_quorum(replica, step, batch.quorum) if batch.quorum else -1
        await ensure_partition(replica, step, batch.partition)
        lock = await _lock(replica, step, batch)
        if lock is None:
            found = await step.call(maybe(get(replica.table.block(batch.block_id))))
            if found is None:
                continue  # its partition was dropped at this moment
            replica.table.judge.duplicate(batch.token, Part.parse(found.data.decode()))
            return None
        number = sequence_number(lock)
        part = Part(batch.partition, number, number, 0)
        if await _commit(replica, step, batch, part, lock, active_version):
            return part


async def ensure_partition(replica: Replica, step: Step, partition: str) -> None:
    """The parent of a partition's block numbers, whose first creation others see by a version."""
    numbers = replica.table.numbers(partition)
    if numbers in replica.known_partitions:
        return
    if await step.call(exists(numbers)) is None:
        try:
            await step.multi(create(numbers), set_data(replica.table.block_numbers, b""))
        except MultiFailed as failed:
            if failed.code != ErrorCode.NODE_EXISTS:
                raise
    replica.known_partitions.add(numbers)


def create_lock(table: TablePaths, partition: str) -> Request[str]:
    """A request for a block number: an ephemeral sequential node."""
    return create(f"{table.numbers(partition)}/block-", b"", CreateMode.EPHEMERAL_SEQUENTIAL)


async def lock_number(replica: Replica, step: Step, partition: str, *before: Request[Any]) -> str:
    """Take a block number in one multi with other requests before it; the path of its node."""
    judge = replica.table.judge
    floor = judge.floor(partition)
    try:
        *_, path = await step.multi(*before, create_lock(replica.table, partition))
    except ConnectionLost:
        judge.number_unknown(partition)
        raise
    judge.number_given(partition, sequence_number(path), floor)
    return str(path)


async def _lock(replica: Replica, step: Step, batch: Batch) -> str | None:
    """A block number; None if the block is stored already."""
    block = replica.table.block(batch.block_id)
    try:
        return await lock_number(replica, step, batch.partition, create(block), delete(block))
    except MultiFailed as failed:
        if (failed.failed, failed.code) == (0, ErrorCode.NODE_EXISTS):
            return None
        raise


async def _commit(
    replica: Replica, step: Step, batch: Batch, part: Part, lock: str, active_version: int
) -> bool:
    """The insert's multi. False if it has to begin again: another one stored the block, or has a quorum."""
    entry = Entry(
        GET, part, replica.name, replica.world.identity(), block_id=batch.block_id, quorum=batch.quorum
    )
    requests = [
        create(f"{replica.table.log}/log-", entry.encode(), CreateMode.PERSISTENT_SEQUENTIAL),
        delete(lock),
        create(replica.table.block(batch.block_id), part.text.encode()),
    ]
    if batch.quorum:
        status = quorum.Status(part, batch.quorum, (replica.name,)).encode()
        requests += [
            create(replica.table.quorum_status, status),
            check(replica.paths.is_active, active_version),
        ]
    content = {part.low: Block(batch.token, batch.rows)}
    try:
        await replica.commit(step, part, content, *requests)
    except ConnectionLost:
        await replica.session()
        if part not in replica.disk.had:
            raise
    except MultiFailed as failed:
        if failed.code not in _RETRY or failed.failed > len(requests):
            raise
        await step.call(maybe(delete(lock)))
        if failed.failed == 1:
            raise Violation("block-number", f"{lock} is gone, its session lives") from failed
        return False
    replica.table.judge.committed(Insert(batch.token, batch.partition, part.low, batch.rows))
    return True


async def _before_a_quorum(replica: Replica, step: Step, required: int) -> int:
    """Wait until enough replicas are active and no other insert waits for its quorum; is_active's version."""
    while True:
        status, watch = await step.watched(exists(replica.table.quorum_status))
        if status is not None:
            await watch.wait()
            continue
        replicas = (await step.call(children(replica.table.replicas))).names
        others = [name for name in replicas if name != replica.name]
        active = await step.all(*(exists(replica.table.replica(name).is_active) for name in others))
        ours = await step.call(exists(replica.paths.is_active))
        if ours is not None and sum(stat is not None for stat in active) >= required - 1:
            return ours.version
        await asyncio.sleep(replica.world.settings.pause_s)


async def _wait_for_quorum(replica: Replica, step: Step, part: Part) -> None:
    """Wait until the part has its quorum: the status is gone, or another part's."""
    while True:
        found, watch = await quorum.watched(step, replica.table)
        if found is None or found.status.part != part:
            return
        await watch.wait()
