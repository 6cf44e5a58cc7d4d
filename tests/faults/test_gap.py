"""A proxy cut off from an etcd that still works: what its clients learn of the time between."""

import pytest

from lab.client import blocking as zk
from lab.client.blocking import (
    CHANGED,
    CHILDREN,
    CREATED,
    DELETED,
    EPHEMERAL,
    Client,
    events_of,
)
from lab.servers import EtcdServer
from lab.servers.link import Link
from lab.servers.operator import compact
from tests.faults.agreement import truncate
from tests.faults.conftest import Start

TRUNCATED = pytest.mark.parametrize("truncated", [False, True])


@TRUNCATED
def test_events_of_a_gap_in_the_stream_fire(
    start: Start, own_etcd_server: EtcdServer, truncated: bool
) -> None:
    """A proxy that was cut off while others wrote and etcd compacted all of it.

    As long as the log still has the entries the clients get an event of each change, in order. Where they
    were truncated (`truncated`) a snapshot is loaded: then the net change of each node is what they can get.
    """
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
            if truncated:
                truncate(own_etcd_server, writer)
            compact(own_etcd_server)
            link.unblock()
            each = [
                (DELETED, "/deleted"),
                (CHANGED, "/changed"),
                (CHANGED, "/both"),
                (DELETED, "/reborn"),
                (CREATED, "/created"),
                (CHILDREN, "/parent"),
                (CHILDREN, "/brief"),
                (CREATED, "/never"),
                (DELETED, "/parent/ephemeral"),
            ]
            net = {*each, (DELETED, "/both")} - {(CHANGED, "/both"), (CREATED, "/never")}
            if truncated:
                assert sorted(events_of(watcher, len(net))) == sorted(net)
            else:
                assert events_of(watcher, len(each)) == each
            watcher.sync()
            told = len(watcher.events)
            assert told == len(net if truncated else each), "nothing fires twice, nor what did not change"
            assert ("loading the tree anew" in cut_off.log_text()) == truncated
            writer.sync()
            for path in ("/", "/parent", "/brief"):
                assert watcher.children(path) == writer.children(path)
            for name in nodes:
                assert watcher.stat(f"/{name}") == writer.stat(f"/{name}")
            # What did not change is still watched.
            writer.write("/same", b"new")
            assert events_of(watcher, told + 1)[told] == (CHANGED, "/same")
