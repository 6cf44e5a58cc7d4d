"""Lost replicas: who says that they are lost, and how they become like the others again.

A replica that stays away must not keep the log from being cleaned up. So the leader marks it as lost once it
is too far behind. When it comes back it is cloned: it takes over the log pointer and the queue of another
replica, and fetches all parts which that one has. A replica whose disk is lost is dropped and made anew:
users of ClickHouse do so by SYSTEM DROP REPLICA and CREATE TABLE. A new replica is lost from the beginning.
"""

from collections.abc import Sequence
from typing import NamedTuple

from codec.constants import ErrorCode
from examples.invariants import Violation
from examples.replicated_merge_tree import quorum
from examples.replicated_merge_tree.entries import Entry
from examples.replicated_merge_tree.parts import Part, PartSet
from examples.replicated_merge_tree.paths import ReplicaPaths
from examples.replicated_merge_tree.queue import Queue, Queued
from examples.replicated_merge_tree.replica import Replica
from examples.steps import Step
from examples.tree import BATCH, delete_all, paths_below
from lab.client.requests import Request, check, children, create, delete, exists, get, maybe, multi, set_data
from lab.client.session import MultiFailed

_LOST = b"1"


async def begin(replica: Replica, step: Step) -> None:
    """What a replica does in a new session, before anything else."""
    await replica.compare_parts(step)
    if replica.disk_lost:
        await _make_anew(replica, step)
    await replica.activate(step)
    if (await step.call(get(replica.paths.is_lost))).data != _LOST:
        await replica.compare_queue(step)
    else:
        with replica.world.steps.step("clone of a replica", step.session) as cloning:
            await _clone(replica, cloning)
    await quorum.count_what_is_here(replica, step)


async def _make_anew(replica: Replica, step: Step) -> None:
    """Drop what an earlier replica of this name has left, and create the replica, which is lost then."""
    below = await paths_below(step.session, replica.paths.root)
    await delete_all(step.call, below[:0:-1])
    await step.multi(delete(replica.paths.root), *creation(replica, lost=True), replica.fence)
    replica.disk_lost = False


def creation(replica: Replica, *, lost: bool) -> list[Request[object]]:
    """The nodes of a new replica. Others see by the version of `replicas` that there is one more."""
    last_added = set_data(replica.table.replicas, f"last added replica: {replica.name}".encode())
    nodes = replica.paths.every(lost=lost).items()
    return [last_added, *(create(path, data) for path, data in nodes)]


class _Source(NamedTuple):
    paths: ReplicaPaths
    is_lost_version: int
    pointer: int
    queue_length: int


async def _clone(replica: Replica, step: Step) -> None:
    """Become like another replica: cloneReplicaIfNeeded. If it ends early, the next session begins again."""
    queue = replica.paths.queue
    left = sorted((await step.call(children(queue))).names)
    await _in_batches(replica, step, [delete(f"{queue}/{node}") for node in left])
    source, entries = await _take_pointer(replica, step)
    names = (await step.call(children(source.paths.parts))).names
    waiting = await quorum.waiting(step, replica.table)
    theirs = PartSet(map(Part.parse, names))
    # Parts that the other replica neither has nor will have were dropped.
    future = Queue(theirs, (Queued(str(number), entry) for number, entry in enumerate(entries))).future
    needless = [part for part in replica.disk.parts() if not future.covering(part)]
    await replica.remove_parts(step, {*needless, *replica.disk.missing})
    missing = [part for part in theirs if not replica.disk.active.covering(part)]
    required = {waiting.status.part: waiting.status.required} if waiting is not None else {}
    fetches = [replica.entry_to_get(part, required.get(part, 0)) for part in sorted(missing)]
    queued = [replica.queue_node(entry.encode()) for entry in [*fetches, *entries]]
    await _in_batches(replica, step, queued)
    await replica.take_cloned_queue(step)
    await step.multi(set_data(replica.paths.is_lost, b"0"), replica.fence)


async def _source(replica: Replica, step: Step) -> _Source:
    """The replica that is not lost and has come farthest in the log, with the shortest queue."""
    found = []
    for name in (await step.call(children(replica.table.replicas))).names:
        paths = replica.table.replica(name)
        if name == replica.name:
            continue
        is_lost, pointer = await step.all(maybe(get(paths.is_lost)), maybe(get(paths.log_pointer)))
        queue = await step.call(maybe(children(paths.queue)))
        if is_lost is not None and is_lost.data != _LOST and pointer is not None and queue is not None:
            found.append(_Source(paths, is_lost.stat.version, int(pointer.data), len(queue.names)))
    if not found:
        raise Violation("lost-replica", f"all replicas of {replica.table.root} are lost")
    return max(found, key=lambda each: (each.pointer, -each.queue_length))


async def _take_pointer(replica: Replica, step: Step) -> tuple[_Source, list[Entry]]:
    """Set the log pointer to that of another replica; this one, and the queue which it has with the pointer.

    From here on the log is kept from this pointer on: this replica is active, although lost.
    """
    while True:
        source = await _source(replica, step)
        pointer = await step.call(get(source.paths.log_pointer))
        nodes = sorted((await step.call(children(source.paths.queue))).names)
        # The last one first: the replica takes entries out of its queue that a DROP makes needless, and then
        # the DROP. So whoever gets one of these has got the DROP.
        found = await step.all(*(maybe(get(f"{source.paths.queue}/{node}")) for node in reversed(nodes)))
        try:
            await step.multi(
                set_data(replica.paths.log_pointer, pointer.data),
                check(source.paths.is_lost, source.is_lost_version),
                check(source.paths.log_pointer, pointer.stat.version),
                replica.fence,
            )
        except MultiFailed as failed:
            if failed.failed in (1, 2) and failed.code in (ErrorCode.NO_NODE, ErrorCode.BAD_VERSION):
                continue  # it is lost itself, or has copied entries meanwhile
            raise
        return source, [Entry.decode(entry.data) for entry in reversed(found) if entry is not None]


async def _in_batches(replica: Replica, step: Step, requests: Sequence[Request[object]]) -> None:
    """Many requests of one kind, in multis of the current session."""
    for start in range(0, len(requests), BATCH):
        await step.multi(*requests[start : start + BATCH], replica.fence)


async def mark_lost(replica: Replica, step: Step, first_kept: int) -> int | None:
    """Mark replicas that are away and behind this entry of the log; the first entry that others need.

    None: the replicas are changing now. ClickHouse: ReplicatedMergeTreeCleanupThread::clearOldLogs.
    """
    needed: list[int] = []
    for name in (await step.call(children(replica.table.replicas))).names:
        paths = replica.table.replica(name)
        host = await step.call(maybe(get(paths.host)))  # first: it changes when the replica becomes active
        is_lost, pointer = await step.all(maybe(get(paths.is_lost)), maybe(get(paths.log_pointer)))
        active = await step.call(exists(paths.is_active)) is not None
        if host is None or is_lost is None or pointer is None:
            return None
        number = int(pointer.data)
        if active or (is_lost.data != _LOST and number >= first_kept):
            needed.append(number)
        elif is_lost.data != _LOST:
            mark = [check(paths.host, host.stat.version), set_data(paths.is_lost, _LOST), replica.fence]
            try:
                await step.call(multi(mark))
            except MultiFailed as failed:
                if failed.code not in (ErrorCode.NO_NODE, ErrorCode.BAD_VERSION):
                    raise
                return None  # it is back
    return min(needed, default=0)
