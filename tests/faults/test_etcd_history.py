"""etcd's history is gone, or another one: compaction while a proxy is cut off, a restore from a backup."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lab.client import blocking as zk
from lab.client.blocking import (
    CHANGED,
    CHILDREN,
    CREATED,
    DELETED,
    EPHEMERAL,
    Client,
    Disconnected,
    events_of,
)
from lab.servers import EtcdServer, wait_until
from lab.servers.link import Link
from lab.servers.operator import etcdctl, revision_of
from tests.faults.agreement import assert_same, let_in_again
from tests.faults.conftest import Start

_LONG_MS = 600_000


class Backup:
    """A snapshot of an etcd, from which others can be made."""

    def __init__(self, etcd: EtcdServer, folder: Path) -> None:
        self._file = folder / "snapshot.db"
        etcdctl(etcd, "snapshot", "save", str(self._file))

    def restore(self) -> EtcdServer:
        """An etcd with what was saved, under a cluster id of its own; not started yet."""
        etcd = EtcdServer()
        peer = f"http://127.0.0.1:{etcd.peer_port}"
        etcdctl(
            None,
            "snapshot",
            "restore",
            str(self._file),
            f"--data-dir={etcd.data_dir}",
            "--name=test",
            f"--initial-cluster=test={peer}",
            f"--initial-advertise-peer-urls={peer}",
            "--initial-cluster-token=restored",
        )
        return etcd


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """For what a test opens on its way."""
    with ExitStack() as stack:
        yield stack


def test_a_proxy_on_a_restored_etcd_goes_on_above_all_zxids(
    start: Start, own_etcd_server: EtcdServer, stack: ExitStack, tmp_path: Path
) -> None:
    first = start(own_etcd_server)
    old = stack.enter_context(Client(first.port))
    old.create("/a", b"old")
    old.create("/a/b")
    old.create("/e", b"", EPHEMERAL)
    kept = old.stat("/a")
    backup = Backup(own_etcd_server, tmp_path)
    for number in range(50):
        old.write("/a", b"%d" % number)
    seen = old.zxid
    revision = revision_of(own_etcd_server)
    first.kill()
    own_etcd_server.kill()

    restored = stack.enter_context(backup.restore())
    assert revision_of(restored) < revision
    second = start(restored)
    # The session is in the backup, the zxid that its client has seen is not.
    old.reconnect(second.port)
    assert old.read("/a") == (b"old", kept)
    assert old.owner("/e") == old.id
    changed = old.write("/a", b"new", 0)
    assert changed.mzxid > seen
    assert changed.mzxid >> 32 == 1, "a new epoch"
    assert old.read("/a/b")[1].czxid < seen, "what is old stays as it was"
    # Started once more it stays in that epoch.
    second.restart()
    old.reconnect(second.port)
    assert old.read("/a") == (b"new", changed)
    assert old.write("/a", b"newer", 1).mzxid >> 32 == 1


def test_a_running_proxy_whose_etcd_is_restored(
    start: Start, own_etcd_server: EtcdServer, stack: ExitStack, tmp_path: Path
) -> None:
    many = range(120)
    link = stack.enter_context(Link(own_etcd_server.port))
    # No session ends by itself: they are silent for long, in both histories.
    proxy = start(link.endpoint, max_session_timeout=_LONG_MS)
    client = stack.enter_context(Client(proxy.port, _LONG_MS))
    for path in ("/a", "/undone", "/same", "/parent", "/n"):
        client.create(path, b"old")
    client.transact([zk.create(f"/n/{number}", b"old") for number in many])
    backup = Backup(own_etcd_server, tmp_path)
    # All of this will not have been.
    late = stack.enter_context(Client(proxy.port, _LONG_MS))
    late.create("/late", b"", EPHEMERAL)
    sender = stack.enter_context(Client(proxy.port, _LONG_MS))
    client.write("/a", b"lost")
    client.create("/later", b"lost")
    client.create("/parent/child")
    client.call(zk.delete("/undone"))
    for number in many:
        client.write(f"/n/{number}", b"lost")
    for path in ("/a", "/later", "/undone", "/same", "/late"):
        client.stat(path, watch=True)
    client.children("/parent", watch=True)
    seen = client.zxid

    restored = stack.enter_context(backup.restore())
    other = start(restored, max_session_timeout=_LONG_MS)
    writer = stack.enter_context(Client(other.port, _LONG_MS))
    revision = revision_of(own_etcd_server)
    writer.transact([zk.set_data(f"/n/{number}", b"new") for number in many])
    while revision_of(restored) <= revision + 20:  # other entries have the positions that those had
        for _ in range(40):
            writer.write("/same", b"old")

    link.block()
    sender.send(zk.set_data("/a", b"pending", 0), zk.create("/pending"))
    link.target = restored.port
    own_etcd_server.kill()
    link.unblock()
    # Nobody can tell what became of what was on its way: clients find out for themselves. In this history
    # this client's session has never been.
    with pytest.raises(Disconnected, match="closed the connection"):
        sender.receive()
    with pytest.raises(Disconnected, match="expired"):
        let_in_again(sender, proxy.port)
    # In this history nobody has written /a.
    assert writer.write("/a", b"pending", 0).version == 1
    assert sorted(events_of(client, 6)) == sorted(
        [
            (CHANGED, "/a"),
            (CHANGED, "/same"),
            (DELETED, "/later"),
            (CREATED, "/undone"),
            (DELETED, "/late"),
            (CHILDREN, "/parent"),
        ]
    )
    assert client.zxid > seen
    with pytest.raises(Disconnected):
        wait_until(late.ping, "the end of a session that never was")
    with pytest.raises(Disconnected, match="expired"):
        let_in_again(late, proxy.port)
    client.stat("/same", watch=True)
    writer.write("/same", b"new")
    client.sync()
    assert events_of(client, 7)[6] == (CHANGED, "/same")
    assert assert_same(client, writer) > len(many)
    assert client.write("/a", b"newest", 1).mzxid > seen
