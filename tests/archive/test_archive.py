"""An archive of a served tree: its states are those that clients saw, whatever was killed or truncated."""

import asyncio
import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from archive.archiver import archiver
from archive.archiver.archiver import Archiver, OtherTree
from archive.files.catalog import Catalog, NotArchived, Run
from archive.files.moment import NOW, moment, shown, time
from archive.files.names import Segment, Snapshot, parse
from archive.files.small_files import encode_prefix
from archive.files.store import Directory, StoreError, store_of
from archive.past.deletion import last_deletion
from archive.past.history import History
from archive.past.state import state_at
from codec import client as zk
from lab.client.blocking import Client
from lab.servers import EtcdServer, ZketcdServer, wait_until
from pipeline.sources.archive_log import ArchiveOptions, ArchiveReader, rows_of
from proxy.support.environment import HOST, Clock
from tests.archive.archives import ROOT, Archive, Capture, Seen, Writer, seen_by, state
from tests.proxy.etcd import admin
from tests.proxy.log import trees
from tests.proxy.log.proxies import until


def _assert_same(url: str, seen: list[Seen]) -> None:
    for each in seen:
        assert state(url, f"0x{each.zxid:x}") == each.nodes
    for each in (seen[0], seen[-1]):
        assert state(url, each.time) == each.nodes


def test_every_state_is_the_one_that_clients_saw(
    zketcd_pair: tuple[ZketcdServer, ZketcdServer], archive: Archive
) -> None:
    """Archivers are killed, two of them run at once, and proxies write snapshots and truncate the log."""
    seen = []
    with Writer([server.port for server in zketcd_pair], seed=20) as writer:
        archive.clients = writer.clients
        for step in range(9):
            if step % 3 == 0:
                archive.kill()
                archive.start()
            if step == 3:
                archive.start()
            for _ in range(2):
                writer.write(80)
                seen.append(writer.see())
            archive.until(seen[-1].zxid)
            if step % 3 == 1:
                archive.snapshot()
    archive.clients = []
    archive.until_complete(seen[-1])
    wait_until(lambda: archive.snapshots() >= 3, "the proxies' snapshots are archived")
    archive.kill()

    found = archive.list()
    assert found["gaps"] == []
    (run,) = found["runs"]
    assert run["segments"] >= 3
    assert any(name.endswith(".paths") for name in store_of(archive.url).list())
    _assert_same(archive.url, seen)
    assert archive.run("archive", "verify", archive.url)[0] == 0
    _assert_histories(archive, writer, Random(1).sample(sorted(writer.history), 4))
    _assert_damage_is_found(archive)


