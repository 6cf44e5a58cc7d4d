"""A budget over two proxies, as operators set it and clients meet it."""

from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ThrottledOpError

from codec import client as zk
from lab.client.blocking import OK, Client
from lab.servers import EtcdServer
from lab.servers.operator import ctl
from tests.faults.conftest import Start
from tests.kazoo import kazoo

pytestmark = pytest.mark.real

THROTTLED = -127
SYSTEM_ERROR = -1


def test_a_budget_over_two_proxies(start: Start, etcd_server: EtcdServer, etcd_prefix: str) -> None:
    first = start(etcd_server, prefix=etcd_prefix)
    with Client(first.port) as one:
        one.create("/app")
        one.create("/free")

    def run(*words: str) -> Any:
        return ctl(etcd_server, *words, prefix=etcd_prefix)

    second = start(etcd_server, prefix=etcd_prefix, budget="/app=2/s")  # the proxy makes it the tree's
    with Client(first.port) as one, Client(second.port) as two:
        codes = [client.refusal(zk.set_data("/app", b"")) for _ in range(25) for client in (one, two)]
        assert set(codes) == {OK, THROTTLED}
        assert codes[:2] == [OK] * 2
        assert two.refusal(zk.set_data("/free", b"")) == OK
        assert one.refusal(zk.multi([zk.set_data("/free", b""), zk.set_data("/app", b"")])) in (OK, THROTTLED)
    with kazoo(first) as client:
        with pytest.raises(ThrottledOpError):
            _set_often(client)
        client.delete("/free")
    with Client(first.port) as one:  # as a ClickHouse, which hangs at a code that it does not know
        one.read("/keeper/feature_flags")
        found = {one.refusal(zk.set_data("/app", b"")) for _ in range(25)}
        assert {SYSTEM_ERROR} <= found <= {OK, SYSTEM_ERROR}  # all of it may be spent already
    (listed,) = run("budget", "list")
    assert (listed["path"], listed["writes"], listed["bytes"]) == ("/app", 2, None)
    assert "the budget of /app is spent: requests are refused with THROTTLEDOP" in first.log_text()
    run("budget", "remove", "/app")
    with Client(first.port) as one:
        assert {one.refusal(zk.set_data("/app", b"")) for _ in range(50)} == {OK}


def _set_often(client: KazooClient) -> None:
    for _ in range(100):
        client.set("/app", b"from kazoo")
