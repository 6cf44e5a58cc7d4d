"""The loop from zketcd's log to a ZooKeeper's data directory: restarts, truncation, another tree, a jump."""

from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from pipeline.errors import Failure
from pipeline.follow import files, output, outward, retrying
from pipeline.follow.base import load_base
from pipeline.follow.copy import digest_of
from pipeline.follow.output import DONE, NOT_LEVEL
from pipeline.follow.outward import Options, mirror
from pipeline.formats import directory
from proxy.log import slices
from proxy.log.follow.catch_up import Caught, read_missed
from proxy.log.load import start
from proxy.state.machine import Machine
from schema.budgets import encode_rule
from schema.entry import Kind, Request, encode_epoch
from tests.pipeline.follow.histories import node_pages
from tests.pipeline.follow.running import Failing
from tests.proxy.log.trees import Tree


class World:
    """A tree on a fake etcd, and a directory."""

    def __init__(self, folder: Path) -> None:
        self.client = FakeEtcdClient(FakeEtcd())
        self.tree = Tree(self.client)
        self.folder = folder / "data"
        self._made = 0

    async def write(self, count: int = 5) -> None:
        for _ in range(count):
            self._made += 1
            await self.tree.create("a", f"/n{self._made}", data=b"%d" % self._made)

    async def mirror(self) -> None:
        options = Options(str(self.folder), until_level=True, interval=0.001)
        assert await mirror(self.client, self.tree.keys, options) == DONE

    async def check(self) -> Machine:
        """What a ZooKeeper would serve is what a proxy would."""
        await self.mirror()
        machine = (await start.load_to_serve(self.client, self.tree.keys)).machine
        found = load_base(str(self.folder), None, 1)
        assert node_pages(found) == node_pages(machine)
        assert (found.zxid, digest_of(found)) == (machine.zxid, digest_of(machine))
        assert found.sessions.keys() == machine.sessions.keys()
        return machine

    def names(self) -> list[str]:
        snapshots, logs = directory.files(str(self.folder))
        return [Path(file).name for file in (*snapshots, *logs)]


@pytest.fixture
async def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    await world.tree.make()
    await world.tree.come("a")
    return world


