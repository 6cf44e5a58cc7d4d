"""Loading a tree: fresh, from snapshots, torn ones, and during truncation or compaction."""

import asyncio
from unittest import mock

import pytest

from ctl.levels import raise_level
from lab.fakes.etcd import FakeEtcdClient
from proxy.etcd.model import Delete, EtcdRefused, Get, Put, RefusalKind
from proxy.log.follow.catch_up import Loaded
from proxy.log.follow.log_order import LogOrder
from proxy.log.load import start
from proxy.log.load.start import NotInLog, Wanted, load_as_of, load_to_serve
from proxy.log.record import TreeNotServable
from proxy.state.machine import Machine
from schema.entry import Kind, Request, encode_level
from schema.record import encode_record
from tests.proxy.log.trees import Ran, Tree, created, pages_of, value_of


class World(Tree):
    """A tree on the model, and a proxy that has followed it from the beginning."""

    def __init__(self) -> None:
        super().__init__()
        self.follower = Ran(self.store)

    async def load(self, *, make: bool = True) -> Loaded:
        return await load_to_serve(FakeEtcdClient(self.store), self.keys, make=make)

    async def as_of(self, wanted: Wanted) -> Loaded:
        return await load_as_of(FakeEtcdClient(self.store), self.keys, wanted)

    async def check(self) -> Loaded:
        """Who starts now has what the one has that ran."""
        loaded = await self.load()
        ran = self.follower.follow()
        assert pages_of(loaded.machine) == pages_of(ran)
        assert loaded.machine.applied == ran.applied
        assert not loaded.disagreements
        return loaded


@pytest.fixture
async def tree() -> World:
    world = World()
    await world.make("a", "b")
    return world


async def test_an_empty_prefix_becomes_a_tree() -> None:
    tree = World()
    loaded = await tree.load()
    assert set(loaded.machine.tree.nodes) == {"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"}
    assert loaded.base is None
    assert not loaded.fell_back
    assert loaded.cluster_id == loaded.machine.cluster_id == tree.store.cluster_id
    record = await tree.record()
    assert record.complete
    assert (record.current, record.previous) == (None, None)
    before = tree.store.revision
    await tree.load()
    assert tree.store.revision == before


async def test_commands_make_no_tree() -> None:
    with pytest.raises(TreeNotServable, match="there is no tree under"):
        await World().load(make=False)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("live/tree", b'{"version":1}', "cannot be served"),
        ("live/log/x/0000000000000001", b"", "its record|is missing"),
    ],
)
async def test_what_cannot_be_served_is_refused(key: str, value: bytes, words: str) -> None:
    tree = World()
    tree.change(Put(b"/t/" + key.encode(), value))
    with pytest.raises(TreeNotServable, match=words):
        await tree.load()


async def test_half_an_import_and_an_unknown_level_are_refused(tree: World) -> None:
    record = await tree.record()
    for changed, words in (
        (record._replace(complete=False), "import into /t is not complete, or the first load of a follow"),
        (record._replace(level=7), "has level 7, and this release of zketcd applies level 1. Start a newer"),
    ):
        tree.change(Put(tree.keys.tree, encode_record(changed)))
        with pytest.raises(TreeNotServable, match=words):
            await tree.load()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (value_of([Request(Kind.LEVEL, 0, 0, (), encode_level(7))]), r"entry 2 of a: .*level 7"),
        (b"rubbish", r"entry 2 of a cannot be read: .*zketcd void a 2"),
    ],
)
async def test_an_entry_that_cannot_be_applied_is_named(tree: World, value: bytes, words: str) -> None:
    await tree.put("a", value)
    with pytest.raises(TreeNotServable, match=words):
        await tree.load()


async def test_denied_access_is_told_at_once(tree: World) -> None:
    refusal = EtcdRefused(RefusalKind.PERMISSION, "etcdserver: permission denied")
    with (
        mock.patch.object(FakeEtcdClient, "txn", side_effect=refusal),
        pytest.raises(EtcdRefused, match="permission"),
    ):
        await tree.load()


