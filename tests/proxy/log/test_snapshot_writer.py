"""Writing snapshots: crashes between every two steps, two writers at once, what is left over, the process."""

import asyncio
import os
import random
import re
import struct
import subprocess
import sys
from base64 import b64encode
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from unittest import mock

import pytest

from codec.constants import OpCode
from codec.jute import Acl, pack_acls, pack_string
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient, Fate
from lab.servers.process import REPOSITORY
from proxy.etcd.model import Compare, Delete, EtcdNoSpace, EtcdUnknown, Get, Put, Txn, TxnResult
from proxy.log.load.start import load_as_of
from proxy.log.record import Registered
from proxy.log.upkeep import snapshot_writer, truncation
from proxy.log.upkeep.snapshot_job import Failed, Job, Written
from proxy.log.upkeep.snapshot_writer import WriteFailed, digest_at, write
from proxy.log.upkeep.truncation import Overtaken, drop_incarnation, forgettable
from schema.entry import Kind, Request, encode_close, encode_forget
from tests.proxy.log.trees import PACE, Tree, created, opened, pages_of


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truncation, "ENTRIES_AT_ONCE", 7)
    monkeypatch.setattr(truncation, "PAGES_AT_ONCE", 1)


class Crash(Exception):
    """The writer's process ends here."""


class _Stepped(FakeEtcdClient):
    """Calls `step` before each Txn that writes, with what that does, as "put sessions"."""

    def __init__(self, tree: Tree, step: Callable[[FakeEtcdClient, str], None]) -> None:
        super().__init__(tree.store)
        self._step = step

    async def txn(self, txn: Txn, timeout: float) -> TxnResult:
        op = txn.success[0]
        op = op.success[0] if isinstance(op, Txn) else op
        if isinstance(op, Put | Delete):
            (what,) = re.findall(rb"/(tree|log|state|sessions|nodes)\b", op.key)
            self._step(self, f"{type(op).__name__.lower()} {what.decode()}")
        return await super().txn(txn, timeout)


class CrashAt:
    """Lets a run take so many steps, or go up to the one of a name."""

    def __init__(self, last: int | str) -> None:
        self.last = last
        self.steps: list[str] = []

    def __call__(self, _client: FakeEtcdClient, step: str) -> None:
        self.steps.append(step)
        if self.last in (step, len(self.steps) - 1):
            raise Crash(step)


async def busy_tree() -> Tree:
    """Two snapshots, and a log since."""
    tree = await Tree().make("a", "b")
    await tree.fill("a", "x", 20)
    await tree.snapshot("a")
    await tree.fill("b", "y", 20)
    await tree.snapshot("b")
    await tree.fill("a", "z", 20)
    return tree


async def check(tree: Tree) -> None:
    """A start is the same as having been there, also by way of the previous snapshot."""
    ran = pages_of(tree.ran())
    client = FakeEtcdClient(tree.store)
    loaded = await load_as_of(client, tree.keys)
    assert pages_of(loaded.machine) == ran
    record = await tree.record()
    for ref in (record.current, record.previous):
        assert ref is not None
        older = tree.ran(ref.position)
        assert (ref.digest, ref.zxid) == (older.compute_digest(), older.zxid)
    if loaded.base is not None:
        torn = tree.keys.state_page(loaded.base.name)
        (kv,) = (await tree.etcd.range(Get(torn), 5)).kvs
        tree.change(Put(torn, b""))
        again = await load_as_of(client, tree.keys)
        assert again.base == record.previous
        assert pages_of(again.machine) == ran
        tree.change(Put(torn, kv.value))


async def check_after_the_next(tree: Tree) -> None:
    """The next run, of the same proxy or of another one, cleans up."""
    await check(tree)
    await tree.create("b", "/after")
    await tree.snapshot("b")
    await check(tree)
    record = await tree.record()
    assert await tree.snapshots() == {ref.name for ref in (record.current, record.previous) if ref}


