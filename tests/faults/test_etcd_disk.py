"""The disk of etcd is full: etcd ends, and is there again with all writes once there is room."""

from contextlib import ExitStack, suppress

import pytest

from lab.client import blocking as zk
from lab.client.blocking import OK, Client, Disconnected
from lab.servers import EtcdServer, wait_until
from lab.servers.operator import etcdctl
from proof.torture.acts import fill
from proof.torture.host import abilities, give_disk
from tests.faults.conftest import Start

_JUNK = "x" * 100_000


def test_an_etcd_whose_disk_is_full_ends_and_comes_back_with_all_writes(start: Start) -> None:
    if reason := abilities().disks:
        pytest.skip(reason)
    etcd = EtcdServer()
    with ExitStack() as stack:
        stack.callback(etcd.close)
        stack.callback(give_disk(etcd.data_dir))
        etcd.start()
        proxy = start(etcd)
        with Client(proxy.port) as client:
            client.create("/a", b"data")
            ballast = fill(etcd.data_dir)

            def ended() -> bool:
                with suppress(RuntimeError):
                    etcdctl(etcd, "put", "junk", given=_JUNK)
                return not etcd.alive

            def is_back() -> bool:
                try:
                    client.reconnect(proxy.port)
                except (Disconnected, OSError):
                    return False
                return client.refusal(zk.set_data("/a", b"more")) == OK

            wait_until(ended, "etcd ends", interval=0)
            assert "no space left on device" in etcd.log_text()
            ballast.unlink()
            etcd.start()
            wait_until(is_back, "the session goes on", interval=0.2)
            assert client.stat("/a").version == 1  # type: ignore[union-attr]
            assert etcdctl(etcd, "alarm", "list") == ""
