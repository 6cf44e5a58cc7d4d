"""Copies of appends that reach etcd late: after truncation, and after their incarnation was forgotten.

etcd takes such a copy while the proxy's key is there and the entry's is not. The numbers of entries see to it
that it counts for nothing.
"""

from contextlib import ExitStack

import pytest

from lab.client import blocking as zk
from lab.client.blocking import EPHEMERAL, SEQUENTIAL, Client
from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.operator import end_lease_of, keys_of
from tests.faults.agreement import assert_same, incarnations, let_in_again, truncate
from tests.faults.conftest import Start
from tests.faults.gateway import Append, Fate, Gateway

_LOG = "/zketcd/live/log/"


def of_client(append: Append) -> bool:
    """Whether a client has written."""
    return any(request.opcode == zk.create("/").opcode for request in append.entry.requests)


def test_after_truncation(start: Start, own_etcd_server: EtcdServer, gateway: Gateway) -> None:
    etcd = own_etcd_server
    with ExitStack() as stack:
        proxy, other = start(gateway.endpoint), start(etcd)
        client = stack.enter_context(Client(proxy.port))
        witness = stack.enter_context(Client(other.port))
        client.create("/queue")
        xids = client.send(*[zk.create("/queue/n-", b"", SEQUENTIAL)] * 5, zk.set_data("/queue", b"once"))
        for xid in xids:
            client.result(xid)
        client.create("/mine", b"", EPHEMERAL)
        copies = list(gateway.seen)
        assert len(copies) >= 4
        truncate(etcd, client)
        known = keys_of(etcd, _LOG)
        zxid = client.zxid
        for copy in copies:
            assert gateway.send_copy(copy), "etcd takes it: the proxy lives, and there is no such key"
        assert len(keys_of(etcd, _LOG)) == len(known) + len(copies)
        # Nobody counts them: not those who run, nor who starts now, nor who starts from the next snapshot.
        clients = [client, witness, stack.enter_context(Client(start(etcd).port))]
        assert_same(*clients)
        assert client.read("/queue")[1].version == 1
        assert len(client.children("/queue")[0]) == 5
        assert client.create("/queue/n-", b"", SEQUENTIAL) == "/queue/n-0000000005"
        assert client.zxid == zxid + 2, "a session and a create"
        truncate(etcd, client)
        late = {f"{_LOG}{copy.incarnation}/{copy.number:016d}" for copy in copies}
        assert late.isdisjoint(keys_of(etcd, _LOG)), "they go with the next truncation"
        assert_same(*clients, stack.enter_context(Client(start(etcd).port)))


def test_of_an_incarnation_that_is_over_and_forgotten(
    start: Start, own_etcd_server: EtcdServer, gateway: Gateway
) -> None:
    """Once with its key gone etcd refuses the copy, as it refuses all that is held back until then."""
    etcd = own_etcd_server

    def hold_the_last(append: Append) -> Fate:
        return Fate.HOLD if append.number >= 4 and append.incarnation == old else Fate.PASS

    with ExitStack() as stack:
        other = start(etcd, snapshot_log_requests=20)
        witness = stack.enter_context(Client(other.port))
        proxy = start(gateway.endpoint)
        (_, old) = incarnations(etcd)
        client = stack.enter_context(Client(proxy.port))
        client.create("/a", b"0")
        for xid in client.send(*[zk.set_data("/a", b"1")] * 5):
            client.result(xid)
        gateway.decide(hold_the_last)
        last = max(append.number for append in gateway.seen)
        while last < 4:
            (xid,) = client.send(zk.set_data("/a", b"2"))
            last += 1
            if last < 4:
                client.result(xid)
        (held,) = gateway.await_held()
        end_lease_of(etcd, f"/zketcd/live/proxy/{old}")
        client.result(xid)  # of another incarnation
        version = client.read("/a")[1].version
        copies = [append for append in gateway.seen if append.incarnation == old]
        for _ in range(2):
            _snapshot(other, witness)
        wait_until(lambda: f"forgetting incarnation {old}" in other.log_text(), "it is forgotten")
        assert not keys_of(etcd, _LOG + old)
        gateway.release()
        for copy in (held, *copies):
            assert not gateway.send_copy(copy)
        assert not keys_of(etcd, _LOG + old)
        clients = [client, witness, stack.enter_context(Client(start(etcd).port))]
        assert_same(*clients)
        assert client.read("/a")[1].version == version
        assert client.write("/a", b"3").version == version + 1