@pytest.mark.long
async def test_a_crash_between_any_two_steps_leaves_a_tree_that_can_be_used() -> None:
    seen: set[str] = set()
    for steps in range(200):
        tree = await busy_tree()
        crash = CrashAt(steps)
        with suppress(Crash):
            await tree.snapshot("a", _Stepped(tree, crash))
        seen.update(crash.steps)
        if steps % 3 == 0:
            await tree.go("a")
        await check_after_the_next(tree)
        record = await tree.record()
        applied = await truncation.applied_in(tree.etcd, tree.keys, record.previous.name)  # type: ignore[union-attr]
        assert applied is not None
        for key in await tree.entries():
            parsed = tree.keys.parse(key)
            assert parsed.number > applied[parsed.incarnation]
        if len(crash.steps) <= steps:
            break
    else:
        pytest.fail("a snapshot takes more than 200 steps")
    puts = {"put state", "put sessions", "put nodes", "put tree"}
    assert seen == {*puts, "delete log", "delete state", "delete sessions", "delete nodes"}


@pytest.mark.long
async def test_two_writers_at_one_position_stopped_in_each_phase() -> None:
    """One is stopped before its n-th request while the other one runs from its beginning to its end."""
    for at in range(200):
        tree = await busy_tree()
        stopped = _Stopped(tree.store, at)
        loop = asyncio.get_running_loop()
        run = loop.create_task(write(stopped, tree.keys, Registered("a", tree.revisions["a"]), pace=PACE))
        waits = loop.create_task(stopped.reached.wait())
        await asyncio.wait((run, waits), return_when=asyncio.FIRST_COMPLETED)
        waits.cancel()
        other = await tree.snapshot("b")
        stopped.go_on.set()
        try:
            result: Written | None = await run
        except (Overtaken, WriteFailed):
            result = None
        record = await tree.record()
        assert record.current in [each.ref for each in (other, result) if each is not None]
        await check_after_the_next(tree)
        if not stopped.reached.is_set():
            break
    else:
        pytest.fail("a snapshot takes more than 200 requests")
    assert at > 10


class _Stopped(FakeEtcdClient):
    """A client that waits before its n-th request until it may continue."""

    def __init__(self, store: FakeEtcd, at: int) -> None:
        super().__init__(store)
        self._left = at
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def _contact(self) -> None:
        if not self._left:
            self.reached.set()
            await self.go_on.wait()
        self._left -= 1
        await super()._contact()


async def test_a_late_publication_cannot_name_pages_that_are_gone() -> None:
    """A writer is killed with its last Txn under way; its successor cleans up before that arrives."""
    tree = await busy_tree()
    before = await tree.record()

    def late(client: FakeEtcdClient, step: str) -> None:
        if step == "put tree":
            client.fates.append(Fate.LATE)

    async def once(request: Callable[..., Awaitable[object]], *arguments: object) -> object:
        try:
            return await request(*arguments)
        except EtcdUnknown as error:
            raise Crash from error

    with mock.patch.object(snapshot_writer, "until_known", once), pytest.raises(Crash):
        await tree.snapshot("a", _Stepped(tree, late))
    with pytest.raises(Crash):
        await tree.snapshot("a", _Stepped(tree, CrashAt("put state")))
    (answer,) = tree.store.apply_late()
    assert not answer.succeeded
    assert await tree.record() == before
    await check(tree)


@pytest.mark.long
@pytest.mark.parametrize("fate", [Fate.LOST, Fate.ANSWER_LOST])
async def test_answers_that_get_lost_do_no_harm(fate: Fate) -> None:
    for at in range(0, 40, 3):
        tree = await busy_tree()
        steps = 0

        def lose(client: FakeEtcdClient, _step: str, at: int = at) -> None:
            nonlocal steps
            if steps == at:
                client.fates.append(fate)
            steps += 1

        await tree.snapshot("a", _Stepped(tree, lose))
        await check(tree)


