"""diff and revert: the plan, and what it writes to a served tree."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from archive.files.moment import NOW
from archive.files.store import store_of
from archive.past.state import state_at
from cli.client import Client as SessionClient
from cli.client import Refused
from codec import client as zk
from codec.constants import CreateMode
from codec.jute import OPEN_ACL, Acl
from lab.client.blocking import EPHEMERAL, SEQUENTIAL, Client
from lab.servers import EtcdServer, ZketcdServer
from lab.servers.tls import Authority
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import Put, Txn
from proxy.log.record import look
from schema.keys import Keyspace
from schema.record import Seal, encode_record
from tests.archive.archives import ROOT, Archive, Nodes, seen_by
from zketcd.__main__ import main

pytestmark = pytest.mark.real

_READ = (Acl(31, "digest", "x:y"), Acl(31, "world", "anyone"))


class World:
    """A served tree with an archive, in which a subtree is deleted."""

    def __init__(self, archive: Archive, server: ZketcdServer, client: Client, etcd: list[str]) -> None:
        self.archive = archive
        self.client = client
        archive.clients = [client]
        self._etcd = etcd
        self.server = server
        for path, data in ((ROOT, b"root"), (f"{ROOT}/a", b"one"), (f"{ROOT}/a/b", None), (f"{ROOT}/q", b"")):
            client.create(path, data)
        client.call(zk.set_acl(f"{ROOT}/a/b", _READ))
        client.call(zk.create(f"{ROOT}/container", mode=CreateMode.CONTAINER))
        client.create(f"{ROOT}/container/child")
        for _ in range(250):
            client.create(f"{ROOT}/q/n", b"x", SEQUENTIAL)
        for number in range(240):
            client.call(zk.delete(f"{ROOT}/q/n{number:010d}"))
        client.create(f"{ROOT}/session", b"", EPHEMERAL)
        self.good = seen_by(client)

    def delete_all(self) -> None:
        """As `deleteall` does."""
        for path in sorted(seen_by(self.client).nodes, reverse=True):
            self.client.call(zk.delete(path))

    def at(self) -> str:
        """The moment before the deletion."""
        return f"0x{self.good.zxid:x}"

    def run(self, *words: str) -> tuple[int, list[str]]:
        """A command on the archive, after all is archived."""
        self.archive.until(self.client.zxid)
        status, out = self.archive.run(*words, "--archive", self.archive.url, *self._etcd)
        return status, out.splitlines()

    def revert(self, *words: str, path: str = ROOT) -> tuple[int, list[str]]:
        """A revert to the good moment."""
        return self.run("revert", path, "--to", self.at(), "--server", self.server.address, *words)


@pytest.fixture
def world(
    zketcd_server: ZketcdServer, etcd_server: EtcdServer, etcd_prefix: str, archive: Archive
) -> Iterator[World]:
    archive.start()
    etcd = ["--etcd", etcd_server.endpoint, "--prefix", etcd_prefix]
    with Client(zketcd_server.port) as client:
        yield World(archive, zketcd_server, client, etcd)


def _content(nodes: Nodes) -> dict[str, tuple[bytes | None, tuple[Acl, ...]]]:
    """What a revert brings back."""
    return {path: (data, acl) for path, (data, _, acl) in nodes.items() if path != f"{ROOT}/session"}


def test_a_deleted_subtree_comes_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.delete_all()
    status, lines = world.run("diff", world.at(), "now", ROOT)
    assert (status, len(lines)) == (1, len(world.good.nodes))
    assert f"deleted {ROOT} (4 bytes)" in lines
    status, lines = world.revert()
    assert status == 0
    assert lines[0] == f"create {ROOT}"
    assert f"raise the counter of {ROOT}/q by 240" in lines
    assert f"left out: {ROOT}/session: ephemeral" in lines
    assert world.client.stat(ROOT) is None, "the plan alone writes nothing"

    # The writer is killed after each multi; the plan that is made again has the rest.
    monkeypatch.setattr(zk, "MOST_TOGETHER", 50)
    multi = SessionClient.multi

    def once(self: SessionClient, parts: object) -> None:
        multi(self, parts)  # type: ignore[arg-type]
        raise Refused("killed")

    with monkeypatch.context() as killed:
        killed.setattr(SessionClient, "multi", once)
        for _ in range(3):
            assert world.revert("--yes")[0] == 1
    assert world.revert("--yes")[0] == 0
    back = seen_by(world.client)
    assert _content(back.nodes) == _content(world.good.nodes)
    assert world.client.create(f"{ROOT}/q/n", b"", SEQUENTIAL) == f"{ROOT}/q/n0000000250"
    world.client.call(zk.delete(f"{ROOT}/q/n0000000250"))
    assert [line for line in world.revert()[1] if not line.startswith("left out")] == []
    assert world.run("diff", world.at(), "now", ROOT)[1] == [f"deleted {ROOT}/session (0 bytes)"]
    container = state_at(store_of(world.archive.url), NOW).tree.nodes[f"{ROOT}/container"]
    assert container.owner == -(1 << 63)


async def _no_longer_complete(etcd: EtcdServer, keys: Keyspace, seal: Seal | None, *more: Put) -> None:
    """Change the tree's record, and put other keys."""
    client = EtcdClient((etcd.endpoint,))
    try:
        record = (await look(client, keys)).record
        assert record is not None
        put = Put(keys.tree, encode_record(record._replace(complete=False, seal=seal)))
        await client.txn(Txn((), (put, *more)), 10)
    finally:
        await client.close()


