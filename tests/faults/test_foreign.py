"""What others do to our own keys in etcd: keys that are not ours are ignored, what is gone is said."""

from lab.client.blocking import CHILDREN, Client, events_of
from lab.servers import EtcdServer
from lab.servers.operator import ctl, etcdctl
from tests.faults.conftest import Start


def test_keys_under_the_prefix_that_nobody_knows_are_ignored(
    start: Start, own_etcd_server: EtcdServer
) -> None:
    proxy = start(own_etcd_server)
    with Client(proxy.port) as client:
        client.create("/a")
        client.children("/a", watch=True)
        for key in (
            "other",
            "tree/a",
            "live/other",
            "live/tree2",
            "live/proxy/",
            "live/proxy/a/b",
            "live/log/",
            "live/log/other",
            "live/log/other/1",
            "live/log/other/0000000000000001/more",
            "live/logs/other/0000000000000001",
            "snapshot/other",
            "snapshot/7-other/nodes/1",
            "snapshots/7-other/nodes/00000001",
        ):
            etcdctl(own_etcd_server, "put", f"/zketcd/{key}", "something")
        client.create("/a/b")
        assert events_of(client, 1) == [(CHILDREN, "/a")]
        before = client.children("/"), client.children("/a")
        with Client(start(own_etcd_server).port) as other:
            assert (other.children("/"), other.children("/a")) == before
        # Neither do proxies that write snapshots and truncate, nor one that starts from there.
        for path in ("/a/c", "/a/d"):
            client.create(path)
            ctl(own_etcd_server, "snapshot")
        with Client(start(own_etcd_server).port) as other:
            assert other.children("/a") == client.children("/a")


def test_a_proxy_whose_tree_is_deleted_ends(start: Start, own_etcd_server: EtcdServer) -> None:
    proxy = start(own_etcd_server)
    with Client(proxy.port) as client:
        client.create("/a")
        etcdctl(own_etcd_server, "del", "--prefix", "/zketcd/")
        assert proxy.wait() == 1
        said = proxy.log_text()
        assert "Traceback" not in said
        (line,) = [line for line in said.splitlines() if "deleted" in line]
        assert line.startswith("zketcd: the tree under /zketcd was deleted from etcd")
        assert "Restore a backup" in line
    proxy.start()
    with Client(proxy.port) as client:
        assert client.children("/")[0] == {"zookeeper"}
        client.create("/a")
