"""What an outside judge found in the first version, under 430 faults: each must be impossible now.

Elsewhere: nodes made and deleted within a gap of the stream (test_gap), writes that stop after the death of
etcd's leader (test_cluster), all leases ended at once by an etcd that was asleep (test_etcd_asleep).
"""

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from lab.client import blocking as zk
from lab.client.blocking import EPHEMERAL, NO_NODE, NODE_EXISTS, OK, Client, Disconnected, Reply
from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.operator import ctl, end_lease_of
from tests.faults.conftest import Start
from tests.faults.link import Link
from tests.faults.roaming import Roamers

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

        def ping_late(client: Client) -> None:
            time.sleep(0.8 * _TIMEOUT_S)
            client.ping()
            assert client.stat(f"/e-{client.id:x}") is not None
            alive.append(client)

        for number, client in enumerate(clients):
            # Up to the moment at which the others may end the sessions of the dead proxy.
            time.sleep(max(0.0, heard + number * 0.15 - time.monotonic()))
            try:
                client.reconnect(other.port)
            except Disconnected:
                assert time.monotonic() > heard + _TIMEOUT_S, "refused before its timeout was over"
            else:
                threads.append(threading.Thread(target=ping_late, args=(client,)))
                threads[-1].start()
        for thread in threads:
            thread.join()
        assert len(threads) > len(clients) // 2
        assert len(alive) == len(threads), "a session was let in, and expired before its timeout was over"


def _lock_turns(client: Client, turns: int) -> list[int]:
    """Take the lock and give it back, many times in one piece; the czxids of the own locks."""
    requests = [zk.create("/lock", b"", EPHEMERAL), zk.exists("/lock"), zk.delete("/lock", 0)] * turns
    xids = client.send(*requests)
    czxids = []
    for create, exists, delete in zip(xids[::3], xids[1::3], xids[2::3], strict=True):
        created, found, deleted = (client.reply_to(xid) for xid in (create, exists, delete))
        assert created.err in (OK, NODE_EXISTS)
        assert deleted.err in (OK, NO_NODE)
        if created.err == OK and found.err == OK:
            stat = found.stat
            if stat.ephemeral_owner == client.id:
                assert stat.czxid == created.zxid
            czxids.append(created.zxid)
        elif created.err == OK:
            czxids.append(created.zxid)
    return czxids


def test_each_holder_of_a_lock_has_a_czxid_of_its_own(
    start: Start, etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    """Locks that change hands within one entry of the log, and between proxies: czxid is a fencing token."""
    pair = [start(etcd_server, prefix=etcd_prefix) for _ in range(2)]
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(pair[number % 2].port)) for number in range(4)]
        found: list[list[int]] = []
        threads = [
            threading.Thread(target=lambda client=client: found.append(_lock_turns(client, 100)))
            for client in clients
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == len(clients)
        taken = [czxid for each in found for czxid in each]
        assert len(taken) > 100
        assert len(set(taken)) == len(taken), "two holders have the same czxid"
        for each in found:
            assert each == sorted(each)


def test_replies_have_the_zxids_of_their_own_writes_after_gaps(
    start: Start, etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    """The stream breaks while others write: what was caught up with is in no header of an older reply."""
    with ExitStack() as stack:
        link = stack.enter_context(Link(etcd_server.port))
        cut_off = start(link.endpoint, prefix=etcd_prefix)
        other = start(etcd_server, prefix=etcd_prefix)
        client = stack.enter_context(Client(cut_off.port))
        busy = stack.enter_context(Client(other.port))
        client.create("/mine")
        busy.create("/theirs")
        version = 0
        zxids = [client.zxid]
        for turn in range(12):
            sent = client.send(*(zk.set_data("/mine", b"", version + ahead) for ahead in range(5)))
            theirs = busy.send(*[zk.set_data("/theirs", b"")] * 5)
            if turn % 2:
                link.cut()
            for xid in sent:
                reply: Reply = client.reply_to(xid)
                assert reply.err == OK, "no -4, and no other error"
                stat = reply.stat
                version += 1
                assert (stat.version, stat.mzxid) == (version, reply.zxid)
                zxids.append(reply.zxid)
            for xid in theirs:
                assert busy.reply_to(xid).err == OK
        assert zxids == sorted(set(zxids))


def _end_all_leases(etcd: EtcdServer, prefix: str, incarnations: Sequence[str]) -> None:
    for incarnation in incarnations:
        end_lease_of(etcd, f"{prefix}/live/proxy/{incarnation}")


@pytest.mark.parametrize("count", [3])
def test_leases_that_etcd_ends_too_early_cost_no_session(
    start: Start, etcd_server: EtcdServer, etcd_prefix: str, count: int
) -> None:
    """etcd issue 15247: a leader that was stopped ends the leases of the living when it goes on."""
    proxies: list[ZketcdServer] = [start(etcd_server, prefix=etcd_prefix) for _ in range(count)]
    ports = [proxy.port for proxy in proxies]
    with Roamers(lambda: ports, count=2 * count) as roamers:
        for _ in range(2):
            roamers.progress()
            names = [proxy["proxy"] for proxy in ctl(etcd_server, "proxies", prefix=etcd_prefix)]
            _end_all_leases(etcd_server, etcd_prefix, names)
            roamers.progress()

            def back(names: Sequence[str] = names) -> bool:
                now = {proxy["proxy"] for proxy in ctl(etcd_server, "proxies", prefix=etcd_prefix)}
                return len(now) == count and not now & set(names)

            wait_until(back, "all proxies registered again", interval=0.2)
        roamers.progress()
        roamers.verify()
        assert roamers.moves == 0, "no connection was closed for it"
        assert roamers.longest < 5
    for proxy in proxies:
        assert "issue 15247" in proxy.log_text(), "this etcd has the bug, and the log says so"
