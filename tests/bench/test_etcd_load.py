"""The raw Txns are those of the log."""

from bench.etcd_load import BATCH, entry
from proxy.etcd import rpc_pb2 as rpc
from proxy.log.append.registration import Incarnation
from proxy.log.append.sent import EntryHeader, Form, Sent
from schema.keys import Keyspace


def test_an_append_is_one_put_whatever_it_carries() -> None:
    txn = rpc.TxnRequest.FromString(entry(b"/r/", 0, 1, BATCH))
    sent = Sent(1, EntryHeader(0, 0, 0, 0), b"", 0, [], Form.DIRECT)
    theirs = Incarnation(Keyspace("/z"), "a", 5.0).txn_of(sent)
    assert (len(txn.compare), len(txn.success)) == (len(theirs.compares), len(theirs.success)) == (2, 1)
    assert len(txn.success[0].request_put.value) > BATCH * 100