async def test_a_starting_proxy_goes_on_where_the_load_stands(tree: World) -> None:
    """Also with an entry that waits for its predecessor, from a snapshot that was made while it waited."""
    ran = tree.follower
    await tree.fill("a", "x")
    session = tree.session("a")
    await tree.send("a", [created(session, "/late")], number=50)
    await tree.send("a", [created(session, "/later")], number=51)
    await tree.create("b", "/between")
    await tree.snapshot("b")
    await tree.create("b", "/after")
    assert "/late" not in ran.follow().tree.nodes
    loaded = await tree.check()
    assert [kv.key for kv in loaded.caught.entries] == [tree.keys.entry("a", 50), tree.keys.entry("a", 51)]

    order = LogOrder(tree.keys)
    order.restart(loaded.machine.applied)
    caught = loaded.caught
    order.take_read(caught.revision, caught.entries, caught.proxies, caught.pair)
    assert order.held("a") == 2
    for number in range(43, 50):
        await tree.send("a", [created(session, f"/missing{number}")], number=number)
    assert {"/late", "/later"} <= ran.follow().tree.nodes.keys()
    assert (await tree.check()).base is not None
    # And from a snapshot that has them all.
    await tree.snapshot("b")
    await tree.create("b", "/end")
    await tree.check()


async def test_what_a_dead_proxy_left_behind_a_gap_never_counts(tree: World) -> None:
    session = tree.session("a")
    await tree.send("a", [created(session, "/good")])
    await tree.send("a", [created(session, "/never")], number=4)
    await tree.go("a")
    await tree.create("b", "/b")
    loaded = await tree.check()
    assert "/never" not in loaded.machine.tree.nodes
    await tree.snapshot("b")
    await tree.create("b", "/c")
    await tree.snapshot("b")
    await tree.check()


@pytest.mark.parametrize("page", ["nodes/00000000", "sessions/00000000", "state"])
@pytest.mark.parametrize("damage", ["torn", "missing"])
async def test_a_damaged_page_is_not_the_end(tree: World, page: str, damage: str, caplog: object) -> None:
    await tree.fill("a", "x")
    first = (await tree.snapshot("a")).ref
    await tree.fill("b", "y")
    second = (await tree.snapshot("b")).ref
    assert second is not None
    await tree.create("b", "/end")
    key = b"%b%b/%b" % (tree.keys.snapshots, second.name.encode(), page.encode())
    (kv,) = (await tree.etcd.range(Get(key), 5)).kvs
    broken = Put(key, kv.value[:-9] + b"\0" * 9) if damage == "torn" else Delete(key)
    tree.change(broken)
    loaded = await tree.check()
    assert loaded.fell_back
    assert loaded.base == first
    # The next snapshot replaces the damaged one and keeps the good one.
    third = (await tree.snapshot("a")).ref
    record = await tree.record()
    assert (record.current, record.previous) == (third, first)
    loaded = await tree.check()
    assert (loaded.fell_back, loaded.base) == (False, third)
    await tree.fill("a", "z")
    assert (await tree.check()).log_requests == 41
    assert await tree.snapshots() == {ref.name for ref in (first, third) if ref}


async def test_the_first_snapshot_may_be_damaged_too(tree: World) -> None:
    await tree.fill("a", "x")
    first = (await tree.snapshot("a")).ref
    assert first is not None
    await tree.create("b", "/end")
    tree.change(Delete(tree.keys.node_page(first.name, 0)))
    loaded = await tree.check()
    assert loaded.base is None
    assert loaded.fell_back
    # But not if the log is not the whole of the tree, as after an import.
    tree.change(Delete(tree.keys.entry("a", 1)), Delete(tree.keys.entry("a", 2)))
    with pytest.raises(TreeNotServable, match="the log does not hold all that was in it"):
        await tree.load()