@pytest.mark.parametrize("fate", ["awake-in-time", "lease-ended", "forgotten"])
def test_an_entry_applied_and_truncated_while_its_sender_sleeps(
    start: Start, own_etcd_server: EtcdServer, gateway: Gateway, fate: str
) -> None:
    """When it wakes, the answer to its append is there, or is lost, and the entry is not."""
    etcd = own_etcd_server
    with ExitStack() as stack:
        other = start(etcd, snapshot_log_requests=20)
        witness = stack.enter_context(Client(other.port))
        sleeper = start(gateway.endpoint, proxy_lease=30)
        (_, name) = incarnations(etcd)
        client, idle = (stack.enter_context(Client(sleeper.port)) for _ in range(2))
        client.create("/a")
        idle.create("/idle", b"", EPHEMERAL)
        witness.sync()
        gateway.decide(lambda append: Fate.HOLD if of_client(append) else Fate.PASS)
        xids = client.send(zk.create("/n-", b"", SEQUENTIAL), zk.create("/n-", b"", SEQUENTIAL))
        gateway.await_held()
        sleeper.pause()
        gateway.release()

        def applied() -> bool:
            witness.sync()
            return "n-0000000003" in witness.children("/")[0]

        wait_until(applied, "the others have it")
        truncate(etcd, witness)
        assert not [key for key in keys_of(etcd, _LOG + name) if int(key[-16:]) <= 3]
        if fate != "awake-in-time":
            end_lease_of(etcd, f"/zketcd/live/proxy/{name}")
        if fate == "forgotten":
            # Nobody is attached to it any more: its sessions have moved, or ended.
            client.reconnect(other.port)
            idle.reconnect(other.port)
            for _ in range(2):
                _snapshot(other, witness)
            wait_until(lambda: f"forgetting incarnation {name}" in other.log_text(), "it is forgotten")
        sleeper.resume()
        if fate == "forgotten":
            client.until_closed(0)
            idle.until_closed(0)
        else:
            _told_or_closed(client, xids)
            let_in_again(client, sleeper.port)
            let_in_again(idle, sleeper.port)
        client.sync()
        assert {name for name in client.children("/")[0] if name.startswith("n-")} == {
            "n-0000000002",
            "n-0000000003",
        }
        stat = idle.stat("/idle")
        assert stat is not None
        assert stat.ephemeral_owner == idle.id
        assert client.create("/n-", b"", SEQUENTIAL) == "/n-0000000004"
        late = stack.enter_context(Client(start(etcd).port))
        awake = stack.enter_context(Client(sleeper.port))
        assert_same(witness, awake, late, client)


def _snapshot(proxy: ZketcdServer, client: Client) -> None:
    """Write until a proxy has written a snapshot and truncated."""
    line = "snapshots: snapshot: {"
    written = proxy.log_text().count(line)
    for xid in client.send(*[zk.set_data("/", b"")] * 25):
        client.result(xid)
    wait_until(lambda: proxy.log_text().count(line) > written, "a snapshot", interval=0.1)


def _told_or_closed(client: Client, xids: list[int]) -> None:
    """The right replies, or, where a load has skipped the entry, none."""
    told: list[str | None] = []
    while len(told) < len(xids):
        try:
            reply = client.reply_to(xids[len(told)])
        except zk.Disconnected as end:
            if not end.closed:
                raise
            break
        told.append(reply.path)
    assert told in (["/n-0000000002", "/n-0000000003"], [])