async def test_nothing_is_written_where_nothing_was_appended() -> None:
    tree = await busy_tree()
    assert (await tree.snapshot("a")).ref is not None
    record = await tree.record()
    assert (await tree.snapshot("a")).ref is None
    assert await tree.record() == record


async def test_a_writer_whose_proxy_is_over_writes_nothing() -> None:
    tree = await busy_tree()
    writer = Registered("a", tree.revisions["a"])
    await tree.go("a")
    before = await tree.record()
    with pytest.raises(WriteFailed, match="incarnation a that the snapshot is written for is over"):
        await write(tree.etcd, tree.keys, writer, pace=PACE)
    assert await tree.record() == before


async def test_pages_of_a_living_writer_stay() -> None:
    """A truncation that comes late, as that of a proxy that was stopped, while another one writes."""
    tree = await busy_tree()
    with pytest.raises(Crash):
        await tree.snapshot("a", _Stepped(tree, CrashAt("put tree")))
    unfinished = await tree.snapshots()
    # Nothing to write for b, but much to clean up; a lives and may still be writing.
    assert len(unfinished) == 3
    record, pair = await tree.record(), await tree.pair()
    guard = Compare(tree.keys.tree, pair.mod_revision)
    assert await truncation.delete_pages(tree.etcd, tree.keys, record, guard, "b") == 0
    assert await tree.snapshots() == unfinished
    await tree.go("a")
    assert await truncation.delete_pages(tree.etcd, tree.keys, record, guard, "b") > 0
    assert len(await tree.snapshots()) == 2
    wrong = Compare(tree.keys.tree, pair.mod_revision - 1)
    with pytest.raises(Overtaken):
        await truncation.truncate_log(tree.etcd, tree.keys, wrong, {"b": 100})


async def test_a_full_etcd_takes_snapshots_and_truncation() -> None:
    """By inner Txns, whose puts etcd does not count: tests/proxy/etcd/test_fake.py shows it."""
    tree = await busy_tree()
    before, entries = await tree.record(), len(await tree.entries())
    tree.store.full = True
    with pytest.raises(EtcdNoSpace):
        tree.change(Put(b"/filler", b""))
    result = await tree.snapshot("b")
    after = await tree.record()
    assert (after.current, after.previous) == (result.ref, before.current)
    assert result.entries_deleted == entries - len(await tree.entries()) > 20
    tree.store.full = False
    await check(tree)


async def test_entries_with_another_digest_are_judged_by_two_replays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tree = await busy_tree()
    entries, digest = tree.ran().last_checkpoint
    assert entries % 32 == 0
    assert await digest_at(tree.etcd, tree.keys, entries) == digest
    await tree.send("a", [], checkpoint=entries, digest=1)
    result = await tree.snapshot("b")
    assert result.disagreements == 1
    assert "the senders of these entries are wrong" in caplog.text
    await check(tree)


async def test_an_incarnation_is_forgotten() -> None:
    tree = await busy_tree()
    session = tree.session("a")
    # Behind a gap, and a late copy of what will have been truncated.
    await tree.send("a", [created(session, "/never")], number=90)
    await tree.go("a")
    assert forgettable(tree.ran(), {"b"}, tree.ran().applied) == [], "its session has not ended"
    await tree.send("b", [Request(Kind.CLOSE, session, 0, (), encode_close("test", ""))])
    for _ in range(2):
        await tree.create("b", f"/{_}")
        await tree.snapshot("b")
    machine = tree.ran()
    record = await tree.record()
    assert record.previous is not None
    truncated = await truncation.applied_in(tree.etcd, tree.keys, record.previous.name)
    assert truncated is not None
    assert forgettable(machine, {"b"}, truncated) == ["a"]
    assert forgettable(machine, {"a", "b"}, truncated) == []
    assert forgettable(machine, {"b"}, {}) == []
    assert not await drop_incarnation(tree.etcd, tree.keys, "b", machine.applied["b"])
    # By a state that lacks entry 90, which a watch has left out.
    assert not await drop_incarnation(tree.etcd, tree.keys, "a", 89)
    assert await drop_incarnation(tree.etcd, tree.keys, "a", machine.applied["a"])
    assert not await tree.names(*tree.keys.entries_of("a"))
    await tree.send("b", [Request(Kind.FORGET, 0, 0, (), encode_forget("a"))])
    await tree.snapshot("b")
    loaded = await load_as_of(tree.etcd, tree.keys)
    assert loaded.machine.applied.keys() == {"b"}
    await check(tree)


