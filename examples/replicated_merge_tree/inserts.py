"""Inserts: a block number, one multi, and maybe a wait for a quorum. ClickHouse: ReplicatedMergeTreeSink"""

import asyncio
from typing import Any, NamedTuple

from codec.constants import CreateMode, ErrorCode
from examples.client import ConnectionLost, MultiFailed
from examples.invariants import Violation
from examples.replicated_merge_tree.entries import GET, Entry
from examples.replicated_merge_tree.host import Host
from examples.replicated_merge_tree.judge import Insert
from examples.replicated_merge_tree.parts import Block, Part
from examples.replicated_merge_tree.paths import sequence_number
from examples.requests import Request, check, children, create, delete, exists, get, maybe, set_data
from examples.steps import Step

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


async def insert(host: Host, batch: Batch) -> Part | None:
    """Insert until the outcome is known; the new part, or None for a block that was there.

    A connection that is lost costs a new session, in which the host knows what it had inserted.
    """
    stored: Part | None = None
    with host.world.steps.step("quorum insert" if batch.quorum else "insert", await host.session()) as step:
        while True:
            step.session = await host.session()
            try:
                stored = stored or await _store(host, step, batch)
                if stored is not None and batch.quorum:
                    await _wait_for_quorum(host, step, stored)
                    host.world.judge.quorum_told(stored, host.world.holders(stored), batch.quorum)
            except ConnectionLost:
                continue
            return stored


async def _store(host: Host, step: Step, batch: Batch) -> Part | None:
    """Put the block into the table; None if it is there already."""
    while True:
        active_version = await _before_a_quorum(host, step, batch.quorum) if batch.quorum else -1
        await ensure_partition(host, step, batch.partition)
        lock = await _lock(host, step, batch)
        if lock is None:
            found = await step.call(maybe(get(host.table.block(batch.block_id))))
            if found is None:
                continue  # its partition was dropped at this moment
            host.world.judge.duplicate(batch.token, Part.parse(found.data.decode()))
            return None
        number = sequence_number(lock)
        part = Part(batch.partition, number, number, 0)
        if await _commit(host, step, batch, part, lock, active_version):
            return part


async def ensure_partition(host: Host, step: Step, partition: str) -> None:
    """The parent of a partition's block numbers, whose first creation others see by a version."""
    numbers = host.table.numbers(partition)
    if numbers in host.known_partitions:
        return
    if await step.call(exists(numbers)) is None:
        try:
            await step.multi(create(numbers), set_data(host.table.block_numbers, b""))
        except MultiFailed as failed:
            if failed.code != ErrorCode.NODE_EXISTS:
                raise
    host.known_partitions.add(numbers)


def create_lock(host: Host, partition: str) -> Request[str]:
    """A request for a block number: an ephemeral sequential node."""
    return create(f"{host.table.numbers(partition)}/block-", b"", CreateMode.EPHEMERAL_SEQUENTIAL)


async def lock_number(host: Host, step: Step, partition: str, *before: Request[Any]) -> str:
    """Take a block number in one multi with other requests before it; the path of its node."""
    judge = host.world.judge
    floor = judge.floor(partition)
    try:
        *_, path = await step.multi(*before, create_lock(host, partition))
    except ConnectionLost:
        judge.number_unknown(partition)
        raise
    judge.number_given(partition, sequence_number(path), floor)
    return str(path)


async def _lock(host: Host, step: Step, batch: Batch) -> str | None:
    """A block number; None if the block is stored already."""
    block = host.table.block(batch.block_id)
    try:
        return await lock_number(host, step, batch.partition, create(block), delete(block))
    except MultiFailed as failed:
        if (failed.failed, failed.code) == (0, ErrorCode.NODE_EXISTS):
            return None
        raise


async def _commit(host: Host, step: Step, batch: Batch, part: Part, lock: str, active_version: int) -> bool:
    """The insert's multi. False if it has to begin again: another one stored the block, or has a quorum."""
    entry = Entry(GET, part, host.name, host.world.identity(), block_id=batch.block_id, quorum=batch.quorum)
    requests = [
        create(f"{host.table.log}/log-", entry.encode(), CreateMode.PERSISTENT_SEQUENTIAL),
        delete(lock),
        create(host.table.block(batch.block_id), part.text.encode()),
    ]
    if batch.quorum:
        status = f"{part.text}\n{batch.quorum}\n{host.name}".encode()
        requests += [create(host.table.quorum_status, status), check(host.paths.is_active, active_version)]
    content = {part.low: Block(batch.token, batch.rows)}
    try:
        await host.commit(step, part, content, *requests)
    except ConnectionLost:
        await host.session()
        if part not in host.disk.had:
            raise
    except MultiFailed as failed:
        if failed.code not in _RETRY or failed.failed > len(requests):
            raise
        await step.call(maybe(delete(lock)))
        if failed.failed == 1:
            raise Violation("block-number", f"{lock} is gone, its session lives") from failed
        return False
    host.world.judge.committed(Insert(batch.token, batch.partition, part.low, batch.rows))
    return True


async def _before_a_quorum(host: Host, step: Step, quorum: int) -> int:
    """Wait until enough replicas are active and no other insert waits for its quorum; is_active's version."""
    while True:
        status, watch = await step.watched(exists(host.table.quorum_status))
        if status is not None:
            await watch.wait()
            continue
        replicas = (await step.call(children(host.table.replicas))).names
        others = [name for name in replicas if name != host.name]
        active = await step.all(*(exists(host.table.replica(name).is_active) for name in others))
        ours = await step.call(exists(host.paths.is_active))
        if ours is not None and sum(stat is not None for stat in active) >= quorum - 1:
            return ours.version
        await asyncio.sleep(host.world.settings.pause_s)


async def _wait_for_quorum(host: Host, step: Step, part: Part) -> None:
    """Wait until the part has its quorum: the status is gone, or another part's."""
    while True:
        found, watch = await step.watched(exists(host.table.quorum_status))
        if found is None:
            return
        status = await step.call(maybe(get(host.table.quorum_status)))
        if status is None or status.data.decode().split("\n")[0] != part.text:
            return
        await watch.wait()
