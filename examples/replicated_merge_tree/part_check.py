"""Parts that are in ZooKeeper and not on the disk, and parts that no replica has.

A part whose files have disappeared is taken out of ZooKeeper and fetched from another replica. If no replica
has the part, or one that holds it or some of it, it will never come: an empty part takes its place, so that
what comes behind it in the queue can go on. `lost_part_count` counts these.
ClickHouse: ReplicatedMergeTreePartCheckThread.
"""

from examples.invariants import Violation
from examples.replicated_merge_tree import quorum
from examples.replicated_merge_tree.entries import DROP
from examples.replicated_merge_tree.parts import Part
from examples.replicated_merge_tree.replica import Replica
from examples.steps import Step
from lab.client.requests import Request, check, children, create, delete, exists, get, maybe, set_data
from lab.client.session import MultiFailed


async def check_parts(replica: Replica) -> None:
    """Look for missing parts whenever somebody has noticed one."""
    while True:
        await replica.to_check.wait()
        replica.to_check.clear()
        for part in sorted(replica.disk.missing):
            with replica.world.steps.step("part check", await replica.session()) as step:
                # While nothing is copied into the queue: a DROP would have to come behind the fetch.
                async with replica.queue_lock:
                    await _check(replica, step, part)


async def _check(replica: Replica, step: Step, part: Part) -> None:
    listed = await step.call(exists(replica.paths.part(part.text))) is not None
    if part not in replica.disk.missing:
        step.counts = False
    elif not listed:
        raise Violation("parts", f"{replica.name} has neither {part.text} nor its node")
    elif replica.disk.active.covering(part) or is_dropped(replica, part):
        replica.disk.give_up(part, 0.0)
    else:
        await replica.fetch_again(step, part)


def is_dropped(replica: Replica, part: Part) -> bool:
    """Whether the queue has a DROP that takes the part away."""
    return any(each.entry.kind == DROP and each.entry.part.covers(part) for each in replica.queue)


async def replace_lost_part(replica: Replica, step: Step, part: Part) -> bool:
    """Put an empty part in place of one that no replica has; False if it may still come.

    ClickHouse: createEmptyPartInsteadOfLost. Its multi creates and deletes the part's node at each replica,
    which fails where the node is there.
    """
    table = replica.table
    names, stat = await step.call(children(table.replicas))
    for name in names:
        listing = await step.call(maybe(children(table.replica(name).parts)))
        others = map(Part.parse, listing.names if listing is not None else ())
        if any(other.covers(part) or part.covers(other) for other in others):
            return False
    lost = await step.call(get(table.lost_part_count))
    requests: list[Request[object]] = [
        check(table.replicas, stat.version),
        set_data(table.lost_part_count, str(int(lost.data or 0) + 1).encode(), lost.stat.version),
    ]
    for name in names:
        path = table.replica(name).part(part.text)
        requests += [create(path), delete(path)]
    waiting = await quorum.waiting(step, table)
    if waiting is not None and waiting.status.part == part:
        requests += quorum.failure(table, waiting)
    if is_dropped(replica, part):
        return False
    try:
        await replica.give_up(step, part, *requests)
    except MultiFailed as failed:
        if failed.failed >= len(requests):
            raise
        return False  # something has changed meanwhile
    replica.queue.got(part)
    return True
