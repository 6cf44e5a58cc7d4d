"""What users do beside inserts: DROP PARTITION and mutations (ALTER TABLE ... UPDATE).

Both take a block number, like an insert: what was inserted before it is concerned, and nothing else.
"""

from typing import Any

from codec.constants import CreateMode, ErrorCode
from examples.replicated_merge_tree import quorum
from examples.replicated_merge_tree.entries import DROP, Entry
from examples.replicated_merge_tree.inserts import create_lock, ensure_partition, lock_number
from examples.replicated_merge_tree.parts import Part, dropped_range
from examples.replicated_merge_tree.paths import sequence_number
from examples.replicated_merge_tree.replica import Replica, numbers_taken
from examples.replicated_merge_tree.replication import is_in_log, parse_mutation
from examples.steps import Step
from lab.client.requests import Request, check, children, create, delete, exists, get, maybe, set_data
from lab.client.session import ConnectionLost, MultiFailed


async def drop_partition(replica: Replica, partition: str) -> None:
    """Drop everything that was inserted into a partition so far.

    ClickHouse deletes the partition's blocks first. Here they go in the multi that appends the entry, so that
    a lost connection cannot leave rows whose block is forgotten. And an insert that has a lower block number
    is waited for: ClickHouse leaves open whether its rows are dropped.
    """
    with replica.world.steps.step("drop partition", await replica.session()) as step:
        while True:
            step.session = await replica.session()
            entry = Entry(DROP, dropped_range(partition, -1), replica.name, replica.world.identity())
            try:
                if await _drop(replica, step, partition, entry):
                    return
            except ConnectionLost:
                if await is_in_log(replica, entry.identity):
                    replica.table.judge.dropped(entry.identity)
                    return


async def _drop(replica: Replica, step: Step, partition: str, entry: Entry) -> bool:
    judge = replica.table.judge
    await ensure_partition(replica, step, partition)
    lock = await lock_number(replica, step, partition)
    number = sequence_number(lock)
    await _wait_for_earlier(replica, step, partition, number)
    await _wait_for_quorum_below(replica, step, partition, number)
    dropped = dropped_range(partition, number - 1)
    requests: list[Request[Any]] = [
        create(
            f"{replica.table.log}/log-",
            Entry(DROP, dropped, replica.name, entry.identity).encode(),
            CreateMode.PERSISTENT_SEQUENTIAL,
        ),
        delete(lock),
        set_data(replica.table.log, b""),
        *(delete(path) for path in await _blocks_in(replica, step, dropped)),
        replica.fence,
    ]
    judge.dropping(entry.identity, partition, dropped.high)
    try:
        await step.multi(*requests)
    except MultiFailed as failed:
        if failed.code != ErrorCode.NO_NODE or failed.failed < 3:
            raise
        await step.call(delete(lock))  # the clean-up has deleted one of the blocks
        return False
    judge.dropped(entry.identity)
    return True


async def _wait_for_earlier(replica: Replica, step: Step, partition: str, number: int) -> None:
    """Wait until nobody holds a lower block number of the partition."""
    while True:
        found, watch = await step.watched(children(replica.table.numbers(partition)))
        if min(numbers_taken(found.names), default=number) >= number:
            return
        await watch.wait()


async def _wait_for_quorum_below(replica: Replica, step: Step, partition: str, number: int) -> None:
    """Wait until no part that will be dropped waits for its quorum: it could never get it."""
    while True:
        found, watch = await quorum.watched(step, replica.table)
        if found is None or found.status.part.partition != partition or found.status.part.high >= number:
            return
        await watch.wait()


async def _blocks_in(replica: Replica, step: Step, dropped: Part) -> list[str]:
    """The paths of the blocks that are stored in a range of parts."""
    names = (await step.call(children(replica.table.blocks))).names
    paths = [replica.table.block(name) for name in names if name.startswith(f"{dropped.partition}_")]
    found = await step.all(*(maybe(get(path)) for path in paths))
    return [
        path
        for path, each in zip(paths, found, strict=True)
        if each is not None and dropped.covers(Part.parse(each.data.decode()))
    ]


async def mutate(replica: Replica) -> None:
    """Change all rows that were inserted so far, in every partition."""
    with replica.world.steps.step("mutation", await replica.session()) as step:
        identity = replica.world.identity()
        while True:
            step.session = await replica.session()
            try:
                await _mutate(replica, step, identity)
                return
            except ConnectionLost:
                if await _registered(replica, identity):
                    return


async def _mutate(replica: Replica, step: Step, identity: str) -> None:
    locks = await _lock_all(replica, step)
    numbers = {partition: sequence_number(lock) for partition, lock in locks.items()}
    lines = [f"mutation: {identity}", *(f"{partition}\t{number}" for partition, number in numbers.items())]
    while True:
        stat = await step.call(exists(replica.table.mutations))
        assert stat is not None
        try:
            await step.multi(
                set_data(replica.table.mutations, b"", stat.version),
                create(
                    f"{replica.table.mutations}/", "\n".join(lines).encode(), CreateMode.PERSISTENT_SEQUENTIAL
                ),
                replica.fence,
            )
        except MultiFailed as failed:
            if failed.failed == 0 and failed.code == ErrorCode.BAD_VERSION:
                continue
            raise
        break
    replica.table.judge.mutation(numbers)
    await step.all(*(delete(lock) for lock in locks.values()))


async def _lock_all(replica: Replica, step: Step) -> dict[str, str]:
    """A block number in every partition at one instant: partition -> path."""
    judge = replica.table.judge
    while True:
        partitions, stat = await step.call(children(replica.table.block_numbers))
        floors = {partition: judge.floor(partition) for partition in partitions}
        try:
            *paths, _ = await step.multi(
                *(create_lock(replica.table, partition) for partition in partitions),
                check(replica.table.block_numbers, stat.version),
            )
        except ConnectionLost:
            for partition in partitions:
                judge.number_unknown(partition)
            raise
        except MultiFailed as failed:
            if failed.code != ErrorCode.BAD_VERSION:
                raise
            continue
        for partition, path in zip(partitions, paths, strict=True):
            judge.number_given(partition, sequence_number(path), floors[partition])
        return dict(zip(partitions, paths, strict=True))


async def _registered(replica: Replica, identity: str) -> bool:
    """Whether a mutation of an earlier session is registered."""
    while True:
        try:
            with replica.world.steps.step("search for a mutation", await replica.session()) as step:
                names = (await step.call(children(replica.table.mutations))).names
                found = await step.all(*(get(f"{replica.table.mutations}/{name}") for name in names))
        except ConnectionLost:
            continue
        for each in found:
            if each.data.decode().split("\n")[0] == f"mutation: {identity}":
                replica.table.judge.mutation(parse_mutation(each.data))
                return True
        return False
