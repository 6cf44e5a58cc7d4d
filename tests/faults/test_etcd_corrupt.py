"""An etcd with the alarm CORRUPT refuses all writes until it is disarmed; keep-alives and reads go on."""

import json
import time
from collections.abc import Iterator

import pytest

from lab.client.blocking import EPHEMERAL, Client, Disconnected
from lab.servers import EtcdServer, free_port, wait_until
from lab.servers.operator import ask, etcdctl
from tests.faults.conftest import Start, comes_back
from tests.proxy.etcd import admin


@pytest.fixture
def corrupt_etcd() -> Iterator[EtcdServer]:
    with EtcdServer() as etcd:
        yield etcd


def _raise_alarm(etcd: EtcdServer) -> None:
    """As etcd does when its checks find that a member's data differ."""
    status = json.loads(etcdctl(etcd, "endpoint", "status", "--write-out=json"))
    member = status[0]["Status"]["header"]["member_id"]
    alarm = {"action": "ACTIVATE", "memberID": str(member), "alarm": "CORRUPT"}
    admin.post(etcd.endpoint, "maintenance/alarm", alarm)


def test_clients_lose_their_connections_and_keep_their_sessions(
    start: Start, corrupt_etcd: EtcdServer
) -> None:
    admin_port = free_port()
    proxy = start(corrupt_etcd, max_staleness=2, proxy_lease=2, admin_listen=f"127.0.0.1:{admin_port}")
    with Client(proxy.port, timeout_ms=4000) as client:
        client.create("/lock", b"", EPHEMERAL)
        _raise_alarm(corrupt_etcd)
        with pytest.raises(Disconnected):
            client.create("/x")
        wait_until(lambda: ask(admin_port, "/ready")[0] == 503, "it is not ready")
        assert (
            "closing all connections: etcd refuses entries: etcdserver: corrupt cluster" in proxy.log_text()
        )
        time.sleep(5)  # longer than the session's timeout
        admin.disarm(corrupt_etcd.endpoint)
        wait_until(lambda: comes_back(client, proxy.port), "the client is back")
        stat = client.stat("/lock")
        assert stat is not None
        assert stat.ephemeral_owner == client.id
