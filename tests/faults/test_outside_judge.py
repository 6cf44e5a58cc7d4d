"""What an outside judge found in the first version, under 430 faults: each must be impossible now.

Elsewhere: nodes made and deleted within a gap of the stream (test_gap), writes that stop after the death of
etcd's leader (test_cluster), all leases ended at once by an etcd that was asleep (test_etcd_asleep), one
zxid for two writes (compat/test_zxids).
"""

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack

from lab.client.blocking import EPHEMERAL, Client, Disconnected
from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.operator import ctl, end_lease_of
from tests.faults.conftest import Start
from tests.faults.roaming import Roamers
from tests.faults.workers import BUSY

_TIMEOUT_S = 3.0


def test_a_session_let_in_again_has_its_whole_timeout(
    start: Start, etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    """The proxy is killed; its clients come to another at all moments, and are then silent for most of it."""
    doomed = start(etcd_server, prefix=etcd_prefix, proxy_lease=2)
    other = start(etcd_server, prefix=etcd_prefix)
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(doomed.port, int(1000 * _TIMEOUT_S))) for _ in range(24)]
        for client in clients:
            client.create(f"/e-{client.id:x}", mode=EPHEMERAL)
        for client in clients:
            client.ping()
        heard = time.monotonic()
        doomed.kill()
        threads: list[threading.Thread] = []
        alive: list[Client] = []

        def ping_late(client: Client, since: float) -> None:
            time.sleep(0.8 * _TIMEOUT_S)
            try:
                client.ping()
                assert client.stat(f"/e-{client.id:x}") is not None
            except Disconnected:
                if time.monotonic() < since + _TIMEOUT_S:
                    return
            alive.append(client)  # or this thread was silent for too long, on a busy machine

        for number, client in enumerate(clients):
            # Up to the moment at which the others may end the sessions of the dead proxy.
            time.sleep(max(0.0, heard + number * 0.15 - time.monotonic()))
            since = time.monotonic()
            try:
                client.reconnect(other.port)
            except Disconnected:
                assert time.monotonic() > heard + _TIMEOUT_S, "refused before its timeout was over"
            else:
                threads.append(threading.Thread(target=ping_late, args=(client, since)))
                threads[-1].start()
        for thread in threads:
            thread.join()
        assert len(threads) > len(clients) // 2
        assert len(alive) == len(threads), "a session was let in, and expired before its timeout was over"


def _end_all_leases(etcd: EtcdServer, prefix: str, incarnations: Sequence[str]) -> None:
    for incarnation in incarnations:
        end_lease_of(etcd, f"{prefix}/live/proxy/{incarnation}")


def test_leases_that_etcd_ends_too_early_cost_no_session(
    start: Start, etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    """etcd issue 15247: a leader that was stopped ends the leases of the living when it goes on."""
    proxies: list[ZketcdServer] = [start(etcd_server, prefix=etcd_prefix) for _ in range(3)]
    ports = [proxy.port for proxy in proxies]
    with Roamers(lambda: ports, count=6) as roamers:
        calm = 0.0
        for _ in range(2):
            calm = max(calm, roamers.calm())
            names = [proxy["proxy"] for proxy in ctl(etcd_server, "proxies", prefix=etcd_prefix)]
            _end_all_leases(etcd_server, etcd_prefix, names)
            roamers.progress()

            def back(names: Sequence[str] = names) -> bool:
                now = {proxy["proxy"] for proxy in ctl(etcd_server, "proxies", prefix=etcd_prefix)}
                return len(now) == 3 and not now & set(names)

            wait_until(back, "all proxies registered again", interval=0.2)
        roamers.progress()
        roamers.verify()
        assert roamers.moves == 0, "no connection was closed for it"
        assert roamers.longest < 5 + BUSY * calm
    for proxy in proxies:
        assert "issue 15247" in proxy.log_text(), "this etcd has the bug, and the log says so"