def _assert_histories(archive: Archive, writer: Writer, paths: list[str]) -> None:
    everything = []
    for path in (ROOT, *paths):
        _, out = archive.run("history", path, "--archive", archive.url, "--json")
        events = [json.loads(line) for line in out.splitlines()]
        assert [(int(event["zxid"], 16), event["change"]) for event in events] == writer.history[path]
        assert all("ip:127.0.0.1" in event["identities"] or event["operation"] == "CLOSE" for event in events)
        for before, after in pairwise(events):
            if "setACL" not in (before["change"], after["change"]):
                assert after["before"] == before["after"]
        everything += events
    _, out = archive.run("history", ROOT, "-R", "--archive", archive.url, "--json")
    found = [json.loads(line) for line in out.splitlines()]
    assert len(found) == sum(map(len, writer.history.values()))
    assert all(event in found for event in everything)
    middle = found[len(found) // 2]["zxid"]
    words = ("history", ROOT, "-R", "--archive", archive.url, "--json")
    early = archive.run(*words, "--until", middle)[1].splitlines()
    late = archive.run(*words, "--since", hex(int(middle, 16) + 1))[1].splitlines()
    assert [json.loads(line) for line in early + late] == found


def _assert_damage_is_found(archive: Archive) -> None:
    """In the newest file of each kind: a check reads the whole archive."""
    names = sorted(store_of(archive.url).list())
    newest = {type(parsed[1]): name for name in names if (parsed := parse(name)) and parsed[1]}
    assert newest.keys() == {Segment, Snapshot}
    for name in newest.values():
        file = Path(archive.url) / name
        whole = file.read_bytes()
        middle = len(whole) // 2
        file.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
        status, out = archive.run("archive", "verify", archive.url)
        assert (status, name in out) == (1, True)
        file.write_bytes(whole)
    assert archive.run("archive", "verify", archive.url)[0] == 0


def test_what_was_truncated_is_a_gap_that_a_snapshot_bridges(
    zketcd_server: ZketcdServer, archive: Archive
) -> None:
    with Client(zketcd_server.port) as client:
        archive.clients = [client]
        client.create(ROOT)
        archive.start()
        before = seen_by(client)
        archive.until_complete(before)
        archive.kill()
        lost = []
        for number in range(3):
            client.create(f"{ROOT}/{number}")
            lost.append(seen_by(client))
            archive.snapshot()
        after = seen_by(client)
        archive.start()
        archive.until(after.zxid)
        client.create(f"{ROOT}/last")
        last = seen_by(client)
        archive.until_complete(last)
        archive.kill()
    _assert_same(archive.url, [before, last])
    assert state(archive.url, f"0x{after.zxid:x}") == after.nodes
    (gap,) = archive.list()["gaps"]
    assert gap["why"] == "truncated in etcd before they were archived"
    gaps = []
    for since in (None, moment(f"0x{last.zxid:x}", 0)):
        history = History(store_of(archive.url), ROOT, since=since)
        assert [event.change for event in history.events()] == (["created"] if since is None else [])
        gaps.append(history.gaps)
    assert gaps == [[(gap["after"], gap["before"] - 1)], []]
    for at in (f"0x{lost[0].zxid:x}", lost[0].time):
        with pytest.raises(NotArchived, match="lies in a gap"):
            state(archive.url, at)
    with pytest.raises(NotArchived, match="not archived yet"):
        state(archive.url, "2100-01-01")
    assert archive.run("archive", "verify", archive.url)[0] == 0
    assert "zketcd_archive_gaps_total 1\n" in archive.metrics.read_text()


def test_an_archive_of_another_tree_is_refused(
    zketcd_server: ZketcdServer, own_etcd_server: EtcdServer, archive: Archive
) -> None:
    with Client(zketcd_server.port) as client:
        client.create(ROOT)
        archive.start()
        archive.until(client.zxid)
        archive.kill()
    with ZketcdServer(own_etcd_server.endpoint) as server, Client(server.port) as client:
        client.create(ROOT)
        words = [archive.url, "--etcd", own_etcd_server.endpoint]
        status, out = archive.run("archive", *words)
        assert (status, "Each tree needs an archive of its own" in out) == (1, True)


async def test_an_archive_of_another_prefix_is_refused(tmp_path: Path) -> None:
    first = await trees.Tree().make("a")
    second = await trees.Tree(first.etcd, "/second").make("b")
    store = Directory(str(tmp_path / "archive"))

    def runs() -> dict[str, bytes]:
        """Each run's file with the prefix."""
        names = [run.name for run in Catalog(store.list()).runs]
        return {name: store.get(f"{name}/prefix") for name in names if f"{name}/prefix" in store.list()}

    async def archived(archiver: Archiver, prefixes: list[bytes]) -> None:
        archiving = asyncio.create_task(archiver.run())
        await until(lambda: list(runs().values()) == [*map(encode_prefix, prefixes)])
        archiving.cancel()
        await asyncio.gather(archiving, return_exceptions=True)

    await archived(Archiver(first.etcd, first.keys, store), [b"/t"])
    with pytest.raises(OtherTree, match="has the tree under /t, and this is /second"):
        await Archiver(second.etcd, second.keys, store).run()
    assert list(runs().values()) == [encode_prefix(b"/t")]
    # One that was killed before it had written the prefix: the next one writes it.
    await asyncio.to_thread(store.delete, f"{next(iter(runs()))}/prefix")
    await archived(Archiver(first.etcd, first.keys, store), [b"/t"])
    # A damaged file, which was taken for another tree's, is written again.
    (store.root / next(iter(runs())) / "prefix").write_bytes(b"/x")
    await archived(Archiver(first.etcd, first.keys, store), [b"/t"])
    await archived(Archiver(second.etcd, second.keys, store, accept_cluster=True), [b"/t", b"/second"])
    with pytest.raises(OtherTree):
        await Archiver(first.etcd, first.keys, store).run()


class _Settable(Clock):
    """The clock of the archiver's host."""

    def __init__(self) -> None:
        self.seconds = 1_795_420_800.0

    def time(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds


async def test_a_proxy_whose_clock_is_ahead_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what follows, all would have its time: for hours, or for years."""
    host = _Settable()
    store = Directory(str(tmp_path / "archive"))

    async def write(incarnation: str, request: zk.Request[object], ahead: float = 0.0) -> None:
        host.seconds += 60
        monkeypatch.setattr(trees, "CLOCK", int((host.seconds + ahead) * 1000))
        await tree.send(incarnation, [trees.asked(tree.session(incarnation), request)])
        await until(lambda: any(run.end.entries == sum(tree.numbers.values()) for run in _runs(store)))

    monkeypatch.setattr(trees, "CLOCK", int(host.seconds * 1000))
    tree = await trees.Tree().make("a", "b")
    archiving = asyncio.create_task(Archiver(tree.etcd, tree.keys, store, clock=host).run())
    await write("a", zk.create("/early"))
    await write("b", zk.create("/ahead"), 30 * 3600.0)
    await write("b", zk.delete("/early"), 30 * 3600.0)
    await write("a", zk.create("/late"))
    between = time(int((host.seconds + 30) * 1000))
    await write("a", zk.create("/last"))
    archiving.cancel()
    await asyncio.gather(archiving, return_exceptions=True)

    nodes = state_at(store, between).tree.nodes
    assert [path in nodes for path in ("/early", "/ahead", "/late", "/last")] == [False, True, True, False]
    for path in ("/ahead", "/late"):
        (event,) = History(store, path, until=between).events()
        assert list(History(store, path, since=time(event.time)).events()) == [event]
    (first,) = History(store, "/ahead").events()
    for results in ("true", "false"):
        wanted = {"since": shown(first.time), "until": shown(between.value), "results": results}
        options = ArchiveOptions.of({"path": str(store.root), **wanted}, results=True)
        parts = ArchiveReader(options).partitions()
        found = [row.path for part in parts for rows in rows_of(options, part) for row in rows]
        assert found == ["/ahead", "/early", "/late"]
    deletion = last_deletion(store, "/early")
    assert deletion is not None
    assert deletion.deletes.nodes == 1
    with pytest.raises(NotArchived):
        state_at(store, time(int((host.seconds + 3600) * 1000)))


class _Ahead(Clock):
    """The clock of a host that is an hour ahead."""

    time = staticmethod(lambda: HOST.clock.time() + 3600)


async def test_the_newest_run_is_the_last_one_though_the_clock_was_ahead_before(tmp_path: Path) -> None:
    store = Directory(str(tmp_path / "archive"))
    tree = await trees.Tree().make("a")

    async def archived(count: int, clock: Clock = HOST.clock) -> None:
        await tree.create("a", f"/{count}")
        archiving = asyncio.create_task(Archiver(tree.etcd, tree.keys, store, clock=clock).run())
        await until(lambda: any(run.end.entries == count for run in _runs(store)))
        archiving.cancel()
        await asyncio.gather(archiving, return_exceptions=True)

    await archived(2, _Ahead())
    (run,) = _runs(store)
    (store.root / run.path(run.segments[-1])).write_bytes(b"damaged")
    for count in (3, 4):
        await archived(count)
        assert f"/{count}" in state_at(store, NOW).tree.nodes
    assert len(_runs(store)) == 2, "it goes on"


@pytest.mark.parametrize("damage", ["cut", "of other entries", "missing"])
async def test_a_damaged_archive_is_no_restored_etcd(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    store = Directory(str(tmp_path / "archive"))
    tree = await trees.Tree().make("a")

    async def archived(done: Callable[[], bool]) -> None:
        archiving = asyncio.create_task(Archiver(tree.etcd, tree.keys, store).run())
        await until(done)
        archiving.cancel()
        await asyncio.gather(archiving, return_exceptions=True)

    for count in range(2, 5):
        await tree.create("a", f"/{count}")
        await archived(lambda count=count: any(run.end.entries == count for run in _runs(store)))  # type: ignore[misc]
    (run,) = _runs(store)
    *_, former, last = map(run.path, run.segments)
    undamaged = {name: store.get(name) for name in (former, last)}
    if damage == "missing":
        (store.root / former).unlink()
    else:
        whole = store.get(former)
        (store.root / last).write_bytes(whole[:-9] if damage == "cut" else whole)
    await archived(lambda: len(_runs(store)) == 2)
    assert "the archive is damaged: another run begins" in caplog.text
    assert "restored" not in caplog.text
    assert (last if damage != "missing" else "are missing") in caplog.text

    for name, value in undamaged.items():
        (store.root / name).write_bytes(value)
    created = [event.path for event in History(store, "/", recursive=True).events()]
    assert created == ["/2", "/3", "/4"], "what both runs have comes once"


def _runs(store: Directory) -> list[Run]:
    return Catalog(store.list()).runs


class _Lying(Directory):
    """A store that fails once, and then leaves out what was written, in its next two lists."""

    fails = False
    lies = 0

    def put(self, name: str, value: bytes) -> None:
        if self.fails:
            self.fails, self.lies = False, 2
            raise StoreError("it is away")
        super().put(name, value)

    def list(self) -> dict[str, int]:
        self.lies, lies = max(0, self.lies - 1), self.lies
        return {} if lies else super().list()


async def test_a_store_that_does_not_list_the_newest_run_gets_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiver, "_RETRY", (0.01, 0.01))
    store, looked_at = _Lying(str(tmp_path / "archive")), Directory(str(tmp_path / "archive"))
    tree = await trees.Tree().make("a")
    archiving = asyncio.create_task(Archiver(tree.etcd, tree.keys, store).run())
    for count in range(2, 4):
        await tree.create("a", f"/{count}")
        await until(lambda count=count: any(run.end.entries == count for run in _runs(looked_at)))  # type: ignore[misc]
        store.fails = True
    archiving.cancel()
    await asyncio.gather(archiving, return_exceptions=True)
    assert len(_runs(looked_at)) == 1


@pytest.mark.real
def test_to_read_the_prefix_is_all_that_an_archiver_needs(tmp_path: Path, capsys: Capture) -> None:
    with EtcdServer("--bcrypt-cost=4") as etcd:
        with ZketcdServer(etcd.endpoint, prefix="/tenant") as server, Client(server.port) as client:
            client.create(ROOT)
            zxid = client.zxid
        admin.enable_authentication(etcd.endpoint, "reader", "secret", b"/tenant/", b"/tenant0", write=False)
        archive = Archive(etcd, "/tenant", tmp_path, capsys)
        archive.start("--etcd-user", "reader", "--etcd-password", "secret")
        try:
            archive.until(zxid)
        finally:
            archive.kill()
    assert ROOT in state(archive.url, "now")


def _lead(url: str, target: Path) -> None:
    """Have the archive's path lead there, at once: the archiver may be writing."""
    link = Path(f"{url}.new")
    link.symlink_to(target)
    link.replace(url)


@pytest.mark.real
def test_a_store_that_is_away_and_an_etcd_that_is_restored(tmp_path: Path, capsys: Capture) -> None:
    with EtcdServer() as etcd:
        archive = Archive(etcd, "/zketcd", tmp_path, capsys)
        disk, no_disk, backup = (tmp_path / name for name in ("disk", "no disk", "backup"))
        disk.mkdir()
        no_disk.write_text("not a directory")
        _lead(archive.url, disk)
        archive.start()
        try:
            with ZketcdServer(etcd.endpoint) as server, Client(server.port) as client:
                client.create(ROOT)
                archive.until(client.zxid)
                _lead(archive.url, no_disk)
                client.create(f"{ROOT}/meanwhile")
                wait_until(archive.has_failed, "a failure")
                _lead(archive.url, disk)
                archive.until(client.zxid)
            assert len(archive.list()["runs"]) == 1
            etcd.stop()
            shutil.copytree(etcd.data_dir, backup)
            etcd.start()
            with ZketcdServer(etcd.endpoint) as server, Client(server.port) as client:
                archive.clients = [client]
                client.create(f"{ROOT}/undone")
                undone = seen_by(client)
                archive.until_complete(undone)
                archive.clients = []
            etcd.stop()
            shutil.rmtree(etcd.data_dir)
            shutil.copytree(backup, etcd.data_dir)
            etcd.start()
            with ZketcdServer(etcd.endpoint) as server, Client(server.port) as client:
                archive.clients = [client]
                client.create(f"{ROOT}/instead")
                instead = seen_by(client)
                wait_until(lambda: len(archive.list()["runs"]) == 2, "another run", 60)
                archive.until_complete(instead)
        finally:
            archive.kill()
    for seen in (undone, instead):
        assert state(archive.url, seen.time) == seen.nodes
    assert state(archive.url, "now") == instead.nodes
    assert [gap["why"] for gap in archive.list()["gaps"]] == ["etcd was restored, or this run is damaged"]
    assert "zketcd_archive_gaps_total 0\n" in archive.metrics.read_text()
    assert archive.run("archive", "verify", archive.url)[0] == 0