@pytest.mark.parametrize("what", ["a copy", "a sealed tree"])
def test_a_tree_that_is_not_served_is_compared_as_well(
    zketcd_server: ZketcdServer, etcd_server: EtcdServer, etcd_prefix: str, archive: Archive, what: str
) -> None:
    archive.start()
    with Client(zketcd_server.port) as client:
        client.create(ROOT)
        archive.clients = [client]
        archive.until(client.zxid)
        before = f"0x{client.zxid:x}"
        client.create(f"{ROOT}/new")
        archive.until(client.zxid)
    etcd = ["--etcd", etcd_server.endpoint, "--prefix", etcd_prefix]
    assert main(["snapshot", *etcd]) == 0
    zketcd_server.stop()
    keys = Keyspace(etcd_prefix)
    if what == "a copy":
        unserved = _no_longer_complete(etcd_server, keys, None, Put(keys.follows, b"somewhere"))
    else:
        seal = Seal(etcd_server.endpoint, "/moved", 1, 1)
        unserved = _no_longer_complete(etcd_server, keys, seal)
    asyncio.run(unserved)
    compared = ("diff", before, "now", ROOT, "--archive", archive.url, *etcd)
    status, said = archive.run(*compared)
    assert status == 1
    assert f"created {ROOT}/new (0 bytes)\n" in said


def test_undelete_finds_the_moment_before_the_first_delete(world: World) -> None:
    client = world.client
    client.call(zk.delete(f"{ROOT}/q/n0000000245"))  # before, and not a part of it
    client.write(f"{ROOT}/a", b"last")
    good = seen_by(client)
    world.delete_all()
    late = ["--to", f"0x{client.zxid - 1:x}"]  # only the node itself is left
    server = ["--server", world.server.address]

    status, lines = world.run("revert", ROOT, *late, *server)
    assert status == 1
    assert lines[0] == f"create {ROOT}"
    found = f"deleted {len(good.nodes)} nodes from"
    assert any(found in line and "--undelete brings back all of them" in line for line in lines)

    status, lines = world.run("revert", ROOT, "--undelete", *server, "--yes")
    assert status == 0
    assert f"create {ROOT}/a/b" in lines
    assert _content(seen_by(client).nodes) == _content(good.nodes)


def test_a_node_that_a_multi_has_replaced_can_be_reverted(world: World) -> None:
    client, path = world.client, f"{ROOT}/a/b"
    client.transact([zk.delete(path), zk.create(path, b"instead")])
    for how in (["--to", world.at()], ["--undelete"]):
        status, lines = world.run("revert", path, *how, "--server", world.server.address, "--force")
        assert (status, lines[0]) == (0, f"set {path}")


def test_undelete_needs_a_deletion(world: World) -> None:
    status, lines = world.run("revert", ROOT, "--undelete", "--server", world.server.address)
    assert (status, lines[-1]) == (
        1,
        f"zketcd revert: the archive has no deletion of {ROOT}: --to names a moment",
    )


def test_undelete_passes_over_other_clients_and_what_they_delete(world: World) -> None:
    with Client(world.server.port) as other:
        other.create(f"{ROOT}/a/other")
        good = seen_by(world.client)
        world.client.call(zk.delete(f"{ROOT}/a/b"))
        other.call(zk.delete(f"{ROOT}/a/other"))
        other.create(f"{ROOT}/late")
        world.delete_all()
        status, _ = world.run("revert", ROOT, "--undelete", "--server", world.server.address, "--yes")
        assert status == 0
        assert _content(seen_by(world.client).nodes) == _content(good.nodes)


def test_undelete_brings_back_what_several_clients_have_deleted_in_turn(world: World) -> None:
    client, undelete = world.client, ["revert", ROOT, "--undelete", "--server", world.server.address]
    good = seen_by(client)
    with Client(world.server.port) as interrupted:
        for number in range(240, 245):
            interrupted.call(zk.delete(f"{ROOT}/q/n{number:010d}"))
        world.delete_all()
        assert world.run(*undelete, "--yes")[0] == 0
        assert _content(seen_by(client).nodes) == _content(good.nodes)

        # If another change lies between, it is not certain that all of it was one deletion.
        with Client(world.server.port) as another:
            interrupted.call(zk.delete(f"{ROOT}/a/b"))
            before = f"0x{interrupted.zxid - 1:x}"
            another.call(zk.delete(f"{ROOT}/container/child"))
            client.write(f"{ROOT}/a", b"meanwhile")
            world.delete_all()
            status, lines = world.run(*undelete, "--yes")
        assert status == 1
        (line,) = [line for line in lines if line.startswith("before that, ")]
        assert line.count("session 0x") == 2
        assert f"left out: --to {before} brings these back too, but not what was changed in between" in line
        assert client.stat(f"{ROOT}/a") is not None
        assert client.stat(f"{ROOT}/a/b") is None


