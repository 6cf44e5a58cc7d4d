"""What others delete of our own keys in etcd: what is gone is said."""

from lab.client.blocking import Client
from lab.servers import EtcdServer, wait_until
from lab.servers.operator import etcdctl, keys_of
from tests.faults.conftest import Start


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


def _delete_an_entry(etcd: EtcdServer) -> str:
    """Delete the last entry but one of the only proxy; returns its key."""
    key = keys_of(etcd, "/zketcd/live/log/")[-2]
    etcdctl(etcd, "del", key)
    return key


def test_what_a_deleted_entry_has_done_is_saved_by_a_snapshot(
    start: Start, own_etcd_server: EtcdServer
) -> None:
    proxy = start(own_etcd_server)
    with Client(proxy.port) as client:
        for path in ("/a", "/a/1", "/a/2"):
            client.create(path)
        _delete_an_entry(own_etcd_server)
        wait_until(lambda: "nothing is lost" in proxy.log_text(), "the snapshot")
        assert "were deleted, not by zketcd" in proxy.log_text()
        client.create("/a/3")
        with Client(start(own_etcd_server).port) as other:
            assert other.children("/a") == client.children("/a")


def test_a_deleted_entry_that_a_start_lacks_is_named(start: Start, own_etcd_server: EtcdServer) -> None:
    proxy = start(own_etcd_server)
    with Client(proxy.port) as client:
        for path in ("/a", "/b", "/c"):
            client.create(path)
    proxy.kill()
    key = _delete_an_entry(own_etcd_server)
    _, incarnation, number = key.rsplit("/", 2)
    missing = f"entry {int(number)} of {incarnation} is missing from the log, so the 1 behind it"
    for _ in range(2):  # the key of the proxy that was killed is there, and later it is not
        proxy = start(own_etcd_server)
        wait_until(lambda proxy=proxy: missing in proxy.log_text(), missing)  # type: ignore[misc]
        assert f"deleted the key {key}, restore etcd from a backup" in proxy.log_text()
