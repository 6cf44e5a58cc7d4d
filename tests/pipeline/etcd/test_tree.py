"""The tree as of one revision: the log behind the snapshot is replayed, and nothing is written."""

import asyncio
from base64 import b64encode
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec import client as zk
from codec.jute import Acl
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from lab.oracle.requests import SetAcl
from lab.servers import EtcdServer
from pipeline.etcd import read
from pipeline.etcd.columns import decode
from pipeline.etcd.options import Connection
from pipeline.etcd.read import TreeAt
from pipeline.etcd.record import NotReadable
from pipeline.etcd.tree import tree_at
from pipeline.sources.zketcd_tree import ZketcdReader, tree_as_of
from pipeline.table import SessionRow
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import Get, Put, Txn
from proxy.log.load import start
from proxy.options.etcd import DEFAULTS
from schema.fixed import fixed_nodes
from schema.keys import Keyspace
from tests.pipeline.etcd.rows import load_tree, row, rows, znode
from tests.proxy.etcd import admin
from tests.proxy.log.trees import Tree, asked
from tests.proxy.state.test_machine_histories import _OPENED, entries
from tests.proxy.state.world import Ask, Said, request_of
from zketcd.__main__ import main

KEYS = Keyspace("/t")
fields_of = attrgetter(
    "data", "acl", "owner", "czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "created", "aversion"
)


async def found_in(etcd: FakeEtcdClient, seen: TreeAt) -> dict[str, tuple[object, ...]]:
    """All nodes that a reader finds; each must come once."""
    batches = [] if seen.changed is None else [decode(page) for page in seen.changed.pages]
    if seen.snapshot is not None:
        batches += [one async for one in read.pages(etcd, KEYS, seen, range(seen.snapshot.node_pages))]
    nodes = {path: fields_of(node) for path, node in map(znode, rows(batches))}
    assert len(nodes) == sum(batch.num_rows for batch in batches) == seen.nodes
    return nodes


async def test_an_import_is_read_as_it_is(etcd: FakeEtcdClient) -> None:
    record = await load_tree(etcd, KEYS, [row("/"), row("/a")])
    seen = await tree_at(etcd, KEYS)
    assert (seen.snapshot, seen.changed) == (record.current, None)
    assert set(await found_in(etcd, seen)) == {"/a", *fixed_nodes()}


@given(entries, st.integers(0, 9))
def test_what_the_log_has_changed_is_replayed_and_nothing_written(
    history: list[tuple[str, list[Said]]], snapshot_after: int
) -> None:
    """As a proxy has it that starts now, also without any snapshot, and before what came later."""

    async def check() -> None:
        etcd = FakeEtcdClient(FakeEtcd())
        tree = await Tree(etcd).make()
        holder, asked = _OPENED
        await tree.come(*sorted({holder, *(name for name, _ in history)}))
        for count, (name, some) in enumerate([(holder, asked), *history]):
            await tree.send(name, map(request_of, some))
            if count == snapshot_after:
                await tree.snapshot(holder)
        machine = (await start.load_as_of(etcd, KEYS)).machine
        revision = etcd.store.revision
        for _ in range(2):
            seen = await tree_at(etcd, KEYS, revision)
            assert await found_in(etcd, seen) == {
                path: fields_of(node) for path, node in machine.tree.nodes.items()
            }
            found = {each.row for each in await read.sessions(etcd, KEYS, seen)}
            assert found == {SessionRow(each.id, each.timeout_ms) for each in machine.sessions.values()}
            assert (seen.last_zxid, seen.position <= revision) == (machine.zxid, True)
            assert etcd.store.revision in (revision, revision + 1)
            await tree.create(holder, "/later") if etcd.store.revision == revision else None

    asyncio.run(check())


async def test_what_was_deleted_behind_the_snapshot_is_not_found(etcd: FakeEtcdClient) -> None:
    tree = await Tree(etcd).make()
    await tree.come("a")
    for path in ("/kept", "/parent", "/parent/child"):
        await tree.create("a", path)
    await tree.snapshot("a")
    session = tree.session("a")
    await tree.send("a", [asked(session, zk.delete(path)) for path in ("/parent/child", "/parent")])
    assert set(await found_in(etcd, await tree_at(etcd, KEYS))) == {"/kept", *fixed_nodes()}


