"""The raw Txns fit etcd's limits and are checked."""

import pytest

from bench.errors import BadReply
from bench.etcd_load import BATCH, BATCH_MULTI, SHAPES, Run, check_replies, requests
from proxy.etcd import rpc_pb2 as rpc
from proxy.log.append.membership import Incarnation
from proxy.log.append.outbox import Header, Sent
from schema.keys import Keyspace

RUN = Run(b"/r/", 2, 1000)
MAX_TXN_OPS = 128  # etcd's default for --max-txn-ops


@pytest.mark.parametrize("name", SHAPES)
def test_batches_fit_etcds_default_limit(name: str) -> None:
    batch = BATCH_MULTI if name == "multi" else BATCH
    for request in requests(RUN, SHAPES[name], 1, batch, 3):
        txn = rpc.TxnRequest.FromString(request)
        assert len(txn.compare) <= MAX_TXN_OPS
        assert len(txn.success) <= MAX_TXN_OPS
        # etcd refuses a Txn that puts a key twice.
        put = [op.request_put.key for op in txn.success if op.HasField("request_put")]
        assert len(set(put)) == len(put)


def test_an_append_is_one_put_whatever_it_carries() -> None:
    """Of the shape that the log's own Txns have."""
    (request,) = requests(RUN, SHAPES["append"], 0, BATCH, 1)
    txn = rpc.TxnRequest.FromString(request)
    sent = Sent(1, Header(0, 0, 0, 0), b"", [], nested=False, is_probe=False)
    theirs = Incarnation(Keyspace("/z"), "a", 5.0).append(sent)
    assert (len(txn.compare), len(txn.success)) == (len(theirs.compares), len(theirs.success)) == (2, 1)
    assert len(txn.success[0].request_put.value) > BATCH * 100


def test_refuses_failed_guards_and_empty_reads() -> None:
    good = rpc.TxnResponse(succeeded=True)
    found = good.responses.add().response_range
    found.count = 1
    check_replies([good.SerializeToString()])
    found.count = 0
    with pytest.raises(BadReply, match="found nothing"):
        check_replies([good.SerializeToString()])
    with pytest.raises(BadReply, match="guards failed"):
        check_replies([rpc.TxnResponse(succeeded=False).SerializeToString()])