def test_what_others_have_changed_is_a_conflict(world: World) -> None:
    client = world.client
    client.call(zk.delete(f"{ROOT}/a/b"))
    client.write(f"{ROOT}/a", b"wrong")
    client.create(f"{ROOT}/new")
    client.call(zk.set_acl(f"{ROOT}/q", _READ))
    middle = f"0x{client.zxid:x}"
    client.write(ROOT, b"by another")
    client.create(f"{ROOT}/new/below")
    later = [(ROOT, "changed since"), (f"{ROOT}/new/below", "created since")]
    early = [(f"{ROOT}/a", "changed since"), (f"{ROOT}/new", "created since"), (f"{ROOT}/q", "changed since")]

    def conflicts(*words: str) -> list[tuple[str, str]]:
        found = [json.loads(line) for line in world.revert("--json", *words)[1] if line.startswith("{")]
        return sorted((each["conflict"], each["why"]) for each in found if "conflict" in each)

    assert conflicts() == sorted(early + later)
    assert conflicts("--until", middle) == later
    assert world.revert("--until", middle, "--yes")[0] == 1
    nodes = seen_by(client).nodes
    assert (nodes[ROOT][0], nodes[f"{ROOT}/a"][0]) == (b"by another", b"one")
    assert f"{ROOT}/new" in nodes, "it has a node that is left"
    assert nodes[f"{ROOT}/q"][2] == OPEN_ACL
    assert world.revert("--force", "--yes")[0] == 0
    assert _content(seen_by(client).nodes) == _content(world.good.nodes)
    assert client.stat(f"{ROOT}/session") is not None


def test_a_server_of_another_tree_is_refused(world: World, etcd_server: EtcdServer, etcd_prefix: str) -> None:
    world.client.call(zk.delete(f"{ROOT}/a/b"))
    with (
        ZketcdServer(etcd_server.endpoint, prefix=f"{etcd_prefix}-other") as other,
        Client(other.port) as client,
    ):
        client.create(ROOT, b"of the other tree")
        client.create(f"{ROOT}/a")
        words = ["--to", world.at(), "--force", "--server", other.address, "--yes"]
        status, lines = world.run("revert", ROOT, *words)
        refusal = f"{other.address} does not serve the tree under {etcd_prefix}: the session that it gave"
        assert (status, len(lines), refusal in lines[0]) == (1, 1, True), lines
        assert client.read(ROOT).data == b"of the other tree"
        assert client.stat(f"{ROOT}/a/b") is None
    assert world.revert("--yes")[0] == 0
    assert world.client.stat(f"{ROOT}/a/b") is not None


def test_usage(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert world.run("diff", "0x1", "0xffffff")[0] == 2
    world.client.call(zk.delete(f"{ROOT}/a/b"))
    world.client.call(zk.delete(f"{ROOT}/a"))
    assert "does not exist: revert that" in world.revert(path=f"{ROOT}/a/b")[1][-1]
    odd = (["history", "app"], ["diff", "0x1", "0x2", f"{ROOT}/"], ["revert", f"{ROOT}/", "--to", "0x1"])
    incomplete = (["diff", "0x1"], ["revert", ROOT, "--archive", "x"])
    for words in (*incomplete, *([*each, "--archive", "x"] for each in odd)):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2


def test_a_revert_by_tls_and_sasl(
    etcd_server: EtcdServer, etcd_prefix: str, archive: Archive, tmp_path: Path
) -> None:
    """To a server that takes only TLS, serves only users, and has nodes that only one of them may change."""
    authority = Authority(tmp_path)
    pair = authority.issue("server", "127.0.0.1")
    archive.start()
    options = ["--tls-cert", str(pair.cert), "--tls-key", str(pair.key), "--listen-tls", "detect"]
    options += ["--tls-ca", str(authority.ca), "--sasl-user", "bob:secret"]
    with ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix, arguments=options) as server:
        with Client(server.port) as client:
            client.create("/above")
            client.create("/above/node", b"data")
            good = f"0x{client.zxid:x}"
            client.call(zk.delete("/above/node"))
            client.call(zk.set_acl("/above", (Acl(31, "sasl", "bob"), Acl(1, "world", "anyone"))))
            archive.until(client.zxid)
        words = ["/above/node", "--to", good, "--archive", archive.url, "--yes"]
        words += ["--etcd", etcd_server.endpoint, "--prefix", etcd_prefix]
        words += ["--server", server.address, "--server-ca", str(authority.ca), "--server-user", "bob"]
        words += ["--server-cert", str(pair.cert), "--server-key", str(pair.key)]
        status, out = archive.run("revert", *words, "--server-password", "wrong")
        assert (status, "does not accept the user of --server-user" in out) == (1, True), out
        assert archive.run("revert", *words, "--server-password", "secret")[0] == 0
        with Client(server.port) as client:
            assert client.read("/above/node").data == b"data"
