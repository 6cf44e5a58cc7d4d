"""The clock of one proxy's host is wrong: the other proxy, its metrics and the commands name the proxy."""

import urllib.request

from lab.client.blocking import Client
from lab.servers import EtcdServer, ZketcdServer, free_port, wait_until
from lab.servers.operator import ctl
from lab.servers.with_prelude import with_prelude

AN_HOUR_AHEAD = """
import time
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + 3600
time.time_ns = lambda: _time_ns() + 3600 * 10**9
"""


def test_a_clock_that_is_an_hour_ahead_is_named(etcd_server: EtcdServer, etcd_prefix: str) -> None:
    port = free_port()
    with (
        ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix, admin_listen=f"127.0.0.1:{port}") as right,
        with_prelude(
            AN_HOUR_AHEAD, etcd_server, prefix=etcd_prefix, admin_listen=f"127.0.0.1:{free_port()}"
        ) as wrong,
        Client(wrong.port) as client,
    ):
        client.create("/one")
        rows = {row["listen"]: row for row in ctl(etcd_server, "proxies", prefix=etcd_prefix)}
        named = rows[wrong.address]
        assert round(named["clock_ahead_seconds"] / 100) == 36
        assert round(rows[right.address]["clock_ahead_seconds"] / 100) == 0
        wait_until(
            lambda: (
                f"the clock of proxy {named['proxy']} ({named['host']} {wrong.address}) is 36"
                in right.log_text()
            ),
            "the log to name the proxy",
        )
        metrics = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60).read().decode()
        ahead = f'zketcd_proxy_clock_ahead_seconds{{host="{named["host"]}",proxy="{named["proxy"]}"}} 3'
        assert ahead in metrics
