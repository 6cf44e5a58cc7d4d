"""A proxy that waits for the cut-over with the tree loaded, past checkpoints, takeovers and broken ends."""

import asyncio
from unittest import mock

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from lab.servers.waiting import eventually
from pipeline.etcd.load import begin as begin_load
from pipeline.follow.changes import Changes
from proxy.log.follow.catch_up import Loaded
from proxy.log.load import start as standby
from proxy.log.load.start import load
from proxy.log.record import TreeNotServable, look
from tests.pipeline.follow.histories import creates, node_pages
from tests.pipeline.follow.test_target import KEYS, opened


class Waiting:
    """A proxy that waits, and what it follows."""

    def __init__(self) -> None:
        self.store = FakeEtcd()
        self.client = FakeEtcdClient(self.store)

    async def wait(self) -> Loaded:
        return await load(FakeEtcdClient(self.store), KEYS, wait=True)

    async def looked(self, looks: mock.AsyncMock) -> None:
        """Until the waiting proxy has looked again."""
        enough = looks.call_count + 2

        async def again() -> bool:
            return looks.call_count >= enough

        await eventually(again, "the proxy looks", 60, 0.001)


@pytest.mark.parametrize("checkpoint_at", [0, 3, 6])
@pytest.mark.parametrize("asleep", [False, True])
async def test_it_serves_what_the_follower_had(checkpoint_at: int, asleep: bool) -> None:
    """Asleep: it misses entries that a checkpoint deletes."""
    world = Waiting()
    follow, machine, position = await opened(world.client)
    changes = Changes(machine)
    with mock.patch.object(standby, "look", wraps=look) as looks:
        waiting = asyncio.get_running_loop().create_task(world.wait())
        for rows in creates(1, 8):
            changes.apply(rows)
            position = position._replace(zxid=machine.zxid)
            await follow.append(machine, changes.take(), 1, position)
            if machine.zxid == checkpoint_at:
                position = await follow.checkpoint(machine, position)
            if not asleep:
                await world.looked(looks)
        assert not waiting.done()
        changes.move_to(1 << 32)
        await follow.finish(machine, changes.take(), 1, position._replace(zxid=1 << 32))
        loaded = await asyncio.wait_for(waiting, 60)
    assert node_pages(loaded.machine) == node_pages(machine)
    assert loaded.machine.zxid == 1 << 32
    assert not loaded.fell_back
    assert not loaded.disagreements


async def test_others_do_not_wait() -> None:
    world = Waiting()
    await opened(world.client)
    with pytest.raises(TreeNotServable, match="is not served before the cut-over"):
        await load(world.client, KEYS)


async def test_an_import_in_its_place_is_refused() -> None:
    world = Waiting()
    await opened(world.client)
    with mock.patch.object(standby, "look", wraps=look) as looks:
        waiting = asyncio.get_running_loop().create_task(world.wait())
        await world.looked(looks)
    await begin_load(world.client, KEYS, overwrite=True)
    with pytest.raises(TreeNotServable, match="import into /t is not complete"):
        await asyncio.wait_for(waiting, 60)