async def test_a_log_without_its_first_snapshot_begins_at_the_level_that_the_tree_had_then(
    tree: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As of a release that knows another level.
    monkeypatch.setattr(start, "KNOWN", (1, 2))
    defaults = Machine.__init__.__kwdefaults__ or {}
    assert "known_levels" in defaults
    monkeypatch.setitem(defaults, "known_levels", (1, 2))
    first = (await tree.snapshot("a")).ref
    assert first is not None
    assert await raise_level(tree.etcd, tree.keys, 2, levels=(1, 2))
    position = await tree.create("a", "/end")
    tree.change(Delete(tree.keys.node_page(first.name, 0)))
    assert (await load_to_serve(tree.etcd, tree.keys, (1, 2))).machine.level == 2
    # And who asks for an older state gets that of its level.
    assert (await tree.as_of(Wanted(upto=first.position))).machine.level == 1
    assert (await tree.as_of(Wanted(upto=position))).machine.level == 2


async def test_two_damaged_snapshots_are_the_end(tree: World) -> None:
    for name in "xy":
        await tree.fill("a", name)
        await tree.snapshot("a")
    for name in await tree.snapshots():
        tree.change(Delete(tree.keys.state_page(name)))
    with pytest.raises(TreeNotServable, match="neither snapshot"):
        await tree.load()


@pytest.mark.long
async def test_truncation_overtakes_a_start(tree: World) -> None:
    """At every request of a load, two snapshots and their truncation come in between."""
    for name in "xy":
        await tree.fill("a", name)
        await tree.snapshot("a")
    await tree.fill("b", "z")

    for at in range(40):
        client = _Overtaken(tree, at)
        loaded = await load_to_serve(client, tree.keys)
        assert pages_of(loaded.machine) == pages_of(tree.ran(loaded.caught.revision))
        if client.requests <= at:
            break
    else:
        pytest.fail("a load takes more than 40 requests")
    assert at > 5
    await tree.check()


class _Overtaken(FakeEtcdClient):
    """Just before the n-th request two snapshots come in between."""

    def __init__(self, tree: Tree, at: int) -> None:
        super().__init__(tree.store)
        self._tree, self._at = tree, at
        self.requests = 0

    async def _contact(self) -> None:
        self.requests += 1
        if self.requests == self._at + 1:
            for part in range(2):
                await self._tree.fill("b", f"over{self._at}.{part}", 3)
                await self._tree.snapshot("b")
        await super()._contact()


async def test_older_states(tree: World) -> None:
    positions = [await tree.create("a", f"/{number}") for number in range(5)]
    await tree.snapshot("a")
    positions += [await tree.create("a", f"/{number}") for number in range(5, 10)]
    for number, position in enumerate(positions):
        loaded = await tree.as_of(Wanted(upto=position))
        assert f"/{number}" in loaded.machine.tree.nodes
        assert f"/{number + 1}" not in loaded.machine.tree.nodes
    await tree.snapshot("a")
    await tree.create("a", "/last")
    loaded = await tree.as_of(Wanted(upto=positions[7]))
    assert "/7" in loaded.machine.tree.nodes
    assert "/8" not in loaded.machine.tree.nodes
    with pytest.raises(NotInLog, match="reaches back to position"):
        await tree.as_of(Wanted(upto=positions[2]))
    since = await tree.as_of(Wanted(since=positions[7]))
    assert since.base == (await tree.record()).previous
    assert pages_of(since.machine) == pages_of((await tree.load()).machine)
    entries = (await tree.load()).machine.entries
    limited = await tree.as_of(Wanted(entries=entries - 2))
    assert (limited.machine.entries, len(limited.caught.entries)) == (entries - 2, 2)
    with pytest.raises(NotInLog, match="entries so far"):
        await tree.as_of(Wanted(entries=entries + 1))


async def test_a_load_goes_on_when_etcd_comes_back(tree: World) -> None:
    client = FakeEtcdClient(tree.store)
    client.disconnect()
    loading = asyncio.get_running_loop().create_task(load_to_serve(client, tree.keys))
    await asyncio.sleep(0.01)
    assert not loading.done()
    client.reconnect()
    assert (await loading).machine.applied == {"a": 1, "b": 1}


async def test_proxies_that_start_at_once_make_one_tree() -> None:
    tree = World()
    loads = await asyncio.gather(*(tree.load() for _ in range(5)))
    assert len({loaded.caught.pair.mod_revision for loaded in loads}) == 1