async def test_what_one_request_has_changed_is_found_however_much_it_is(etcd: FakeEtcdClient) -> None:
    """After very many changes a proxy settles its digest at once."""
    tree = await Tree(etcd).make()
    await tree.come("a")
    paths = [f"/n{number}" for number in range(1500)]
    await tree.create("a", "/kept", *paths)
    await tree.snapshot("a")
    session = tree.session("a")
    await tree.send("a", [asked(session, zk.multi([*map(zk.delete, paths), zk.create("/new")]))])
    assert set(await found_in(etcd, await tree_at(etcd, KEYS))) == {"/kept", "/new", *fixed_nodes()}


async def test_a_revision_that_the_log_no_longer_reaches(etcd: FakeEtcdClient) -> None:
    tree = await Tree(etcd).make()
    await tree.come("a")
    await tree.create("a", "/one")
    early = etcd.store.revision
    for name in ("/two", "/three"):
        await tree.create("a", name)
        await tree.snapshot("a")
    with pytest.raises(NotReadable, match="two newer snapshots were made since revision"):
        await tree_at(etcd, KEYS, early)


async def test_what_cannot_be_replayed_is_told(etcd: FakeEtcdClient) -> None:
    await load_tree(etcd, KEYS, [row("/")])
    await etcd.txn(Txn((), (Put(KEYS.entry("p", 1), b"no entry"),)), 1)
    with pytest.raises(NotReadable, match="entry 1 of p cannot be read"):
        await tree_at(etcd, KEYS)
    with pytest.raises(NotReadable, match="there is no tree"):
        await tree_at(etcd, Keyspace("/other"))


@pytest.mark.real
def test_a_user_with_read_permission_alone(tmp_path: Path) -> None:
    """Commands and Spark's reader, on a tree whose log has gone on since its only snapshot."""
    with EtcdServer("--bcrypt-cost=4") as server:
        asyncio.run(_filled(server.endpoint))
        admin.enable_authentication(
            server.endpoint, "reader", "secret", b"/tenant/", b"/tenant0", write=False
        )
        as_reader = ["--etcd-user", "reader", "--etcd-password", "secret"]
        there = f"etcd://{server.address}/tenant"
        before = asyncio.run(_revision(server.endpoint))
        data = str(tmp_path / "data")
        assert main(["export", data, "--etcd", server.endpoint, "--prefix", "/tenant", *as_reader]) == 0
        assert main(["verify", data, there, *as_reader]) == 0
        assert main(["inspect", there, *as_reader]) == 0
        assert main(["inspect", "--traffic", there, *as_reader]) == 0
        options = Connection(
            server.endpoint, "/tenant", access=replace(DEFAULTS, user="reader", password="secret")
        )
        reader = ZketcdReader(options, asyncio.run(tree_as_of(options)))
        assert "/b" in {each.path for part in reader.partitions() for each in rows(reader.read(part))}
        assert asyncio.run(_revision(server.endpoint)) == before


async def _filled(endpoint: str) -> None:
    client = EtcdClient([endpoint])
    await load_tree(client, Keyspace("/tenant"), [row("/", created=2), row("/a")])
    tree = Tree(client, "/tenant")
    await tree.come("p")
    await tree.create("p", "/b")
    await client.close()


async def _revision(endpoint: str) -> int:
    client = EtcdClient([endpoint], user="reader", password="secret")
    found = await client.range(Get(Keyspace("/tenant").tree), 5)
    await client.close()
    return found.revision


async def test_a_znode_in_pieces_is_read_once_wherever_the_ranges_of_pages_end(etcd: FakeEtcdClient) -> None:
    tree = await Tree(etcd).make()
    await tree.come("a")
    session = tree.session("a")
    data, name = Random(1).randbytes(1_000_000), b64encode(Random(2).randbytes(750_000)).decode()
    await tree.create("a", "/large", data=data)
    await tree.create("a", "/z")
    await tree.send("a", [request_of(Ask(session, SetAcl("/large", (Acl(31, "digest", f"u:{name}"),))))])
    await tree.snapshot("a")
    seen = await tree_at(etcd, KEYS)
    assert seen.snapshot is not None
    count = seen.snapshot.node_pages
    assert count == 4  # of the nodes before, two pieces, those after
    for size in range(1, count + 1):
        found = [
            batch
            for start in range(0, count, size)
            async for batch in read.pages(etcd, KEYS, seen, range(start, min(start + size, count)))
        ]
        paths = [path for path, _ in map(znode, rows(found))]
        assert sorted(paths) == sorted(["/large", "/z", *fixed_nodes()])
