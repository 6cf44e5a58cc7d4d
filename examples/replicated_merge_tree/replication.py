"""What every replica does with the log: it copies the entries into its queue by multis, and executes them."""

import asyncio
import time
from typing import NamedTuple

from codec.constants import ErrorCode
from examples.client import ConnectionLost, MultiFailed, Watch
from examples.invariants import Violation
from examples.replicated_merge_tree.entries import DROP, GET, MERGE, Entry
from examples.replicated_merge_tree.host import BATCH, Host
from examples.replicated_merge_tree.parts import Content, Part, digest, merged, mutated
from examples.replicated_merge_tree.paths import sequence_number
from examples.replicated_merge_tree.queue import Queued
from examples.replicated_merge_tree.selection import missing_mutations
from examples.requests import children, delete, exists, get, maybe, set_data
from examples.steps import Step

_LONGEST_PAUSE_S = 3.0
"""Between two searches for a part that no replica has. A search asks for two nodes of every replica."""


class Pulled(NamedTuple):
    """What a look at the log returns."""

    version: int  # of the log's node, before anything was copied
    watch: Watch | None


async def copy_log(host: Host) -> None:
    """Copy new entries whenever the log changes."""
    while True:
        watch = (await pull(host)).watch
        assert watch is not None
        await watch.wait()


async def pull(host: Host, *, watch: bool = True) -> Pulled:
    """Copy all entries that are in the log."""
    async with host.pull_lock:
        with host.world.steps.step("copy of the log", await host.session()) as step:
            found = None
            if watch:
                (names, stat), found = await step.watched(children(host.table.log))
            else:
                names, stat = await step.call(children(host.table.log))
            new = sorted(name for name in names if sequence_number(name) >= host.pointer)
            for start in range(0, len(new), BATCH):
                chunk = new[start : start + BATCH]
                entries = await step.all(*(get(f"{host.table.log}/{name}") for name in chunk))
                await host.copy(step, chunk, [each.data for each in entries])
            step.counts = bool(new)
        return Pulled(stat.version, found)


async def is_in_log(host: Host, identity: str) -> bool:
    """Whether an entry that this host wanted to append in an earlier session is in the log."""
    while True:
        try:
            await pull(host, watch=False)
        except ConnectionLost:
            continue
        return identity in host.seen


async def execute_queue(host: Host) -> None:
    """Do what is in the queue, in order. What cannot be done yet waits; what comes behind it goes on."""
    while True:
        host.work.clear()
        await host.session()
        waits = False
        for queued in host.queue:
            if queued.node in host.queue:
                waits |= not await _execute(host, queued)
        if waits:
            # What is missing comes from another replica, which tells nobody when it has it.
            try:
                async with asyncio.timeout(host.world.settings.pause_s):
                    await host.work.wait()
            except TimeoutError:
                pass
        else:
            await host.work.wait()


async def _execute(host: Host, queued: Queued) -> bool:
    """Whether the entry is done, and out of the queue."""
    entry = queued.entry
    if entry.kind == DROP:
        with host.world.steps.step("drop of a range", await host.session()) as step:
            await _drop(host, step, queued)
        return True
    if not host.disk.active.covering(entry.part) and not await _make(host, entry):
        return False
    with host.world.steps.step("end of a queue entry", await host.session()) as step:
        if entry.quorum and entry.source != host.name:
            await _count_for_quorum(host, step, entry.part)
        await host.remove_entries(step, [queued.node])
    return True


async def _make(host: Host, entry: Entry) -> bool:
    """Whether the entry's part, or one that covers it, is there now."""
    if entry.part in host.disk.pending:
        return False
    if entry.kind != GET and all(source in host.disk.active for source in entry.sources):
        with host.world.steps.step(entry.kind, await host.session()) as step:
            await _agree_and_commit(host, step, entry.part, await _made(host, step, entry))
        return True
    before, pause = host.postponed.get(entry.identity, (0.0, 0.0))
    if time.monotonic() < before:
        return False
    with host.world.steps.step("fetch", await host.session()) as step:
        step.counts = await _fetch(host, step, entry)
    if step.counts:
        host.postponed.pop(entry.identity, None)
    else:
        pause = min(max(2 * pause, host.world.settings.pause_s), _LONGEST_PAUSE_S)
        host.postponed[entry.identity] = (time.monotonic() + pause, pause)
    return step.counts


async def _made(host: Host, step: Step, entry: Entry) -> Content:
    """What a merge or a mutation makes of parts that are here."""
    contents = [content for source in entry.sources if (content := host.disk.content(source)) is not None]
    if entry.kind == MERGE:
        return merged(contents)
    partition = entry.part.partition
    if not any(numbers.get(partition) == entry.part.mutation for numbers in host.mutations.values()):
        await load_mutations(host, step)
    numbers = [n[partition] for n in host.mutations.values() if partition in n]
    wanted = [n for n in missing_mutations(entry.sources[0], numbers) if n <= entry.part.mutation]
    return mutated(contents[0], wanted)


