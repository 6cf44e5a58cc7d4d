"""What hosts lose while the others go on: files of parts, a disk, or so much time that their log is gone."""

import asyncio
import random
from collections.abc import Sequence
from enum import Enum

from examples.replicated_merge_tree.host import Host
from examples.replicated_merge_tree.inserts import insert
from examples.replicated_merge_tree.load import new_batch
from examples.replicated_merge_tree.parts import Part
from examples.replicated_merge_tree.replica import Replica
from examples.replicated_merge_tree.world import World
from lab.client.requests import get, maybe
from lab.client.session import ConnectionLost

_PARTS = 3


class Loss(Enum):
    """How something is lost."""

    SOME_PARTS = "files of parts"
    NEWEST_PART = "the files of a part that no other replica has yet"
    DISK = "a host with its disk"
    FOR_LONG = "a host, for longer than the log is kept"


async def lose(world: World, hosts: Sequence[Host], count: int) -> None:
    """Lose something so many times, one after the other; return when the hosts are back.

    A host is lost only if another one has the same tables: else nobody could clone it.
    """
    chance = random.Random(f"{world.seed} losses")
    shared = [host for host in hosts if len(host.replicas[0].table.members) > 1]
    kinds = list(Loss)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        replica = chance.choice(chance.choice(hosts).replicas)
        if kind == Loss.SOME_PARTS:
            active = sorted(replica.disk.active)
            await _lose_parts(replica, chance.sample(active, min(_PARTS, len(active))))
        elif kind == Loss.NEWEST_PART:
            await _lose_for_ever(replica)
        elif shared:
            host = chance.choice(shared)
            host.die(with_disk=kind == Loss.DISK)
            if kind == Loss.FOR_LONG:
                await _until_marked(chance.choice(host.replicas))
            host.come_back()
            await host.session()


async def _lose_parts(replica: Replica, parts: Sequence[Part]) -> None:
    """A user reads them, and the files are not there. Return when they were fetched again, or given up."""
    for part in parts:
        replica.disk.lose(part)
        replica.notice_missing(part)
    while True:
        await asyncio.sleep(replica.world.settings.pause_s)
        queued = {each.entry.part for each in replica.queue}
        if not {*replica.disk.missing, *queued}.intersection(parts):
            return


async def _lose_for_ever(replica: Replica) -> None:
    """Insert and lose the part at once, until one is lost for ever: no other replica was fetching it."""
    table, before = replica.table, replica.table.judge.parts_lost
    while table.judge.parts_lost == before:
        part = await insert(replica, new_batch(replica))
        if part and part in replica.disk.active and table.having_rows_of(part) == {replica.name}:
            await _lose_parts(replica, [part])


async def _until_marked(lost: Replica) -> None:
    """Insert at another replica until the one that is away is marked as lost."""
    other = next(each for name, each in lost.table.members.items() if name != lost.name)
    while True:
        session = await other.session()
        try:
            found = await session.call(maybe(get(lost.paths.is_lost)))
        except ConnectionLost:
            continue
        if found is not None and found.data == b"1":
            return
        await insert(other, new_batch(other))
        await asyncio.sleep(other.world.pause_s / 4)  # each part is one that the clone has to fetch
