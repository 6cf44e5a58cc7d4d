"""etcd asleep for longer than the proxies' leases, under many sessions.

ZKETCD_TEST_PROXIES and ZKETCD_TEST_SESSIONS (at each) make it larger: 20 and 1000 for a night.
"""

import os
import threading
import time
from contextlib import ExitStack
from itertools import chain

from lab.client import blocking as zk
from lab.client.blocking import EPHEMERAL, Client
from lab.servers import EtcdServer, wait_until
from lab.servers.operator import ctl
from tests.faults.agreement import let_in_again
from tests.faults.conftest import Start
from tests.faults.pinging import pinging

_PROXIES = int(os.environ.get("ZKETCD_TEST_PROXIES", "4"))
_SESSIONS = int(os.environ.get("ZKETCD_TEST_SESSIONS", "50"))
_LEASE_S = 2
_ASLEEP_S = 6.0
#: Seconds after which everybody writes again: new incarnations, and the sessions carried over.
_RECOVERY_S = 10.0 + _PROXIES * _SESSIONS / 200


def _write(clients: list[Client], failures: list[BaseException]) -> None:
    try:
        for client in clients:
            client.write("/n", b"")
            assert client.owner(f"/e-{client.id:x}") == client.id
    except BaseException as failure:  # noqa: BLE001 - raised again in the test's own thread
        failures.append(failure)


def test_no_session_is_lost_and_recovery_is_bounded(start: Start, own_etcd_server: EtcdServer) -> None:
    etcd = own_etcd_server
    proxies = [start(etcd, proxy_lease=_LEASE_S) for _ in range(_PROXIES)]
    with ExitStack() as stack:
        first = stack.enter_context(Client(proxies[0].port))
        first.create("/n")
        crowds = []
        began = time.monotonic()
        for proxy in proxies:
            crowd = [stack.enter_context(Client(proxy.port)) for _ in range(_SESSIONS)]
            crowd[0].sync()
            for client in crowd:
                client.create(f"/e-{client.id:x}", mode=EPHEMERAL)
            crowds.append(crowd)
            for client in (first, *chain(*crowds)):
                client.ping()
        calm = time.monotonic() - began  # more on a busy machine
        # A timeout below the outage: the connection is closed, since nobody can keep the session alive.
        (short,) = stack.enter_context(pinging(proxies[0].port, "/short", 4_000))
        before = {proxy["proxy"] for proxy in ctl(etcd, "proxies")}
        etcd.pause()
        writing = first.send(*[zk.set_data("/n", b"")] * 3)
        time.sleep(_ASLEEP_S)
        wait_until(lambda: short.closed, "the connection is closed")
        etcd.resume()
        woken = time.monotonic()
        failures: list[BaseException] = []
        threads = [threading.Thread(target=_write, args=(crowd, failures)) for crowd in crowds]
        for thread in threads:
            thread.start()
        let_in_again(short.client, proxies[1].port)
        for xid in writing:
            first.result(xid)
        for thread in threads:
            thread.join(60)
        took = time.monotonic() - woken
        if failures:
            raise failures[0]
        assert took < _RECOVERY_S + calm, f"it took {took:.1f} s until everybody wrote again"
        assert short.client.owner(short.path) == short.client.id
        assert len(ctl(etcd, "sessions")) >= _PROXIES * _SESSIONS + 2
        after = {proxy["proxy"] for proxy in ctl(etcd, "proxies")}
        assert not before & after, "the leases had run out: these are new incarnations"
