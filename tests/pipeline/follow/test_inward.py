"""The loop from a ZooKeeper's log to a tree in etcd, its exit codes and words; and a whole move, and back."""

import asyncio
import itertools
import random
import shutil
import threading
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from codec import snapshot_file
from codec.constants import OpCode
from codec.longs import signed
from lab.fakes.clock import FakeClock
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from lab.oracle.client import Client
from lab.oracle.requests import (
    EPHEMERAL,
    EPHEMERAL_SEQUENTIAL,
    SEQUENTIAL,
    Create,
    Delete,
    GetData,
    Multi,
    SetAcl,
    SetData,
)
from lab.oracle.wire import Session
from lab.servers import EtcdServer
from lab.servers.waiting import eventually
from pipeline.errors import Failure
from pipeline.etcd import load
from pipeline.follow import finishing
from pipeline.follow.applying import Changes
from pipeline.follow.base import ascii_digest_of
from pipeline.follow.inward import Directory, follow
from pipeline.follow.options import Options
from pipeline.follow.output import DONE, NOT_LEVEL, Stuck
from pipeline.follow.tail import Unsettled
from pipeline.follow.target import position_of, resume
from pipeline.table import SessionRow
from proxy.etcd import model
from proxy.etcd.model import Put, Txn, TxnResult
from proxy.log.load import start
from proxy.state.machine import Machine
from schema.json_values import pack_json
from schema.keys import Keyspace
from tests.pipeline.ensembles import ephemerals, populate, view, zketcd, zookeeper
from tests.pipeline.follow.histories import creates
from tests.pipeline.follow.running import PipelineCommand
from tests.pipeline.trees import node, transaction, write_log, write_snapshot
from zketcd.__main__ import main

