"""What hosts lose while the others go on: files of parts, a disk, or so much time that their log is gone."""

import asyncio
import random
from collections.abc import Sequence
from enum import Enum

from examples.client import ConnectionLost
from examples.replicated_merge_tree.host import Host
from examples.replicated_merge_tree.inserts import insert
from examples.replicated_merge_tree.load import new_batch
from examples.replicated_merge_tree.parts import Part
from examples.replicated_merge_tree.replica import Replica
from examples.replicated_merge_tree.world import World
from examples.requests import get, maybe

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
        if kind in (Loss.SOME_PARTS, Loss.NEWEST_PART):
            replica = chance.choice(chance.choice(hosts).replicas)
            await _lose_parts(replica, await _parts_to_lose(replica, kind, chance))
        elif shared:
            host = chance.choice(shared)
            host.die(with_disk=kind == Loss.DISK)
            if kind == Loss.FOR_LONG:
                await _until_marked(chance.choice(host.replicas))
            host.come_back()
            await host.session()


async def _parts_to_lose(replica: Replica, kind: Loss, chance: random.Random) -> list[Part]:
    if kind == Loss.NEWEST_PART:
        return [await _part_of_its_own(replica)]
    active = sorted(replica.disk.active)
    return chance.sample(active, min(_PARTS, len(active)))


async def _lose_parts(replica: Replica, parts: list[Part]) -> None:
    """A user reads them, and the files are not there. Return when ZooKeeper says the same."""
    for part in parts:
        replica.disk.lose(part)
        replica.notice_missing(part)
    while True:
        await asyncio.sleep(replica.world.settings.pause_s)
        if replica.disk.missing.isdisjoint(parts):
            return


async def _part_of_its_own(replica: Replica) -> Part:
    """The replica inserts, until it has a part of which no other replica has any rows."""
    while True:
        part = await insert(replica, new_batch(replica))
        if part is None or part not in replica.disk.active:
            continue
        if replica.table.having_rows_of(part) == {replica.name}:
            return part


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
