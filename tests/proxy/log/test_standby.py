"""A proxy of a tree that follows another one, past checkpoints, takeovers and breaks, up to the cut-over."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from pipeline.etcd.load import begin as begin_load
from pipeline.follow.applying import Changes
from pipeline.follow.target import Start, resume
from proxy.etcd.model import Get
from proxy.log.load.start import load_to_serve
from proxy.log.record import TreeNotServable
from proxy.log.status import Freshness, Offers
from proxy.state.machine import Machine
from proxy.state.outcome import Disagreement
from schema.followed import Followed
from tests.pipeline.follow.histories import creates, node_pages
from tests.pipeline.follow.test_target import KEYS, opened
from tests.proxy.log.proxies import Proxy, until

_END = 1 << 32  # the first zxid of the epoch after the cut-over


class Follower:
    """What writes the tree."""

    def __init__(self, client: FakeEtcdClient, begun: Start) -> None:
        self._client = client
        self._tree, self.machine, self._position = begun
        self._changes = Changes(self.machine)

    async def follow(self) -> None:
        """One transaction."""
        await self._tree.append(self.machine, self._take(), 1, self._position)

    async def checkpoint(self) -> None:
        self._position = await self._tree.rebase(self.machine, self._position)

    async def jump(self) -> None:
        """The source has truncated a transaction, so the whole tree is written."""
        self._take()
        await self.checkpoint()

    async def replaced(self) -> "Follower":
        """Another follower takes over."""
        return Follower(self._client, await resume(self._client, KEYS))

    async def finish(self) -> None:
        self._changes.move_to(_END)
        await self._tree.finish(self.machine, self._changes.take(), 1, self._position._replace(zxid=_END))

    def _take(self) -> Followed:
        (rows,) = creates(self.machine.zxid + 1, 1)
        self._changes.apply(rows)
        self._position = self._position._replace(zxid=self.machine.zxid)
        return self._changes.take()


class Standby(Proxy):
    """A proxy that waits for the cut-over."""

    def __init__(self, store: FakeEtcd) -> None:
        self.client = FakeEtcdClient(store)
        super().__init__(self.client, "/t")
        self.reads = False
        self.serving = asyncio.get_running_loop().create_task(self._serve())

    async def _serve(self) -> None:
        await self.log.load()
        await self.log.start(self._begin)

    def _begin(self) -> None:
        self.reads = True

    async def has(self, machine: Machine) -> None:
        """Wait until its state is this one."""
        await until(lambda: self.log.machine.zxid == machine.zxid or self.serving.done())
        if self.serving.done():
            await self.serving
        assert node_pages(self.log.machine) == node_pages(machine)


@pytest.fixture
def store() -> FakeEtcd:
    return FakeEtcd()


@pytest.fixture
async def follower(store: FakeEtcd) -> Follower:
    client = FakeEtcdClient(store)
    return Follower(client, await opened(client))


@pytest.fixture
async def proxy(store: FakeEtcd, follower: Follower) -> AsyncIterator[Standby]:
    """It has caught up."""
    made = Standby(store)
    await until(lambda: made.reads)
    yield made
    made.serving.cancel()
    await made.stop()
    await asyncio.gather(made.serving, return_exceptions=True)


async def serves(proxy: Standby, follower: Follower) -> None:
    """The cut-over: the proxy has the tree, is registered, and has loaded nothing for it."""
    reloads = proxy.log.stats.reloads
    await follower.finish()
    await asyncio.wait_for(proxy.serving, 60)
    await proxy.has(follower.machine)
    assert proxy.log.machine.zxid == _END
    assert proxy.registered_as
    assert proxy.log.stats.reloads == reloads
    assert (
        await load_to_serve(proxy.client, KEYS)
    ).machine.compute_digest() == proxy.log.machine.compute_digest()


async def test_it_applies_what_the_follower_writes(proxy: Standby, follower: Follower) -> None:
    for step in (follower.follow, follower.checkpoint, follower.follow, follower.follow):
        await step()
        await proxy.has(follower.machine)
    contact = proxy.log.contact()
    assert (contact.freshness, contact.offers) == (Freshness.RECENT, Offers.READS)
    assert not proxy.log.status().peers.clock_skew  # the entries have the source's clock
    assert not (await proxy.client.range(Get(KEYS.proxies, KEYS.proxies_end), 1.0)).kvs
    assert proxy.log.stats.reloads == 0
    assert not proxy.serving.done()
    await serves(proxy, follower)
    assert proxy.log.contact().is_copy is False


async def test_another_follower_takes_over(proxy: Standby, follower: Follower) -> None:
    for _ in range(3):
        await follower.follow()
        follower = await follower.replaced()
        await follower.follow()
        await proxy.has(follower.machine)
        await follower.checkpoint()
    await serves(proxy, follower)
    assert proxy.log.stats.reloads == 0


@pytest.mark.parametrize("more", [0, 1, 5])
async def test_a_tree_that_is_written_anew_is_loaded(proxy: Standby, follower: Follower, more: int) -> None:
    """The state that it had is whole as long as it is served. `more`: entries behind the new snapshot."""
    await follower.follow()
    await proxy.has(follower.machine)
    before, machine = node_pages(follower.machine), proxy.log.machine
    await follower.jump()
    for _ in range(more):
        await follower.follow()
    async with asyncio.timeout(20):
        while not proxy.log.stats.reloads:
            assert node_pages(machine) == before
            await asyncio.sleep(0)
    await proxy.has(follower.machine)
    assert proxy.log.contact().offers is not Offers.NOTHING
    assert proxy.log.stats.reloads == 1
    assert not proxy.log.stats.disagreements
    await serves(proxy, follower)


async def test_a_follower_that_contradicts_itself_is_not_believed(proxy: Standby, follower: Follower) -> None:
    """The digest in an entry is another one than the state's: the tree is loaded anew."""
    await follower.follow()
    await proxy.has(follower.machine)
    await follower.checkpoint()
    proxy.log._disagreement(Disagreement("follow", 1, 2, 3))
    assert proxy.stops
    await until(lambda: proxy.log.stats.reloads == 1)
    assert not proxy.disagreements
    await follower.follow()
    await proxy.has(follower.machine)
    await serves(proxy, follower)


@pytest.mark.parametrize("checkpoints", [0, 1, 2])
@pytest.mark.parametrize("finishes", [False, True])
async def test_what_was_missed_in_a_break(
    proxy: Standby, follower: Follower, checkpoints: int, finishes: bool
) -> None:
    """Entries that a checkpoint has deleted meanwhile, and the cut-over."""
    await follower.follow()
    await proxy.has(follower.machine)
    proxy.client.disconnect()
    for _ in range(checkpoints):
        await follower.follow()
        await follower.checkpoint()
    await follower.follow()
    if finishes:
        await follower.finish()
    proxy.client.reconnect()
    if not finishes:
        await proxy.has(follower.machine)
        await follower.finish()
    await asyncio.wait_for(proxy.serving, 60)
    await proxy.has(follower.machine)


async def test_others_do_not_wait(store: FakeEtcd, follower: Follower) -> None:
    with pytest.raises(TreeNotServable, match="is not served before the cut-over"):
        await load_to_serve(FakeEtcdClient(store), KEYS)


async def test_an_import_in_its_place_is_refused(proxy: Standby) -> None:
    await begin_load(proxy.client, KEYS, overwrite=True)
    with pytest.raises(TreeNotServable, match="import into /t has begun"):
        await asyncio.wait_for(proxy.serving, 60)