KEYS = Keyspace("/t")
TREE = [
    node("/", 0),
    node("/zookeeper", 0),
    node("/zookeeper/config", 0, aversion=-1),
    node("/zookeeper/quota", 0),
    node("/mine", 0, owner=7),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data directory with a session that has an ephemeral."""
    write_snapshot(tmp_path / "version-2", 0, TREE, [SessionRow(7, 4000)])
    write_log(tmp_path / "version-2", *creates(1, 5))
    return tmp_path


async def served(etcd: FakeEtcdClient) -> Machine:
    return (await start.load_to_serve(etcd, KEYS)).machine


def followed(
    etcd: FakeEtcdClient, folder: Path, *, log_timeout: float = 0.0, **options: Any
) -> Coroutine[None, None, int]:
    return follow(Directory(str(folder), None, log_timeout, 0.001), etcd, KEYS, Options(**options))


async def test_level_then_finished(
    etcd: FakeEtcdClient, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await followed(etcd, folder, until_level=True) == DONE
    assert capsys.readouterr().out == "level at zxid 0x5 (0 behind)\n"
    write_log(folder / "version-2", *creates(6, 2))
    assert await followed(etcd, folder, finish=True, answer_within=0.0) == DONE
    told = capsys.readouterr()
    assert "asking the follower that runs on this prefix" in told.err
    assert "no follower has answered for" in told.err
    machine = await served(etcd)
    assert f"finished: zxids go on at 0x{machine.zxid:x}" in told.out
    assert {f"/n{zxid}" for zxid in range(1, 8)} < machine.tree.nodes.keys()
    assert "/mine" not in machine.tree.nodes
    assert (machine.tree.nodes["/"].pzxid, machine.sessions) == (machine.zxid, {})
    assert await followed(etcd, folder, finish=True) == DONE  # it is already
    with pytest.raises(Failure, match="has finished following"):
        await followed(etcd, folder)


async def test_zxids_go_on_above_those_of_an_earlier_cut_over(etcd: FakeEtcdClient, folder: Path) -> None:
    """The source is in its first epoch each time, and clients have seen what followed the first cut-over."""
    clock = FakeClock(1.8e9)
    assert await followed(etcd, folder, finish=True, clock=clock) == DONE
    first = (await served(etcd)).zxid
    clock.now += 60
    assert await followed(etcd, folder, finish=True, overwrite=True, clock=clock) == DONE
    second = (await served(etcd)).zxid
    assert second >> 32 > first >> 32
    assert (await load.begin(etcd, KEYS, overwrite=True)).zxid >= second  # so an import goes on above it


async def test_a_running_follower_is_asked(etcd: FakeEtcdClient, folder: Path) -> None:
    loop = asyncio.get_running_loop()
    running = loop.create_task(followed(etcd, folder))
    await eventually(lambda: position_of(etcd, KEYS), "it follows", 60)
    second = FakeEtcdClient(etcd.store)
    asked = loop.create_task(followed(second, folder, finish=True, keep_sessions=True, zxid=8))

    async def is_answered() -> bool:
        found = await finishing.asked(etcd, KEYS)
        return found is not None and found[0].answered

    await eventually(is_answered, "the follower knows it", 60)
    assert not asked.done()  # the log ends before
    write_log(folder / "version-2", *creates(6, 3))
    assert await asyncio.wait_for(asked, 60) == DONE
    assert await asyncio.wait_for(running, 60) == DONE
    machine = await served(etcd)
    assert set(machine.sessions) == {7}
    assert "/mine" in machine.tree.nodes
    assert "/n8" in machine.tree.nodes


async def test_a_request_that_is_withdrawn_at_the_last_moment_does_not_end_the_follower(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Late(FakeEtcdClient):
        """The first Txn that would complete the tree comes after the end of the command that asked."""

        withdrawn = False

        async def txn(self, txn: Txn, timeout: float) -> TxnResult:
            if (
                not self.withdrawn
                and any(each.key == KEYS.finish for each in txn.compares)
                and len(txn.success) > 1
            ):
                self.withdrawn = True
                self.store.txn(Txn((), (model.Delete(KEYS.finish),)))
            return await super().txn(txn, timeout)

    etcd = Late(FakeEtcd())
    running = asyncio.create_task(followed(etcd, folder))
    await eventually(lambda: position_of(etcd, KEYS), "it follows", 60)
    etcd.store.txn(Txn((), (Put(KEYS.finish, pack_json(finishing.Asked(5, False, True)._asdict())),)))

    async def is_withdrawn() -> bool:
        return etcd.withdrawn or running.done()

    await eventually(is_withdrawn, "the tree is about to be completed", 60)
    write_log(folder / "version-2", *creates(6, 1))
    second = FakeEtcdClient(etcd.store)
    assert await asyncio.wait_for(followed(second, folder, finish=True, zxid=6), 60) == DONE
    assert await asyncio.wait_for(running, 60) == DONE
    assert "the command that asked for the end has ended: following on" in capsys.readouterr().err
    assert "/n6" in (await served(etcd)).tree.nodes


async def test_a_request_to_finish_ends_with_its_command(etcd: FakeEtcdClient, folder: Path) -> None:
    """However that ends: it must not be carried out later, while clients work on the source."""
    loop = asyncio.get_running_loop()
    running = loop.create_task(followed(etcd, folder))
    await eventually(lambda: position_of(etcd, KEYS), "it follows", 60)
    lost = FakeEtcdClient(etcd.store)
    asking = loop.create_task(followed(lost, folder, finish=True, zxid=8))

    async def is_answered() -> bool:
        found = await finishing.asked(etcd, KEYS)
        return found is not None and found[0].answered

    await eventually(is_answered, "the follower knows it", 60)
    lost.unreachable = True  # as when its host is lost
    etcd.store.advance(10.0)
    for zxid in (8, 9):
        count = 3 if zxid == 8 else 1
        write_log(folder / "version-2", *creates(zxid + 1 - count, count))

        async def has_it(zxid: int = zxid) -> bool:
            position = await position_of(etcd, KEYS)
            return position is not None and position.zxid == zxid

        await eventually(has_it, "it follows on", 60)
    for task in (asking, running):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_finished_tree_is_no_success_if_the_source_has_gone_on(
    etcd: FakeEtcdClient, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await followed(etcd, folder, finish=True, zxid=5) == DONE
    assert await followed(etcd, folder, finish=True, zxid=5) == DONE
    with pytest.raises(
        Stuck, match=r"was finished at the source's zxid 0x5, and lacks .* 0x6. .*--overwrite"
    ):
        await followed(etcd, folder, finish=True, zxid=6)
    write_log(folder / "version-2", [transaction(6, OpCode.CLOSE_SESSION, session_id=7)])
    assert await followed(etcd, folder, finish=True) == DONE  # its clients have left
    write_log(folder / "version-2", *creates(7, 2))
    with pytest.raises(Stuck, match=r"lacks .* 0x8"):
        await followed(etcd, folder, finish=True)
    for log in (folder / "version-2").glob("log.*"):
        log.unlink()
    write_log(folder / "version-2", *creates(9, 1))  # those before it were purged
    assert await followed(etcd, folder, finish=True) == DONE
    assert "whether clients have gone on with ZooKeeper is not known" in capsys.readouterr().err


async def test_not_level_in_time(etcd: FakeEtcdClient, folder: Path) -> None:
    assert await followed(etcd, folder, until_level=True, zxid=9, timeout=0.05) == NOT_LEVEL
    assert await followed(etcd, folder, until_level=True, zxid=5, timeout=60.0) == DONE
    assert await followed(etcd, folder, finish=True, zxid=9, timeout=0.05, answer_within=60.0) == NOT_LEVEL
    assert await finishing.asked(etcd, KEYS) is None  # it is not finished later, unasked


class Written(FakeEtcdClient):
    """A follower's etcd. Something happens behind each Txn that puts its position."""

    def __init__(self, store: FakeEtcd, happens: Callable[[], object]) -> None:
        super().__init__(store)
        self.happens = happens

    async def txn(self, txn: Txn, timeout: float) -> TxnResult:
        result = await super().txn(txn, timeout)
        if any(isinstance(op, Put) and op.key == KEYS.follows for op in txn.success):
            self.happens()
        return result


def written_to(etcd: FakeEtcdClient, folder: Path) -> Written:
    """The log, which ends at zxid 5 before, has always grown again when a follower looks."""
    zxids = itertools.count(6)

    def grow() -> None:
        write_log(folder / "version-2", *creates(next(zxids), 1))

    grow()
    return Written(etcd.store, grow)


async def test_level_amid_writes(
    etcd: FakeEtcdClient, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def told() -> bool:
        return "still written to" in capsys.readouterr().err

    assert await followed(etcd, folder, until_level=True) == DONE
    amid = written_to(etcd, folder)
    assert await followed(amid, folder, until_level=True, zxid=9, timeout=60.0) == DONE
    assert capsys.readouterr().out.endswith("level at zxid 0x9 (0 behind)\n")
    options: dict[str, Any] = {"finish": True, "answer_within": 0.0, "tell_after": 0.0}
    assert await followed(amid, folder, timeout=0.5, **options) == NOT_LEVEL
    capsys.readouterr()
    finish = asyncio.create_task(followed(amid, folder, timeout=60.0, **options))
    await eventually(told, "it says why it waits")
    amid.happens = bool  # the log does not grow any more
    assert await finish == DONE


async def test_a_follower_that_waits_for_the_end_of_the_log_says_so_to_the_command_that_asks(
    etcd: FakeEtcdClient, folder: Path
) -> None:
    async def waits() -> bool:
        found = await finishing.asked(etcd, KEYS)
        return found is not None and found[0].waits

    assert await followed(etcd, folder, until_level=True) == DONE
    amid = written_to(etcd, folder)
    running = asyncio.create_task(followed(amid, folder, tell_after=0.0))
    finish = asyncio.create_task(followed(FakeEtcdClient(etcd.store), folder, finish=True))
    await eventually(waits, "it says that it waits", 60)
    amid.happens = bool
    assert await asyncio.wait_for(finish, 60) == await asyncio.wait_for(running, 60) == DONE


async def test_the_command_that_asks_says_that_the_log_is_still_written_to(
    etcd: FakeEtcdClient, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may run on another host than the follower."""

    async def told() -> bool:
        return "still written to" in capsys.readouterr().err

    assert await followed(etcd, folder, until_level=True) == DONE
    finish = asyncio.create_task(followed(FakeEtcdClient(etcd.store), folder, finish=True))
    follower = finishing.Answering(etcd, KEYS)
    await eventually(lambda: follower.wanted(waits=True), "it asks", 60)
    await eventually(told, "it says why it waits", 60)
    finish.cancel()
    with pytest.raises(asyncio.CancelledError):
        await finish


async def test_a_gap_ends_it_with_words(etcd: FakeEtcdClient, folder: Path) -> None:
    write_log(folder / "version-2", *creates(8, 2))
    with pytest.raises(Failure, match=r"0x6 to 0x7 are missing"):
        await followed(etcd, folder)
    (folder / "version-2" / "log.8").unlink()
    assert await followed(etcd, folder, until_level=True) == DONE
    write_log(folder / "version-2", *creates(8, 2))
    with pytest.raises(Unsettled, match=r"stopped at zxid 0x5: .*0x6 to 0x7 are missing"):
        await followed(etcd, folder)


async def test_the_time_of_a_slow_append_is_none_in_which_the_files_were_wrong(
    etcd: FakeEtcdClient, folder: Path
) -> None:
    """An append waits while etcd is away. The first look at a torn file after that must not end it."""
    log_timeout, clock = 30.0, FakeClock()
    assert await followed(etcd, folder, until_level=True) == DONE
    write_log(folder / "version-2", *creates(6, 2))
    whole = write_log(folder / "version-2", *creates(8, 1), padding=0)
    entries = whole.read_bytes()
    whole.unlink()

    def slowly() -> None:
        clock.now += 2 * log_timeout
        whole.write_bytes(entries[:-1])

    async def is_at(zxid: int) -> bool:
        position = await position_of(etcd, KEYS)
        return position is not None and position.zxid == zxid

    slow = Written(etcd.store, slowly)
    following = asyncio.create_task(followed(slow, folder, log_timeout=log_timeout, clock=clock))
    await eventually(lambda: is_at(7), "it has appended", 60)
    looks = clock.looks
    await eventually(lambda: asyncio.sleep(0, clock.looks > looks), "it has looked at the torn file", 60)
    slow.happens = bool
    whole.write_bytes(entries)
    await eventually(lambda: is_at(8), "it goes on", 60)
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following


async def test_a_tree_that_is_not_theirs(etcd: FakeEtcdClient, folder: Path) -> None:
    assert await followed(etcd, folder, until_level=True) == DONE
    (rows,) = creates(6, 1)
    write_log(folder / "version-2", [rows[0]._replace(digest=12345)])
    with pytest.raises(Failure, match="another digest"):
        await followed(etcd, folder)


async def test_a_base_that_is_not_theirs(etcd: FakeEtcdClient, tmp_path: Path) -> None:
    write_snapshot(tmp_path / "version-2", 5, TREE, trailers=[snapshot_file.pack_digest(5, 1)])
    with pytest.raises(Failure, match="has another digest than ZooKeeper's own"):
        await followed(etcd, tmp_path)
    assert not etcd.store.snapshot()


async def test_many_entries_and_bases(etcd: FakeEtcdClient, folder: Path) -> None:
    for first in range(6, 106, 20):
        write_log(folder / "version-2", *creates(first, 20))
        assert await followed(etcd, folder, until_level=True, entry_changes=3, log_bytes=0) == DONE
    assert await followed(etcd, folder, finish=True, keep_sessions=True, answer_within=0.0) == DONE
    assert len((await served(etcd)).tree.nodes) == len(TREE) + 105


async def test_a_locale_that_is_not_utf8(
    etcd: FakeEtcdClient, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await followed(etcd, folder, until_level=True) == DONE
    machine = (await resume(etcd, KEYS)).machine
    changes = Changes(machine)
    row = transaction(6, OpCode.CREATE, "/ä", data=b"", owner=0)
    changes.apply([row])
    write_log(folder / "version-2", [row._replace(digest=signed(ascii_digest_of(machine)))])
    assert await followed(etcd, folder, until_level=True) == DONE
    assert "locale is not UTF-8" in capsys.readouterr().err


class Writer:
    """A client that writes all the time, in a thread, until it is paused; then it only keeps its session."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._top = f"/{name}"
        self._pause, self._paused, self._stop = (threading.Event() for _ in range(3))
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._client.create(self._top)
            round_ = 0
            while not self._pause.wait(0.005):
                round_ += 1
                self._write(round_)
            self._paused.set()
            while not self._stop.wait(0.5):
                self._client.do(GetData(self._top))
        except BaseException as error:
            self._error = error
            self._paused.set()
            raise

    def _write(self, round_: int) -> None:
        top = self._top
        path = self._client.create(f"{top}/n-", b"x" * 50, SEQUENTIAL)
        multi = Multi(
            (
                Create(f"{top}/m{round_}"),
                SetData(top, b"%d" % round_, -1),
                Create(f"{top}/m{round_}/x", b"y", EPHEMERAL),
            )
        )
        self._client.do(SetData(path, b"new", -1), multi)
        if round_ % 3 == 0:
            self._client.do(Delete(path, -1))
        if round_ % 7 == 0:
            acl = ((31, "digest", "u:hash"), (17, "ip", "127.0.0.1"))
            self._client.do(SetAcl(f"{top}/m{round_}", acl, 0))

    def pause(self) -> int:
        """Write no more; the last zxid that the client has seen."""
        self._pause.set()
        assert self._paused.wait(60)
        assert self._error is None
        return self._client.last_zxid

    def leave(self) -> Session:
        """Close the connection; the session lives on."""
        self._stop.set()
        self._thread.join(60)
        assert self._error is None
        self._client.leave()
        return self._client.session


def kill_and_start(command: PipelineCommand) -> None:
    """Kill a command amid its work, and run it again."""
    threading.Event().wait(random.uniform(0.0, 0.6))
    command.kill()
    command.start()


def resumed(port: int, session: Session, last_zxid: int) -> Client:
    """The client of a session, at another server."""
    client = Client(port, session.id, session.password, last_zxid)
    assert client.session.id == session.id
    return client


def test_a_move_amid_writes_and_back(
    etcd_server: EtcdServer, etcd_prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Real ZooKeeper -> zketcd -> other real ZooKeepers, with clients writing and followers being killed."""
    to_etcd = ["--etcd", etcd_server.endpoint, "--prefix", etcd_prefix]
    new = zketcd(etcd_server.endpoint, etcd_prefix)
    back = zookeeper()
    older = zookeeper("3.8")
    out = ["export", str(back.data_dir), *to_etcd, "--follow"]
    with closing(new), closing(back), closing(older):
        with zookeeper() as old, PipelineCommand("follow", str(old.data_dir), *to_etcd) as following:
            client = Client(old.port)
            populate(client)
            paths = ephemerals(client)
            writer = Writer(client, "in")
            kill_and_start(following)
            new.launch()  # waits for the cut-over
            last = writer.pause()
            before = view(old.port)
            finish = ["--finish", "--keep-sessions", "--zxid", hex(last)]
            assert main(["follow", str(old.data_dir), *to_etcd, *finish]) == 0
            assert following.wait(60) == 0
            session = writer.leave()
        new.wait_until_serving()
        client = resumed(new.port, session, last)
        assert view(new.port) == before

        with PipelineCommand(*out) as following:
            writer = Writer(client, "out")
            kill_and_start(following)
            last = writer.pause()
            before = view(new.port)
            assert all(path in before for path in paths)
        session = writer.leave()
        new.stop()
        assert main([*out, "--until-level"]) == 0
        shutil.copytree(back.data_dir, older.data_dir)
        older.launch()
        back.start()
        client = resumed(back.port, session, last)
        assert view(back.port) == before
        assert client.create("/locks/lock-", b"", EPHEMERAL_SEQUENTIAL).endswith("0000000002")
        client.close()
        assert not view(back.port).keys() & set(paths)
        back.stop()
        assert main([*out, "--until-level"]) == 2
        assert "was ZooKeeper started on it?" in capsys.readouterr().err

        older.wait_until_serving()
        assert older.version().startswith("3.8")
        client = resumed(older.port, session, last)
        assert view(older.port) == before
        client.close()
        assert not view(older.port).keys() & set(paths)