async def load_mutations(host: Host, step: Step) -> None:
    """Read the mutations that are new."""
    names = sorted(set((await step.call(children(host.table.mutations))).names) - host.mutations.keys())
    found = await step.all(*(get(f"{host.table.mutations}/{name}") for name in names))
    for name, each in zip(names, found, strict=True):
        host.mutations[name] = parse_mutation(each.data)


def parse_mutation(data: bytes) -> dict[str, int]:
    """The block numbers of a mutation's node: partition -> number."""
    numbers = {}
    for line in data.decode().split("\n"):
        partition, tab, number = line.partition("\t")
        if tab:
            numbers[partition] = int(number)
    return numbers


async def _agree_and_commit(host: Host, step: Step, part: Part, content: Content) -> None:
    """Compare the part with that of another replica, and make it one of the table's."""
    others = (await step.call(children(host.table.replicas))).names
    host.random.shuffle(others)
    for name in others:
        if name == host.name:
            continue
        header = await step.call(maybe(get(host.table.replica(name).part(part.text))))
        if header is None:
            continue
        if header.data.decode().rpartition(" ")[2] != digest(content):
            raise Violation("content", f"{part.text} differs between {host.name} and {name} in ZooKeeper")
        break
    try:
        await host.commit(step, part, content)
    except MultiFailed as failed:
        if failed.failed == 0 and failed.code == ErrorCode.NODE_EXISTS:
            raise Violation(
                "parts", f"{host.name} has {part.text} in ZooKeeper but not on its disk"
            ) from failed
        raise
    host.queue.got(part)


class _Source(NamedTuple):
    host: Host
    part: Part


async def _fetch(host: Host, step: Step, entry: Entry) -> bool:
    """Get the part, or the largest one that covers it, from an active replica that has it."""
    source = await _find_source(host, step, entry.part)
    if source is None:
        return False
    await step.call(get(host.table.replica(source.host.name).host))
    await asyncio.sleep(0)  # the transfer between the servers
    content = source.host.disk.content(source.part)
    if content is None or source.part in host.disk.pending:
        return False
    if source.part not in host.disk.parts():
        await _agree_and_commit(host, step, source.part, content)
    return True


async def _find_source(host: Host, step: Step, part: Part) -> _Source | None:
    replicas = (await step.call(children(host.table.replicas))).names
    host.random.shuffle(replicas)
    for name in replicas:
        if name == host.name:
            continue
        paths = host.table.replica(name)
        if await step.call(exists(paths.is_active)) is None:
            continue
        parts = [Part.parse(each) for each in (await step.call(children(paths.parts))).names]
        covering = [each for each in parts if each.covers(part)]
        if covering:
            return _Source(host.world.hosts[name], max(covering, key=lambda each: each.high - each.low))
    return None


async def _count_for_quorum(host: Host, step: Step, part: Part) -> None:
    """Add this replica to the quorum's status; the one that completes it deletes the status."""
    while True:
        found = await step.call(maybe(get(host.table.quorum_status)))
        if found is None:
            return
        name, required, *replicas = found.data.decode().split("\n")
        if name != part.text or host.name in replicas:
            return
        replicas.append(host.name)
        try:
            if len(replicas) >= int(required):
                await step.multi(
                    delete(host.table.quorum_status, found.stat.version),
                    set_data(host.table.quorum_last, name.encode()),
                )
            else:
                data = "\n".join([name, required, *replicas]).encode()
                await step.multi(set_data(host.table.quorum_status, data, found.stat.version))
        except MultiFailed as failed:
            if failed.code not in (ErrorCode.NO_NODE, ErrorCode.BAD_VERSION):
                raise
        else:
            return


async def _drop(host: Host, step: Step, queued: Queued) -> None:
    """Delete all parts of a range, and the entries before it that would make such parts."""
    dropped = queued.entry.part
    gone = host.disk.drop(dropped.partition, dropped.high, time.monotonic())
    await host.remove_parts(step, gone)
    obsolete = [each.node for each in host.queue.obsolete_by(queued)]
    await host.remove_entries(step, [*obsolete, queued.node])


async def tidy(host: Host) -> None:
    """Delete what outdated parts have left in ZooKeeper."""
    settings = host.world.settings
    while True:
        await asyncio.sleep(settings.pause_s)
        before = time.monotonic() - settings.old_parts_s
        old = [part for part, since in host.disk.outdated.items() if since < before]
        if old:
            with host.world.steps.step("removal of old parts", await host.session()) as step:
                await host.remove_parts(step, old)
