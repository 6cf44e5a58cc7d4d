"""What ClickHouse servers that are gone leave: what is found, and what of it is never taken."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

from cli import client as ctl_client
from cli.client import Refused
from codec import client as zk
from codec.client import Request
from codec.constants import CreateMode, Perms
from codec.jute import Acl
from codec.longs import hex64
from ctl.clickhouse import Left, find, remove
from lab.client.blocking import Client
from lab.servers import EtcdServer, ZketcdServer
from lab.servers.operator import ctl
from proxy.etcd.client import EtcdClient
from proxy.log.load.start import load_as_of
from proxy.state.machine import Machine
from schema.keys import Keyspace

_TABLE = "/clickhouse/tables/t"
_DATABASE = "/clickhouse/databases/d"
_BACKUP = "/apps/backup-service"
_LOCKS = "/clickhouse/zero_copy/zero_copy_s3/d3a0"
_LATER = 1 << 60


def _make(client: Client, *paths: str, mode: int = CreateMode.PERSISTENT) -> None:
    """Create these, and what is missing above them."""
    for path in paths:
        _make_above(client, path)
        client.create(path, mode=mode)


def _make_above(client: Client, path: str) -> None:
    names = path.split("/")[1:]
    for depth in range(1, len(names)):
        above = "/" + "/".join(names[:depth])
        if client.stat(above) is None:
            client.create(above)


def _make_at_once(client: Client, path: str, *names: str) -> None:
    """Create a node and these children in one transaction, as ClickHouse makes a table."""
    _make_above(client, path)
    client.transact([zk.create(each) for each in (path, *(f"{path}/{name}" for name in names))])


def _replica(client: Client, name: str, *parts: str) -> None:
    """As ClickHouse makes it, without what does not matter here."""
    home = f"{_TABLE}/replicas/{name}"
    _make(client, f"{home}/host", f"{home}/is_lost", f"{home}/queue/queue-0000000001", f"{home}/columns")
    _make(client, *(f"{home}/parts/{part}/checksums" for part in parts))


class Tree:
    """A tree in etcd with a server, and the session of the ClickHouse server that lives."""

    def __init__(self, etcd: EtcdServer, prefix: str, port: int, client: Client) -> None:
        self.client = client
        self._etcd = etcd
        self._prefix = prefix
        self._port = port

    def run(self, *words: str) -> dict[str, tuple[bool, str]]:
        """What the command finds, each with whether it was removed, and the note."""
        server = f"127.0.0.1:{self._port}"
        options = () if "--hours" in words else ("--hours", "0")
        listed = ctl(self._etcd, "clickhouse", "--server", server, *options, *words, prefix=self._prefix)
        return {f"{one['kind']} {one['path']}": (one["removed"], one["note"]) for one in listed}

    def children(self, path: str) -> set[str]:
        return self.client.children(path)[0]

    def machine(self) -> Machine:
        """The tree as etcd has it."""

        async def loaded() -> Machine:
            etcd = EtcdClient([self._etcd.endpoint])
            try:
                return (await load_as_of(etcd, Keyspace(self._prefix))).machine
            finally:
                await etcd.close()

        return asyncio.run(loaded())

    def visitor(self) -> ctl_client.Client:
        """The session of a command."""
        return ctl_client.Client(("127.0.0.1", self._port), ())


@pytest.fixture
def tree(etcd_server: EtcdServer, etcd_prefix: str) -> Iterator[Tree]:
    """Server r1 lives; r2, r3 and r9 are gone."""
    with ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix) as server, Client(server.port) as r1:
        _make_at_once(r1, _TABLE, "blocks", "columns", "log", "metadata", "replicas")
        r1.create(f"{_TABLE}/table_shared_id", b"d3a0")
        _replica(r1, "r1", "all_0_4_1", "202601_0_0_0")
        _replica(r1, "r2", "all_0_1_0", "all_4_4_0", "all_5_5_0")
        _make(r1, f"{_TABLE}/replicas/r1/is_active", mode=CreateMode.EPHEMERAL)
        _make_at_once(r1, _DATABASE, "counter", "log", "metadata", "replicas", "max_log_ptr")
        _make(r1, *(f"{_DATABASE}/replicas/s|{name}/log_ptr" for name in ("r1", "r3")))
        _make(r1, f"{_DATABASE}/replicas/s|r1/active", mode=CreateMode.EPHEMERAL)
        _make(r1, f"{_BACKUP}/stage/db", f"{_LOCKS}/all_0_0_0/blob/r9")
        yield Tree(etcd_server, etcd_prefix, server.port, r1)


_REPLICA = f"replica {_TABLE}/replicas/r2"
_OF_DATABASE = f"database replica {_DATABASE}/replicas/s|r3"


def test_what_servers_that_are_gone_have_left_is_found_and_nothing_is_removed(tree: Tree) -> None:
    assert tree.run() == {_REPLICA: (False, "3 parts, 1 on no other replica"), _OF_DATABASE: (False, "")}
    assert tree.run(_TABLE).keys() == {_REPLICA}
    assert tree.run("--replica", "r3").keys() == {_OF_DATABASE}
    assert tree.run("--hours", "1") == {}


def test_a_replica_is_removed_only_if_it_is_named(tree: Tree) -> None:
    assert not any(removed for removed, _ in tree.run("--yes").values())
    assert tree.run("--yes", "--replica", "r1", "--replica", "r2", "--replica", "r3") == {
        _REPLICA: (True, "3 parts, 1 on no other replica"),
        _OF_DATABASE: (True, ""),
    }
    assert tree.run() == {}
    assert tree.children(f"{_TABLE}/replicas") == {"r1"}
    assert tree.children(f"{_DATABASE}/replicas") == {"s|r1"}
    assert tree.children(f"{_LOCKS}/all_0_0_0/blob") == {"r9"}  # a part of another shard may need it
    assert tree.children(f"{_BACKUP}/stage") == {"db"}  # an application's


def test_a_table_without_replicas_goes_as_a_whole(tree: Tree) -> None:
    tree.client.call(zk.delete(f"{_TABLE}/replicas/r1/is_active"))
    tree.run("--yes", "--replica", "r1", "--replica", "r2", _TABLE)
    _make(tree.client, f"{_TABLE}/deduplication_hashes", f"{_TABLE}/zero_copy_s3/shared")  # of newer releases
    assert tree.run("--yes", _TABLE) == {f"table {_TABLE}": (True, "has no replica")}
    assert tree.children("/clickhouse/tables") == set()


def test_a_table_that_has_nodes_of_others_stays(tree: Tree) -> None:
    tree.client.call(zk.delete(f"{_TABLE}/replicas/r1/is_active"))
    tree.run("--yes", "--replica", "r1", "--replica", "r2", _TABLE)
    _make(tree.client, f"{_TABLE}/orders/1")
    assert tree.run("--yes", _TABLE) == {}


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("blocks", "columns", "log", "metadata", "replicas"), ()),
        (("blocks", "columns", "log", "metadata", "dropped"), ()),
        (("blocks", "columns", "log", "metadata", "replicas/r2/orders"), ("--replica", "r2")),
        (("counter", "log", "metadata", "replicas/r2/orders"), ("--replica", "r2")),
    ],
)
def test_a_node_that_only_got_the_children_of_a_table_stays(
    tree: Tree, names: tuple[str, ...], words: tuple[str, ...]
) -> None:
    """Who may only create nodes in another program's had all of it deleted by the operator's command."""
    _make(tree.client, *(f"/apps/shop/{name}" for name in names))
    assert tree.run("--yes", *words, "/apps") == {}


def test_a_server_that_comes_back_meanwhile_keeps_its_replica(tree: Tree) -> None:
    (left,) = find(tree.machine(), _TABLE, (), 0, _LATER)
    _make(tree.client, f"{_TABLE}/replicas/r2/is_active", mode=CreateMode.EPHEMERAL)
    with closing(tree.visitor()) as visitor, pytest.raises(Refused, match="NODE_EXISTS"):
        remove(visitor, left)
    assert tree.children(f"{_TABLE}/replicas/r2") == {
        *("columns", "host", "is_active", "is_lost", "parts", "queue")
    }


def test_a_server_of_another_tree_is_refused(tree: Tree, etcd_server: EtcdServer, etcd_prefix: str) -> None:
    with (
        ZketcdServer(etcd_server.endpoint, prefix=f"{etcd_prefix}-other") as other,
        Client(other.port) as client,
    ):
        _replica(client, "r2", "all_0_1_0", "all_4_4_0", "all_5_5_0")
        refusal = f"{other.address} does not serve the tree under {etcd_prefix}:"
        with pytest.raises(RuntimeError, match=refusal):
            tree.run("--yes", "--replica", "r2", "--server", other.address)
        assert "host" in client.children(f"{_TABLE}/replicas/r2")[0]
    assert tree.run().keys() == {_REPLICA, _OF_DATABASE}


def test_a_removal_that_an_acl_denies_says_so(tree: Tree) -> None:
    queue = f"{_TABLE}/replicas/r2/queue"
    tree.client.call(zk.set_acl(queue, (Acl(Perms.READ, "world", "anyone"),)))
    with pytest.raises(RuntimeError, match=rf"delete {queue}/queue-0000000001: NO_AUTH"):
        tree.run("--yes", "--replica", "r2")
    assert tree.children(queue) == {"queue-0000000001"}


@pytest.mark.parametrize("name", ["all_0_--1_0", "all_²_0_0", f"all_{'9' * 5000}_0_0", "all_0_0", "x"])
def test_a_part_with_an_odd_name_ends_nothing(tree: Tree, name: str) -> None:
    _make(tree.client, f"{_TABLE}/replicas/r2/parts/{name}")
    assert tree.run()[_REPLICA] == (False, "4 parts, 2 on no other replica")


class _Killed(Exception):
    """The command was killed."""


def _killed_after_the_first_step(
    tree: Tree, left: Left, monkeypatch: pytest.MonkeyPatch
) -> ctl_client.Client:
    """The session of a removal that was killed after its first step."""
    visitor = tree.visitor()
    multi = visitor.multi

    def first(parts: Sequence[Request[Any]]) -> None:
        multi(parts)
        raise _Killed

    monkeypatch.setattr(visitor, "multi", first)
    with pytest.raises(_Killed):
        remove(visitor, left)
    return visitor


@pytest.mark.parametrize(("path", "names"), [(_TABLE, ("r2",)), (_DATABASE, ("r3",)), (_TABLE, ())])
def test_a_removal_that_was_killed_is_found_again(
    tree: Tree, path: str, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said that nothing was left: while its session lived, then for a day, and of a table for ever."""
    if not names:
        tree.client.call(zk.delete(f"{_TABLE}/replicas/r1/is_active"))
        tree.run("--yes", "--replica", "r1", "--replica", "r2", _TABLE)
    words = ["--yes", *(word for name in names for word in ("--replica", name)), path]
    (left,) = find(tree.machine(), path, names, 0, _LATER)
    with closing(_killed_after_the_first_step(tree, left, monkeypatch)) as killed:
        (held,) = find(tree.machine(), path, names, 0, _LATER)
        assert held.holder == killed.granted.session
        with pytest.raises(RuntimeError, match=f"session {hex64(held.holder)} of another run removes it"):
            tree.run(*words)
    (again,) = find(tree.machine(), path, names, 0, _LATER)
    assert again.path == left.path
    assert again.changed <= left.changed
    assert [removed for removed, _ in tree.run(*words).values()] == [True]
    assert f"{left.kind} {left.path}" not in tree.run()
