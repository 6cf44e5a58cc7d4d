"""What only the leader does: it chooses merges and mutations of parts, and cleans the log and the blocks up.

The leader is the replica with the lowest ephemeral sequential node (ClickHouse: LeaderElection). Nothing
depends on there being one leader only: an entry for a merge is appended together with a new version of the
log's node, so that of two leaders who choose from the same state one has to look again.
"""

import asyncio
import time

from codec.constants import CreateMode, ErrorCode
from examples.client import ConnectionLost, MultiFailed
from examples.invariants import Violation
from examples.replicated_merge_tree.entries import MERGE, MUTATE, Entry
from examples.replicated_merge_tree.host import BATCH, Host, numbers_taken
from examples.replicated_merge_tree.parts import Part
from examples.replicated_merge_tree.paths import sequence_number
from examples.replicated_merge_tree.replication import load_mutations, pull
from examples.replicated_merge_tree.selection import Known, choose_merge, choose_mutation, merge_result
from examples.requests import children, create, delete, exists, get, maybe, set_data
from examples.steps import Step


async def lead(host: Host) -> None:
    """Wait to be the leader, and be it as long as the session lives."""
    session = await host.session()
    with host.world.steps.step("leader election", session) as step:
        path = await step.call(
            create(
                f"{host.table.leader_election}/leader_election-",
                host.name.encode(),
                CreateMode.EPHEMERAL_SEQUENTIAL,
            )
        )
    ours = path.rpartition("/")[2]
    while True:
        names = sorted((await session.call(children(host.table.leader_election))).names)
        if ours not in names:
            raise Violation("leader", f"{path} is gone, its session lives")
        place = names.index(ours)
        if place == 0:
            break
        found, watch = await session.watched(exists(f"{host.table.leader_election}/{names[place - 1]}"))
        if found is not None:
            await watch.wait()
    host.world.judge.leader(host.name, sequence_number(ours))
    cleaned = time.monotonic()
    while not session.lost.is_set():
        if not await _choose(host):
            await asyncio.sleep(host.world.settings.pause_s)
        if time.monotonic() - cleaned > host.world.settings.cleanup_s:
            await _clean_up(host)
            cleaned = time.monotonic()
    raise ConnectionLost("the leader's session is over")


async def _choose(host: Host) -> bool:
    """Append one entry for a merge or a mutation; False if there is nothing to choose."""
    with host.world.steps.step("choice of a merge", await host.session()) as step:
        parts = list(host.disk.active)
        taken = await _taken(host, step)
        status = await step.call(maybe(get(host.table.quorum_status)))
        waiting = [Part.parse(status.data.decode().split("\n")[0])] if status is not None else []
        version = (await pull(host, watch=False)).version
        await load_mutations(host, step)
        mutations: dict[str, list[int]] = {}
        for numbers in host.mutations.values():
            for partition, number in numbers.items():
                mutations.setdefault(partition, []).append(number)
        known = Known(parts, taken, host.queue.future, mutations, waiting)
        entry = _entry(host, known)
        if entry is None:
            step.counts = False
            return False
        found = await step.all(*(exists(host.paths.part(source.text)) for source in entry.sources))
        for source, stat in zip(entry.sources, found, strict=True):
            if stat is None and source in host.disk.active:
                raise Violation("parts", f"{host.name} has {source.text} on its disk but not in ZooKeeper")
        if None in found:
            step.counts = False
            return False
        try:
            await step.multi(
                create(f"{host.table.log}/log-", entry.encode(), CreateMode.PERSISTENT_SEQUENTIAL),
                set_data(host.table.log, b"", version),
            )
        except MultiFailed as failed:
            if failed.code != ErrorCode.BAD_VERSION:
                raise
        return True


async def _taken(host: Host, step: Step) -> dict[str, list[int]]:
    partitions = (await step.call(children(host.table.block_numbers))).names
    found = await step.all(*(children(host.table.numbers(partition)) for partition in partitions))
    return {partition: numbers_taken(each.names) for partition, each in zip(partitions, found, strict=True)}


def _entry(host: Host, known: Known) -> Entry | None:
    settings = host.world.settings
    sources = choose_merge(known, settings.most_to_merge)
    if len(sources) >= settings.least_to_merge and not host.world.resting:
        return Entry(MERGE, merge_result(sources), host.name, host.world.identity(), sources)
    change = choose_mutation(known)
    if change is not None:
        return Entry(MUTATE, change[1], host.name, host.world.identity(), (change[0],))
    return None


async def _clean_up(host: Host) -> None:
    """Delete entries that all replicas have copied, and all blocks but the newest ones."""
    with host.world.steps.step("clean-up", await host.session()) as step:
        replicas = (await step.call(children(host.table.replicas))).names
        pointers = await step.all(*(get(host.table.replica(name).log_pointer) for name in replicas))
        lowest = min(int(pointer.data) for pointer in pointers)
        log = (await step.call(children(host.table.log))).names
        await _delete(step, [f"{host.table.log}/{name}" for name in log if sequence_number(name) < lowest])
        blocks = (await step.call(children(host.table.blocks))).names
        if len(blocks) > host.world.settings.window:
            stats = await step.all(*(exists(host.table.block(name)) for name in blocks))
            ages = sorted((stat.czxid, name) for name, stat in zip(blocks, stats, strict=True) if stat)
            old = [name for _, name in ages[: -host.world.settings.window]]
            host.world.judge.forgotten(name.partition("_")[2] for name in old)
            await _delete(step, [host.table.block(name) for name in old])


async def _delete(step: Step, paths: list[str]) -> None:
    """Delete nodes that others may delete too: by multis, and one by one where a multi fails."""
    for start in range(0, len(paths), BATCH):
        chunk = paths[start : start + BATCH]
        try:
            await step.multi(*(delete(path) for path in chunk))
        except MultiFailed:
            await step.all(*(maybe(delete(path)) for path in chunk))
