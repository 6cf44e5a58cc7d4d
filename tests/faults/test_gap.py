"""A proxy cut off from an etcd that goes on: what its clients learn of the time between."""

from tests.faults import client as zk
from tests.faults.client import (
    CHANGED,
    CHILDREN,
    CREATED,
    DELETED,
    EPHEMERAL,
    SESSION_EXPIRED,
    SESSION_MOVED,
    Client,
    events_of,
)
from tests.faults.conftest import Start
from tests.faults.link import Link
from tests.faults.tools import compact
from tests.harness import EtcdServer


def test_events_of_a_gap_in_the_stream_fire(start: Start, own_etcd_server: EtcdServer) -> None:
    """A proxy that was cut off while others wrote and etcd compacted all of it."""
    with Link(own_etcd_server.port) as link:
        cut_off, other = start(link.endpoint), start(own_etcd_server)
        with Client(cut_off.port) as watcher, Client(other.port) as writer, Client(other.port) as ending:
            nodes = ("deleted", "changed", "reborn", "parent", "same", "brief", "both")
            for name in nodes:
                writer.create(f"/{name}")
            writer.create("/parent/old")
            ending.sync()
            ending.create("/parent/ephemeral", b"", EPHEMERAL)
            watcher.sync()
            for name in (*nodes, "created", "never"):
                watcher.stat(f"/{name}", watch=True)
            watcher.stat("/parent/ephemeral", watch=True)
            watcher.children("/parent", watch=True)
            watcher.children("/brief", watch=True)
            watcher.children("/same", watch=True)
            link.block()
            writer.call(zk.delete("/deleted"))
            writer.write("/changed", b"new")
            writer.write("/both", b"new")
            writer.call(zk.delete("/both"))
            writer.transact([zk.delete("/reborn"), zk.create("/reborn", b"again")])
            writer.create("/created")
            writer.create("/parent/new")
            writer.call(zk.delete("/parent/old"))
            writer.create("/brief/child")
            writer.call(zk.delete("/brief/child"))
            writer.create("/never")
            writer.call(zk.delete("/never"))
            ending.close()
            writer.sync()
            assert not watcher.events
            compact(own_etcd_server)
            link.unblock()
            assert sorted(events_of(watcher, 8)) == sorted(
                [
                    (DELETED, "/deleted"),
                    (CHANGED, "/changed"),
                    (DELETED, "/both"),
                    (DELETED, "/reborn"),
                    (CREATED, "/created"),
                    (DELETED, "/parent/ephemeral"),
                    (CHILDREN, "/parent"),
                    (CHILDREN, "/brief"),
                ]
            )
            watcher.sync()
            assert len(watcher.events) == 8, "nothing fires twice, and nothing that did not change"
            writer.sync()
            for path in ("/", "/parent", "/brief"):
                assert watcher.children(path) == writer.children(path)
            for name in nodes:
                assert watcher.stat(f"/{name}") == writer.stat(f"/{name}")
            # What did not change is still watched.
            writer.write("/same", b"new")
            assert events_of(watcher, 9)[8] == (CHANGED, "/same")


def test_lasting_watches_outlive_a_gap(start: Start, own_etcd_server: EtcdServer) -> None:
    with Link(own_etcd_server.port) as link:
        cut_off, other = start(link.endpoint), start(own_etcd_server)
        with Client(cut_off.port) as watcher, Client(other.port) as writer:
            for name in ("deleted", "changed", "reborn", "parent"):
                writer.create(f"/{name}")
            watcher.sync()
            watcher.call(zk.add_watch("/", recursive=True))
            watcher.call(zk.add_watch("/parent", recursive=False))
            link.block()
            writer.call(zk.delete("/deleted"))
            writer.write("/changed", b"1")
            writer.write("/changed", b"2")
            writer.transact([zk.delete("/reborn"), zk.create("/reborn", b"again")])
            writer.create("/parent/new")
            compact(own_etcd_server)
            link.unblock()
            # The net change of each node: what became of it in between, nobody can tell any more.
            missed = [
                (DELETED, "/deleted"),
                (CHANGED, "/changed"),
                (DELETED, "/reborn"),
                (CREATED, "/reborn"),
                (CREATED, "/parent/new"),
                (CHILDREN, "/parent"),
            ]
            assert sorted(events_of(watcher, 6)) == sorted(missed)
            writer.write("/parent/new", b"1")
            writer.call(zk.delete("/parent/new"))
            watcher.sync()
            assert events_of(watcher, 9)[6:] == [
                (CHANGED, "/parent/new"),
                (DELETED, "/parent/new"),
                (CHILDREN, "/parent"),
            ]
            assert len(watcher.events) == 9


def test_a_client_of_a_proxy_that_is_cut_off_goes_on_at_another(
    start: Start, own_etcd_server: EtcdServer
) -> None:
    with Link(own_etcd_server.port) as link:
        cut_off, other = start(link.endpoint), start(own_etcd_server)
        with Client(cut_off.port) as client, Client(other.port) as watcher:
            client.create("/mine", b"", EPHEMERAL)
            link.block()
            client.send(zk.create("/perhaps"))
            client.reconnect(other.port)
            client.create("/mine-too", b"", EPHEMERAL)
            link.unblock()
            assert {reply.err for reply in client.until_closed(0)} <= {SESSION_MOVED, SESSION_EXPIRED}
            with Client(cut_off.port) as back:
                names, _ = back.children("/")
                assert names == {"zookeeper", "mine", "mine-too"}, "the write of a session that moved is void"
            client.close()
            watcher.sync()
            assert watcher.children("/")[0] == {"zookeeper"}
