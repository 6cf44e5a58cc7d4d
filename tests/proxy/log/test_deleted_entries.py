"""Entries that somebody deletes from the log: what they have done is saved, or its loss is reported."""

import logging

import pytest

from proxy.etcd.model import Delete
from proxy.log.context import Context
from proxy.log.follow.log_order import EntriesGone, LogOrder
from proxy.log.load.start import load_as_of
from proxy.log.record import Registered
from proxy.log.status import Stats
from proxy.log.upkeep.deleted_entries import DeletedEntries
from proxy.log.upkeep.snapshot_writer import write
from proxy.log.upkeep.truncation import Overtaken
from proxy.state.machine import Machine
from proxy.support.tasks import Tasks
from tests.proxy.log.trees import PACE, Tree, pages_of


class World:
    """A tree of two proxies, and what a third one has seen of it."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.machine = Machine(1)
        self.deleted = DeletedEntries(Context(self.tree.etcd, self.tree.keys, Tasks(), self.machine, Stats()))
        self._order = LogOrder(self.tree.keys)

    async def make(self) -> "World":
        await self.tree.make("a", "b")
        for number in range(10):
            await self.tree.create("a", f"/a{number}")
            await self.tree.create("b", f"/b{number}")
        return self

    async def look(self) -> int:
        """Take what the watch delivers; the revision as of which a snapshot is to be written."""
        for events in self.tree.store.history_from(self._order.revision + 1):
            for item in self._order.items_of(events):
                if isinstance(item, EntriesGone):
                    self.deleted.note(item)
        self.machine.applied = dict(self._order.numbers)
        await self.deleted.look(await self.tree.record())
        return self.deleted.as_of

    def delete(self, *entries: tuple[str, int]) -> int:
        """Delete entries at one revision, and return that."""
        return self.tree.change(*[Delete(self.tree.keys.entry(*entry)) for entry in entries]).revision

    async def save(self) -> None:
        tree = self.tree
        writer = Registered("b", tree.revisions["b"])
        await write(tree.etcd, tree.keys, writer, as_of=self.deleted.as_of, pace=PACE)

    async def is_whole(self) -> bool:
        """Whether a start has the state of the proxies that live."""
        loaded = await load_as_of(self.tree.etcd, self.tree.keys)
        return pages_of(loaded.machine) == pages_of(self.tree.ran())


@pytest.fixture
async def world() -> World:
    return await World().make()


async def test_a_snapshot_as_of_the_revision_before_saves_what_they_have_done(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    assert await world.look() == 0
    revision = world.delete(("a", 4), ("a", 5), ("b", 11))
    await world.tree.create("a", "/later")
    assert not await world.is_whole()
    assert await world.look() == revision - 1
    (line,) = [each.message for each in caplog.records if each.levelno == logging.ERROR]
    assert "deleted, not by zketcd (4 to 5 of a, 11 of b), and no snapshot holds them" in line
    await world.save()
    assert await world.is_whole()
    assert await world.look() == 0
    assert "holds what the deleted entries have done: nothing is lost" in caplog.messages[-1]
    await world.tree.snapshot("b")
    assert await world.is_whole()


async def test_truncation_deletes_nothing_that_is_to_be_saved(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        await world.tree.snapshot("b")
        await world.tree.create("a", f"/again{number}")
        assert await world.look() == 0
    assert len(await world.tree.entries()) < 10
    assert [each.message for each in caplog.records if each.levelno > logging.INFO] == []


async def test_what_the_current_snapshot_holds_is_not_lost(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A start needs the log before it only if the snapshot is damaged."""
    await world.tree.snapshot("b")
    world.delete(("a", 5))
    assert await world.look() == 0
    assert "(5 of a). The snapshot" in caplog.text
    assert "run `zketcd snapshot`" in caplog.text
    assert await world.is_whole()


async def test_a_stream_that_is_behind_the_snapshot_that_saves_them_reports_no_loss(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.delete(("a", 5))
    await world.look()
    behind = await world.tree.record()
    await world.save()
    world.deleted.too_late()  # another run was, after the one that has saved them
    await world.deleted.look(behind)
    assert world.deleted.as_of == 0
    assert "holds what the deleted entries have done: nothing is lost" in caplog.messages[-1]


@pytest.mark.parametrize("faster", ["compaction", "another snapshot"])
async def test_what_cannot_be_saved_is_reported_once(
    world: World, faster: str, caplog: pytest.LogCaptureFixture
) -> None:
    revision = world.delete(("a", 5))
    assert await world.look() == revision - 1
    if faster == "compaction":
        world.tree.store.compact(revision)
    else:
        await world.tree.snapshot("a")
    with pytest.raises(Overtaken):
        await world.save()
    world.deleted.too_late()
    assert await world.look() == 0
    assert await world.look() == 0
    assert (
        caplog.text.count("proxies that start from now on lack what deleted entries of the log (5 of a)") == 1
    )
    await world.tree.snapshot("b")
    assert not await world.is_whole()