async def test_a_dead_incarnation_that_never_counted_is_deleted() -> None:
    tree = await busy_tree()
    for name in ("dead", "living"):
        tree.revisions[name] = tree.change(Put(tree.keys.proxy(name), b"")).revision
        await tree.send(name, [opened(77)], number=2)
    await tree.go("dead")
    await tree.snapshot("a")
    assert [len(await tree.names(*tree.keys.entries_of(name))) for name in ("dead", "living")] == [0, 1]
    await check(tree)


async def test_a_file_for_tls_that_is_gone_is_said(tmp_path: Path) -> None:
    gone = str(tmp_path / "ca.pem")
    config = {"etcd": ["https://127.0.0.1:1"], "prefix": "/p", "ca": gone}
    said = await asyncio.to_thread(asyncio.run, snapshot_writer._run(config))
    assert said == Failed(f"[Errno 2] No such file or directory: '{gone}'")


@pytest.mark.long
def test_a_writer_whose_proxy_has_died_ends_without_a_traceback() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "proxy.log.upkeep.snapshot_writer"],
            input=b'{"etcd": ["http://127.0.0.1:1"], "prefix": "/p", "incarnation": "a", "revision": 1}\n',
            stdout=write,
            stderr=subprocess.PIPE,
            cwd=REPOSITORY,
            check=False,
            timeout=60,
        )
    finally:
        os.close(write)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"Broken pipe" not in done.stderr


def _noise(size: int) -> str:
    return b64encode(random.Random(size).randbytes(size * 3 // 4)).decode().replace("/", "-")


def _acl_set(tree: Tree, path: str, name: str) -> Request:
    body = pack_string(path) + pack_acls((Acl(31, "digest", name),)) + struct.pack(">i", -1)
    return Request(Kind.CLIENT, tree.session("a"), OpCode.SET_ACL, (), body)


@pytest.mark.parametrize(
    "case", ["a path", pytest.param("ACLs of many nodes", marks=pytest.mark.long), "data and ACL of one node"]
)
async def test_no_request_of_a_client_makes_snapshots_fail(case: str) -> None:
    """Else the log is never truncated, until etcd is full."""
    tree = await Tree().make("a")
    if case == "a path":
        await tree.create("a", f"/{_noise(1_000_000)}")
    elif case == "ACLs of many nodes":
        for number in range(200):
            await tree.create("a", f"/{number}")
            await tree.send("a", [_acl_set(tree, f"/{number}", f"u{number}:" + "x" * 350_000)])
    else:
        await tree.create("a", "/a", data=random.Random(1).randbytes(1_000_000))
        await tree.send("a", [_acl_set(tree, "/a", f"u:{_noise(1_000_000)}")])
    for turn in range(2):
        await tree.snapshot("a")
        loaded = await load_as_of(FakeEtcdClient(tree.store), tree.keys)
        assert loaded.base == (await tree.record()).current
        assert loaded.machine.compute_digest() == tree.ran().compute_digest()
        await tree.create("a", f"/after{turn}")


async def test_an_error_of_the_writers_own_is_said_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    tree = await Tree().make("a")
    job = Job("/t", "a", tree.revisions["a"])
    with mock.patch("proxy.state.capture.pages", side_effect=KeyError("a defect")):
        said = await snapshot_writer.reported(tree.etcd, job)
    assert said == Failed("KeyError: 'a defect'")
    assert "a defect" in caplog.text
