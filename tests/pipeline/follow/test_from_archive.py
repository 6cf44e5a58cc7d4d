"""The loop from an archive of a zketcd to its copy: gaps, missing files, and an archive that is late."""

import asyncio
from pathlib import Path

import pytest

from archive.archiver.archiver import Archiver, Intervals
from archive.files.catalog import Catalog
from archive.files.store import Directory
from lab.servers.waiting import eventually
from pipeline.errors import Failure
from pipeline.follow import finishing, from_archive
from pipeline.follow.copying import follow
from pipeline.follow.finishing import Asked
from pipeline.follow.from_archive import InArchive, Polls
from pipeline.follow.options import Options
from pipeline.follow.output import DONE
from pipeline.follow.source import OtherSource
from pipeline.follow.target import Origin
from schema.record import Seal
from tests.pipeline.follow.test_copying import KEYS, LEVEL, World


class Archived(World):
    """A tree, its archive, and a copy that follows the archive."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.store = Directory(str(folder))
        self.polls = Polls(every=0.01, retry=0.01)

    @property
    def archive(self) -> InArchive:
        return InArchive(f"archive:{self.folder}", str(self.folder), self.polls)

    async def archived(self, put_every: float = 0.05) -> None:
        """Run an archiver until it has everything."""
        zxid = self.tree.ran().zxid
        intervals = Intervals(put_every, complete=0.05)
        archiver = Archiver(self.client, self.tree.keys, self.store, intervals=intervals)
        archiving = asyncio.create_task(archiver.run())

        async def reached() -> bool:
            runs = Catalog(self.store.list()).runs
            return (
                bool(runs) and runs[-1].end.zxid >= zxid and f"{runs[-1].name}/complete" in self.store.list()
            )

        await eventually(reached, "it is archived", 60)
        archiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await archiving

    async def follow(self, **more: object) -> int:
        return await follow(self.archive, self.etcd, KEYS, LEVEL._replace(**more))  # type: ignore[arg-type]


@pytest.fixture
async def world(tmp_path: Path) -> Archived:
    world = Archived(tmp_path / "archive")
    await world.tree.make("a")
    await world.write()
    await world.archived()
    return world


async def test_it_goes_on_where_it_was(world: Archived) -> None:
    for _ in range(3):
        assert await world.follow() == DONE
        await world.check()
        await world.write()
        await world.archived()


async def test_it_reads_what_is_archived_meanwhile(
    world: Archived, capsys: pytest.CaptureFixture[str]
) -> None:
    following = asyncio.create_task(follow(world.archive, world.etcd, KEYS, Options()))
    for _ in range(3):
        await world.write()
        await world.archived()
    folder = world.folder.rename(world.folder.with_name("away"))

    async def told() -> bool:
        return "cannot be read, trying again" in capsys.readouterr().err

    await eventually(told, "it says that the archive is away", 60)
    folder.rename(world.folder)
    await world.write()
    await world.archived()
    assert not following.done()
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    await world.follow()
    await world.check()


@pytest.mark.long
async def test_an_archive_that_grows_all_the_time(world: Archived, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each listing finds more than the last one: the copy is level all the same."""
    listings = 0

    def growing(names: list[str]) -> Catalog:
        """One more segment each time."""
        nonlocal listings
        listings += 1
        segments = sorted(name for name in names if name.endswith(".log"))
        return Catalog([name for name in names if name not in segments[listings:]])

    for _ in range(30):
        await world.write(2)
        await world.archived()
    monkeypatch.setattr(from_archive, "Catalog", growing)
    assert await world.follow(timeout=30.0) == DONE
    assert listings < 25


async def test_a_copy_that_is_far_behind(world: Archived) -> None:
    """What was listed counts, and the copy is not level before all of it is applied."""
    for _ in range(4):
        await world.write()
        await world.archived()
    run = Catalog(world.store.list()).runs[-1]
    world.polls = world.polls._replace(together=1)
    reading = await world.archive.open(run.begin.entries, Origin(run.cluster, "", 0, 0))
    reader = asyncio.create_task(reading.run())
    await asyncio.wait_for(reading.arrived.wait(), 60)
    assert reading.behind >= run.end.zxid - run.segments[0].end.zxid > 10
    while reading.machine.entries < run.end.entries:
        assert not reader.done()
        while (arrived := reading.take()) is not None:
            assert reading.level_at() is None
            item, entry = arrived
            reading.machine.apply(item.incarnation, item.number, entry)
        await asyncio.sleep(0.001)

    async def is_level() -> bool:
        return reading.level_at() is not None

    await eventually(is_level, "it is level", 60)
    assert reading.behind == 0
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)


async def test_a_gap_of_the_archive(world: Archived, capsys: pytest.CaptureFixture[str]) -> None:
    await world.follow()
    for _ in range(3):
        await world.write(40)
        await world.tree.snapshot("a")
    await world.archived()
    await world.follow()
    assert "loading all" in capsys.readouterr().err
    await world.check()


async def test_files_are_missing(world: Archived) -> None:
    await world.follow()
    for _ in range(2):
        await world.write()
        await world.archived(put_every=0.0)
    run = Catalog(world.store.list()).runs[-1]
    world.store.delete(run.path(run.segments[-2]))
    with pytest.raises(Failure, match="files are missing"):
        await world.follow()


async def test_an_archive_that_is_late_or_of_another_tree(world: Archived) -> None:
    await world.write()
    await world.level()
    with pytest.raises(OtherSource, match="Either the source is late"):
        await world.follow()
    await world.archived()
    await world.follow()
    await world.check()
    other = Archived(world.folder.with_name("other"))
    other.client.store.cluster_id = 8
    await other.tree.make("a")
    await other.write()
    await other.archived()
    with pytest.raises(OtherSource, match="is of the etcd cluster 0000000000000008"):
        await follow(other.archive, world.etcd, KEYS, LEVEL)
    with pytest.raises(Failure, match="cannot be sealed"):
        await world.archive.seal(Seal("", "/copy", 1, 0))


async def test_a_follower_of_an_archive_leaves_a_move_to_the_command(world: Archived) -> None:
    """It cannot seal the source: if it answered and ended, its supervisor would have it answer again."""
    await world.follow()
    running = asyncio.create_task(follow(world.archive, world.etcd, KEYS, Options()))
    request = Asked(0, keep_sessions=True, answered=False)
    assert not await finishing.ask(world.etcd, KEYS, request, within=1.0)
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
