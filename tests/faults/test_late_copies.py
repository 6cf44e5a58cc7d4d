"""Copies of appends that reach etcd after truncation count for nothing.

etcd takes such a copy while the proxy's key is there and the entry's is not. It is ignored for its number.
Copies at all other moments: proof/simulation.
"""

from contextlib import ExitStack

from lab.client import blocking as zk
from lab.client.blocking import EPHEMERAL, SEQUENTIAL, Client
from lab.servers import EtcdServer
from lab.servers.operator import keys_of
from tests.faults.agreement import assert_same, truncate
from tests.faults.conftest import Start
from tests.faults.gateway import Gateway

_LOG = "/zketcd/live/log/"


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
        # One that etcd did not answer in time was sent twice.
        copies = list({(each.incarnation, each.number): each for each in gateway.seen}.values())
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
