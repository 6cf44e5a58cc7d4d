"""What every replica does with the log: it copies the entries into its queue by multis, and executes them."""

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

from codec.constants import ErrorCode
from examples.invariants import Violation
from examples.replicated_merge_tree import quorum
from examples.replicated_merge_tree.entries import DROP, GET, MERGE, Entry
from examples.replicated_merge_tree.part_check import replace_lost_part
from examples.replicated_merge_tree.parts import Content, Part, digest, merged, mutated
from examples.replicated_merge_tree.paths import sequence_number
from examples.replicated_merge_tree.queue import Queued
from examples.replicated_merge_tree.replica import Replica
from examples.replicated_merge_tree.selection import missing_mutations
from examples.steps import Step
from examples.tree import BATCH
from lab.client.requests import Request, check, children, exists, get, maybe
from lab.client.session import ConnectionLost, MultiFailed, Session, Watch

_LONGEST_PAUSE_S = 3.0
"""Between two searches for a part that no replica has. A search asks for two nodes of every replica."""


class Pulled(NamedTuple):
    """What a look at the log returns."""

    version: int  # of the log's node, before anything was copied
    watch: Watch | None


async def copy_log(replica: Replica) -> None:
    """Copy new entries whenever the log changes."""
    while True:
        watch = (await pull(replica)).watch
        assert watch is not None
        await watch.wait()


async def pull(replica: Replica, *, watch: bool = True) -> Pulled:
    """Copy all entries that are in the log."""
    async with replica.queue_lock:
        with replica.world.steps.step("copy of the log", await replica.session()) as step:
            found = None
            if watch:
                (names, stat), found = await step.watched(children(replica.table.log))
            else:
                names, stat = await step.call(children(replica.table.log))
            new = sorted(name for name in names if sequence_number(name) >= replica.pointer)
            for start in range(0, len(new), BATCH):
                chunk = new[start : start + BATCH]
                entries = await step.all(*(get(f"{replica.table.log}/{name}") for name in chunk))
                await replica.copy(step, chunk, [each.data for each in entries])
            step.counts = bool(new)
        return Pulled(stat.version, found)


async def is_in_log(replica: Replica, identity: str) -> bool:
    """Whether an entry that this replica wanted to append in an earlier session is in the log."""
    while True:
        try:
            await pull(replica, watch=False)
        except ConnectionLost:
            continue
        return identity in replica.seen


async def execute_queue(replica: Replica) -> None:
    """Do what is in the queue, in order. What cannot be done yet waits; what comes behind it goes on."""
    while True:
        replica.work.clear()
        await replica.session()
        waits = False
        for queued in replica.queue:
            waits |= not await _execute(replica, queued)
        if waits:
            # What is missing comes from another replica, which tells nobody when it has it.
            try:
                async with asyncio.timeout(replica.world.settings.pause_s):
                    await replica.work.wait()
            except TimeoutError:
                pass
        else:
            await replica.work.wait()


async def _execute(replica: Replica, queued: Queued) -> bool:
    """Whether the entry is done, and out of the queue.

    All of it happens in one session: in the next one the replica may have another queue and other parts.
    """
    session, steps, entry = await replica.session(), replica.world.steps, queued.entry
    if not replica.queue.holds(queued):
        return True
    if entry.kind == DROP:
        with steps.step("drop of a range", session) as step:
            await _drop(replica, step, queued)
        return True
    if not replica.disk.active.covering(entry.part) and not await _make(replica, session, entry):
        return False
    with steps.step("end of a queue entry", session) as step:
        if entry.quorum and entry.source != replica.name:
            await quorum.count(replica, step, entry.part)
        await replica.remove_entries(step, [queued.node])
    return True


async def _make(replica: Replica, session: Session, entry: Entry) -> bool:
    """Whether the entry's part, or one that covers it, is there now."""
    steps = replica.world.steps
    if entry.part in replica.disk.pending or entry.part in replica.disk.missing:
        return False
    if entry.kind != GET and all(source in replica.disk.active for source in entry.sources):
        with steps.step(entry.kind, session) as step:
            await _agree_and_commit(replica, step, entry.part, await _made(replica, step, entry))
        return True
    before, pause = replica.postponed.get(entry.identity, (0.0, 0.0))
    if time.monotonic() < before:
        return False
    with steps.step("fetch", session) as step:
        step.counts = found = await _fetch(replica, step, entry)
    if not found and pause and entry.kind == GET:
        with steps.step("search for a lost part", session) as step:
            step.counts = found = await replace_lost_part(replica, step, entry.part)
    if found:
        replica.postponed.pop(entry.identity, None)
    else:
        pause = min(max(2 * pause, replica.world.settings.pause_s), _LONGEST_PAUSE_S)
        replica.postponed[entry.identity] = (time.monotonic() + pause, pause)
    return found


