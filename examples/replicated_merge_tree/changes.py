"""What users do beside inserts: DROP PARTITION and mutations (ALTER TABLE ... UPDATE).

Both take a block number, like an insert: what was inserted before it is concerned, and nothing else.
"""

from typing import Any

from codec.constants import CreateMode, ErrorCode
from examples.client import ConnectionLost, MultiFailed
from examples.replicated_merge_tree.entries import DROP, Entry
from examples.replicated_merge_tree.host import Host, numbers_taken
from examples.replicated_merge_tree.inserts import create_lock, ensure_partition, lock_number
from examples.replicated_merge_tree.parts import Part, dropped_range
from examples.replicated_merge_tree.paths import sequence_number
from examples.replicated_merge_tree.replication import is_in_log, parse_mutation
from examples.requests import Request, check, children, create, delete, exists, get, maybe, set_data
from examples.steps import Step


async def drop_partition(host: Host, partition: str) -> None:
    """Drop everything that was inserted into a partition so far.

    ClickHouse deletes the partition's blocks first. Here they go in the multi that appends the entry, so that
    a lost connection cannot leave rows whose block is forgotten. And an insert that has a lower block number
    is waited for: ClickHouse leaves open whether its rows are dropped.
    """
    with host.world.steps.step("drop partition", await host.session()) as step:
        while True:
            step.session = await host.session()
            entry = Entry(DROP, dropped_range(partition, -1), host.name, host.world.identity())
            try:
                if await _drop(host, step, partition, entry):
                    return
            except ConnectionLost:
                if await is_in_log(host, entry.identity):
                    host.world.judge.dropped(entry.identity)
                    return


async def _drop(host: Host, step: Step, partition: str, entry: Entry) -> bool:
    judge = host.world.judge
    await ensure_partition(host, step, partition)
    lock = await lock_number(host, step, partition)
    number = sequence_number(lock)
    await _wait_for_earlier(host, step, partition, number)
    await _wait_for_quorum_below(host, step, partition, number)
    dropped = dropped_range(partition, number - 1)
    requests: list[Request[Any]] = [
        create(
            f"{host.table.log}/log-",
            Entry(DROP, dropped, host.name, entry.identity).encode(),
            CreateMode.PERSISTENT_SEQUENTIAL,
        ),
        delete(lock),
        set_data(host.table.log, b""),
        *(delete(path) for path in await _blocks_in(host, step, dropped)),
        host.fence,
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


async def _wait_for_earlier(host: Host, step: Step, partition: str, number: int) -> None:
    """Wait until nobody holds a lower block number of the partition."""
    while True:
        found, watch = await step.watched(children(host.table.numbers(partition)))
        if min(numbers_taken(found.names), default=number) >= number:
            return
        await watch.wait()


async def _wait_for_quorum_below(host: Host, step: Step, partition: str, number: int) -> None:
    """Wait until no part that will be dropped waits for its quorum: it could never get it."""
    while True:
        found, watch = await step.watched(maybe(get(host.table.quorum_status)))
        if found is None:
            return
        part = Part.parse(found.data.decode().split("\n")[0])
        if part.partition != partition or part.high >= number:
            return
        await watch.wait()


async def _blocks_in(host: Host, step: Step, dropped: Part) -> list[str]:
    """The paths of the blocks that are stored in a range of parts."""
    names = (await step.call(children(host.table.blocks))).names
    paths = [host.table.block(name) for name in names if name.startswith(f"{dropped.partition}_")]
    found = await step.all(*(maybe(get(path)) for path in paths))
    return [
        path
        for path, each in zip(paths, found, strict=True)
        if each is not None and dropped.covers(Part.parse(each.data.decode()))
    ]


async def mutate(host: Host) -> None:
    """Change all rows that were inserted so far, in every partition."""
    with host.world.steps.step("mutation", await host.session()) as step:
        identity = host.world.identity()
        while True:
            step.session = await host.session()
            try:
                await _mutate(host, step, identity)
                return
            except ConnectionLost:
                if await _registered(host, identity):
                    return


async def _mutate(host: Host, step: Step, identity: str) -> None:
    locks = await _lock_all(host, step)
    numbers = {partition: sequence_number(lock) for partition, lock in locks.items()}
    lines = [f"mutation: {identity}", *(f"{partition}\t{number}" for partition, number in numbers.items())]
    while True:
        stat = await step.call(exists(host.table.mutations))
        assert stat is not None
        try:
            await step.multi(
                set_data(host.table.mutations, b"", stat.version),
                create(
                    f"{host.table.mutations}/", "\n".join(lines).encode(), CreateMode.PERSISTENT_SEQUENTIAL
                ),
                host.fence,
            )
        except MultiFailed as failed:
            if failed.failed == 0 and failed.code == ErrorCode.BAD_VERSION:
                continue
            raise
        break
    host.world.judge.mutation(numbers)
    await step.all(*(delete(lock) for lock in locks.values()))


async def _lock_all(host: Host, step: Step) -> dict[str, str]:
    """A block number in every partition at one instant: partition -> path."""
    judge = host.world.judge
    while True:
        partitions, stat = await step.call(children(host.table.block_numbers))
        floors = {partition: judge.floor(partition) for partition in partitions}
        try:
            *paths, _ = await step.multi(
                *(create_lock(host, partition) for partition in partitions),
                check(host.table.block_numbers, stat.version),
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


async def _registered(host: Host, identity: str) -> bool:
    """Whether a mutation of an earlier session is registered."""
    while True:
        try:
            with host.world.steps.step("search for a mutation", await host.session()) as step:
                names = (await step.call(children(host.table.mutations))).names
                found = await step.all(*(get(f"{host.table.mutations}/{name}") for name in names))
        except ConnectionLost:
            continue
        for each in found:
            if each.data.decode().split("\n")[0] == f"mutation: {identity}":
                host.world.judge.mutation(parse_mutation(each.data))
                return True
        return False
