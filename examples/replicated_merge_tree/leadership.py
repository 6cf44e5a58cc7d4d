"""What only the leader does: it chooses merges and mutations of parts, and cleans the log and the blocks up.

The leader is the replica with the lowest ephemeral sequential node (ClickHouse: LeaderElection). Nothing
depends on there being one leader only: an entry for a merge is appended together with a new version of the
log's node, so that of two leaders who choose from the same state one has to look again.
"""

import asyncio
import time

from codec.constants import CreateMode, ErrorCode
from examples.invariants import Violation
from examples.replicated_merge_tree import quorum
from examples.replicated_merge_tree.entries import MERGE, MUTATE, Entry
from examples.replicated_merge_tree.paths import sequence_number
from examples.replicated_merge_tree.recovery import mark_lost
from examples.replicated_merge_tree.replica import Replica, numbers_taken
from examples.replicated_merge_tree.replication import load_mutations, pull
from examples.replicated_merge_tree.selection import Known, choose_merge, choose_mutation, merge_result
from examples.steps import Step
from examples.tree import delete_all
from lab.client.requests import children, create, exists, set_data
from lab.client.session import ConnectionLost, MultiFailed


async def lead(replica: Replica) -> None:
    """Wait to be the leader, and be it as long as the session lives."""
    session = await replica.session()
    with replica.world.steps.step("leader election", session) as step:
        path = await step.call(
            create(
                f"{replica.table.leader_election}/leader_election-",
                replica.name.encode(),
                CreateMode.EPHEMERAL_SEQUENTIAL,
            )
        )
    ours = path.rpartition("/")[2]
    while True:
        names = sorted((await session.call(children(replica.table.leader_election))).names)
        if ours not in names:
            raise Violation("leader", f"{path} is gone, its session lives")
        place = names.index(ours)
        if place == 0:
            break
        found, watch = await session.watched(exists(f"{replica.table.leader_election}/{names[place - 1]}"))
        if found is not None:
            await watch.wait()
    replica.table.judge.leader(replica.name, sequence_number(ours))
    cleaned = time.monotonic()
    while not session.lost.is_set():
        if not await _choose(replica):
            await asyncio.sleep(replica.world.settings.pause_s)
        if time.monotonic() - cleaned > replica.world.settings.cleanup_s:
            await _clean_up(replica)
            cleaned = time.monotonic()
    raise ConnectionLost("the leader's session is over")


async def _choose(replica: Replica) -> bool:
    """Append one entry for a merge or a mutation; False if there is nothing to choose.

    What the replica knows already says whether it is worth asking ZooKeeper what may still come.
    """
    parts = list(replica.disk.active)
    if _entry(replica, Known(parts, {}, replica.queue.future, _mutations(replica))) is None:
        return False
    with replica.world.steps.step("choice of a merge", await replica.session()) as step:
        taken = await _taken(replica, step)
        found = await quorum.waiting(step, replica.table)
        waiting = [found.status.part] if found is not None else []
        version = (await pull(replica, watch=False)).version
        await load_mutations(replica, step)
        known = Known(parts, taken, replica.queue.future, _mutations(replica), waiting)
        entry = _entry(replica, known)
        if entry is None:
            step.counts = False
            return False
        stats = await step.all(*(exists(replica.paths.part(source.text)) for source in entry.sources))
        for source, stat in zip(entry.sources, stats, strict=True):
            if stat is None and source in replica.disk.active:
                raise Violation("parts", f"{replica.name} has {source.text} on its disk but not in ZooKeeper")
        if None in stats:
            step.counts = False
            return False
        try:
            await step.multi(
                create(f"{replica.table.log}/log-", entry.encode(), CreateMode.PERSISTENT_SEQUENTIAL),
                set_data(replica.table.log, b"", version),
            )
        except MultiFailed as failed:
            if failed.code != ErrorCode.BAD_VERSION:
                raise
        return True


def _mutations(replica: Replica) -> dict[str, list[int]]:
    """Partition -> the block numbers of its mutations."""
    found: dict[str, list[int]] = {}
    for numbers in replica.mutations.values():
        for partition, number in numbers.items():
            found.setdefault(partition, []).append(number)
    return found


async def _taken(replica: Replica, step: Step) -> dict[str, list[int]]:
    partitions = (await step.call(children(replica.table.block_numbers))).names
    found = await step.all(*(children(replica.table.numbers(partition)) for partition in partitions))
    return {partition: numbers_taken(each.names) for partition, each in zip(partitions, found, strict=True)}


def _entry(replica: Replica, known: Known) -> Entry | None:
    settings = replica.world.settings
    sources = choose_merge(known, settings.most_to_merge)
    if len(sources) >= settings.least_to_merge and not replica.world.resting:
        return Entry(MERGE, merge_result(sources), replica.name, replica.world.identity(), sources)
    change = choose_mutation(known)
    if change is not None:
        return Entry(MUTATE, change[1], replica.name, replica.world.identity(), (change[0],))
    return None


async def _clean_up(replica: Replica) -> None:
    """Delete entries that all replicas have copied, and all blocks but the newest ones."""
    with replica.world.steps.step("clean-up", await replica.session()) as step:
        log = sorted((await step.call(children(replica.table.log))).names)
        if log:
            first_kept = sequence_number(log[-1]) + 1 - replica.world.settings.logs_to_keep
            needed = await mark_lost(replica, step, first_kept)
            old = [name for name in log if needed is not None and sequence_number(name) < needed]
            await delete_all(step.call, [f"{replica.table.log}/{name}" for name in old])
        blocks = (await step.call(children(replica.table.blocks))).names
        if len(blocks) > replica.world.settings.window:
            stats = await step.all(*(exists(replica.table.block(name)) for name in blocks))
            ages = sorted((stat.czxid, name) for name, stat in zip(blocks, stats, strict=True) if stat)
            old = [name for _, name in ages[: -replica.world.settings.window]]
            replica.table.judge.forgotten(name.partition("_")[2] for name in old)
            await delete_all(step.call, [replica.table.block(name) for name in old])