async def _made(replica: Replica, step: Step, entry: Entry) -> Content:
    """What a merge or a mutation makes of parts that are here."""
    contents = [content for source in entry.sources if (content := replica.disk.content(source)) is not None]
    if entry.kind == MERGE:
        return merged(contents)
    partition = entry.part.partition
    if not any(numbers.get(partition) == entry.part.mutation for numbers in replica.mutations.values()):
        await load_mutations(replica, step)
    numbers = [n[partition] for n in replica.mutations.values() if partition in n]
    wanted = [n for n in missing_mutations(entry.sources[0], numbers) if n <= entry.part.mutation]
    return mutated(contents[0], wanted)


async def follow_mutations(replica: Replica) -> None:
    """Read new mutations whenever there are some."""
    while True:
        with replica.world.steps.step("look at the mutations", await replica.session()) as step:
            (names, _), watch = await step.watched(children(replica.table.mutations))
            await _read_mutations(replica, step, names)
        await watch.wait()


async def load_mutations(replica: Replica, step: Step) -> None:
    """Read the mutations that are new now."""
    await _read_mutations(replica, step, (await step.call(children(replica.table.mutations))).names)


async def _read_mutations(replica: Replica, step: Step, listed: Sequence[str]) -> None:
    names = sorted(set(listed) - replica.mutations.keys())
    found = await step.all(*(get(f"{replica.table.mutations}/{name}") for name in names))
    for name, each in zip(names, found, strict=True):
        replica.mutations[name] = parse_mutation(each.data)


def parse_mutation(data: bytes) -> dict[str, int]:
    """The block numbers of a mutation's node: partition -> number."""
    numbers = {}
    for line in data.decode().split("\n"):
        partition, tab, number = line.partition("\t")
        if tab:
            numbers[partition] = int(number)
    return numbers


async def _agree_and_commit(
    replica: Replica, step: Step, part: Part, content: Content, *more: Request[None]
) -> None:
    """Compare the part with that of another replica, and make it one of the table's by one multi.

    Raises MultiFailed if one of the parts of the multi that come first (`more`) fails.
    """
    others = (await step.call(children(replica.table.replicas))).names
    replica.random.shuffle(others)
    for name in others:
        if name == replica.name:
            continue
        header = await step.call(maybe(get(replica.table.replica(name).part(part.text))))
        if header is None:
            continue
        if header.data.decode().rpartition(" ")[2] != digest(content):
            raise Violation("content", f"{part.text} differs between {replica.name} and {name} in ZooKeeper")
        break
    try:
        await replica.commit(step, part, content, *more)
    except MultiFailed as failed:
        if failed.failed == len(more) and failed.code == ErrorCode.NODE_EXISTS:
            raise Violation(
                "parts", f"{replica.name} has {part.text} in ZooKeeper but not on its disk"
            ) from failed
        raise
    replica.queue.got(part)


class _Source(NamedTuple):
    holder: Replica
    part: Part


async def _fetch(replica: Replica, step: Step, entry: Entry) -> bool:
    """Get the part, or the largest one that covers it, from an active replica that has it."""
    source = await _find_source(replica, step, entry.part)
    if source is None:
        return False
    holder, part = source
    await step.call(maybe(get(holder.paths.host)))  # a replica that is made anew has none at times
    await asyncio.sleep(0)  # the transfer between the servers
    content = holder.disk.content(part)
    if content is None or part in holder.disk.pending or part in replica.disk.missing:
        holder.notice_missing(part)
        return False
    if part not in replica.disk.parts():
        still_there = check(holder.paths.part(part.text))
        try:
            await _agree_and_commit(replica, step, part, content, still_there)
        except MultiFailed as failed:
            if (failed.failed, failed.code) != (0, ErrorCode.NO_NODE):
                raise
            return False  # the other replica has lost it, or does not need it any more
    return True


async def _find_source(replica: Replica, step: Step, part: Part) -> _Source | None:
    replicas = (await step.call(children(replica.table.replicas))).names
    replica.random.shuffle(replicas)
    for name in replicas:
        if name == replica.name:
            continue
        paths = replica.table.replica(name)
        if await step.call(exists(paths.is_active)) is None:
            continue
        listing = await step.call(maybe(children(paths.parts)))
        parts = map(Part.parse, listing.names if listing is not None else ())
        covering = [each for each in parts if each.covers(part)]
        if covering:
            largest = max(covering, key=lambda each: each.high - each.low)
            return _Source(replica.table.members[name], largest)
    return None


async def _drop(replica: Replica, step: Step, queued: Queued) -> None:
    """Delete all parts of a range, and the entries before it that would make such parts."""
    dropped = queued.entry.part
    gone = replica.disk.drop(dropped.partition, dropped.high, time.monotonic())
    await replica.remove_outdated(step, gone)
    obsolete = [each.node for each in replica.queue.obsolete_by(queued)]
    await replica.remove_entries(step, [*obsolete, queued.node])


async def tidy(replica: Replica) -> None:
    """Delete what outdated parts have left in ZooKeeper."""
    settings = replica.world.settings
    while True:
        await asyncio.sleep(settings.pause_s)
        before = time.monotonic() - settings.old_parts_s
        old = [part for part, since in replica.disk.outdated.items() if since < before]
        if old:
            with replica.world.steps.step("removal of old parts", await replica.session()) as step:
                await replica.remove_outdated(step, old)