async def test_it_goes_on_where_it_was(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    await world.write()
    await world.check()
    assert world.names() == ["snapshot.0", "log.1"]
    for _ in range(3):
        await world.write()
        await world.check()
    assert world.names() == ["snapshot.0", "log.1", "log.7", "log.c", "log.11"]
    await world.check()
    assert capsys.readouterr().out.endswith("level at zxid 0x15 (0 behind)\n")


async def test_two_do_not_write_one_directory(world: World) -> None:
    await world.check()
    cluster_id = (await world.client.status()).cluster_id
    writer = files.Files(str(world.folder), files.Owner("/t", cluster_id))
    with pytest.raises(Failure, match="another export --follow writes into"):
        await world.mirror()
    writer.close()
    await world.check()


async def test_first_children(world: World) -> None:
    await world.write(2)
    for path in ("/n1/a", "/n1/a/b", "/n2/a", "/n2/b"):
        await world.tree.create("a", path)
    await world.check()


@pytest.mark.long
async def test_what_was_torn_is_written_again(world: World) -> None:
    await world.check()
    await world.write()
    await world.check()
    log = world.folder / "version-2" / "log.2"
    raw = log.read_bytes()
    for cut in (*range(len(raw) - 1, len(raw) - 60, -6), 40, 16):
        log.write_bytes(raw[:cut])
        (world.folder / "version-2" / "snapshot.9.part").write_bytes(b"half")
        for later in (world.folder / "version-2").glob("log.*"):
            if later.name > log.name:
                later.unlink()
        await world.check()


async def test_truncation_makes_it_begin_again(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    await world.write()
    await world.check()
    for _ in range(3):
        await world.write(40)
        await world.tree.snapshot("a")
    await world.check()
    assert "does not reach back to there: beginning again" in capsys.readouterr().err
    assert [name for name in world.names() if name.startswith("snapshot.")] == ["snapshot.0", "snapshot.7e"]


async def test_zxids_of_a_new_epoch(world: World) -> None:
    await world.write()
    await world.check()
    cluster_id = world.client.store.cluster_id
    await world.tree.send("a", [Request(Kind.EPOCH, 0, 0, (), encode_epoch(cluster_id, 5 << 32))])
    await world.write()
    machine = await world.check()
    assert machine.zxid > 6 << 32
    await world.write()
    await world.check()


async def test_digests_of_a_tree_with_budgets(world: World) -> None:
    """ZooKeeper has none, so they are not in its digest."""
    await world.tree.send("a", [Request(Kind.BUDGET, 0, 0, (), encode_rule("/n", 1000, 0))])
    for _ in range(2):
        await world.write()
        await world.check()


@pytest.mark.long
async def test_logs_roll_and_old_snapshots_go(world: World) -> None:
    with mock.patch.object(files, "_LOG_BYTES", 400):
        for _ in range(8):
            await world.write(20)
            await world.check()
    snapshots = [name for name in world.names() if name.startswith("snapshot.")]
    assert len(snapshots) == 3
    assert "snapshot.15" not in snapshots


async def test_a_directory_of_something_else(world: World, tmp_path: Path) -> None:
    await world.write(3)
    await world.check()
    other = World(tmp_path / "other")
    other._made = 100
    await other.tree.make()
    await other.tree.come("a")
    await other.write(9)
    other.folder = world.folder
    with pytest.raises(Failure, match="differ at zxid 0x4: the directory holds another tree"):
        await other.mirror()
    (world.folder / files.MARK).write_text("{}")
    with pytest.raises(Failure, match="holds the export of another tree"):
        await world.mirror()
    (world.folder / files.MARK).unlink()
    with pytest.raises(Failure, match="holds a tree already"):
        await world.mirror()
    world.folder = tmp_path / "file"
    world.folder.touch()
    with pytest.raises(Failure, match="is not a directory"):
        await world.mirror()


async def test_a_directory_that_has_gone_on(world: World, tmp_path: Path) -> None:
    await world.write(9)
    await world.check()
    behind = World(tmp_path)
    behind.folder = world.folder
    await behind.tree.make()
    await behind.tree.come("a")
    with pytest.raises(Failure, match="was ZooKeeper started on it"):
        await behind.mirror()


async def test_killed_amid_a_long_log_it_goes_on(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Each run leaves what it has applied on disk, so that any number of kills comes to an end."""
    await world.write(60)
    zxids = []

    class Killed(BaseException):
        pass

    def killed(_self: output.Status, _zxid: int, left: int, _what: str) -> None:
        if left:
            raise Killed

    with (
        mock.patch.object(outward, "_PIECE", 1),
        mock.patch.object(slices, "SLICE", 0.0),
        mock.patch.object(output.Status, "_EVERY", 0.0),
    ):
        for _ in range(3):
            with mock.patch.object(output.Status, "behind", killed), pytest.raises(Killed):
                await world.mirror()
            zxids.append(load_base(str(world.folder), None, 1).zxid)
        assert 0 < zxids[0] < zxids[1] < zxids[2] < 61
        metrics = world.folder.with_name("metrics")
        options = Options(str(world.folder), until_level=True, metrics=str(metrics))
        assert await mirror(world.client, world.tree.keys, options) == DONE
    assert "entries behind)" in capsys.readouterr().out
    assert "\nzketcd_copy_level_timestamp_seconds " in metrics.read_text()
    await world.check()


async def test_not_level_in_time(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.client.unreachable = True
    late = Options(str(world.folder), until_level=True, timeout=0.05)
    with mock.patch.object(retrying, "RETRY", 0.001):
        assert await mirror(world.client, world.tree.keys, late) == NOT_LEVEL
    assert "not level within 0.05 s" in capsys.readouterr().err


async def test_level_amid_writes(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """A tree that has always changed again when one looks."""

    async def amid_writes(*arguments: Any) -> Caught:
        found = await read_missed(*arguments)
        await world.write(1)
        return found

    await world.write()
    with mock.patch.object(outward, "read_missed", amid_writes):
        options = Options(str(world.folder), until_level=True, timeout=60.0, interval=0.001)
        assert await mirror(world.client, world.tree.keys, options) == DONE
    assert "level at zxid" in capsys.readouterr().out
    await world.check()


@pytest.mark.long
async def test_etcd_is_away_for_a_while(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Whichever request meets the outage first."""
    store = world.client.store
    await world.write()
    await world.mirror()
    world.client = counting = Failing(store, 0)
    await world.write()
    await world.mirror()
    with mock.patch.object(retrying, "RETRY", 0):
        for at in range(1, counting.requests + 1):
            await world.write()
            world.client = Failing(store, at)
            await world.mirror()
            assert "etcd is out of reach, trying again: no member answers" in capsys.readouterr().err
    await world.check()
