"""What etcd answers: ranges, Txns, the watch stream. `calls` has the HTTP/2 that carries them."""

from proof.fuzzing.target import Target, Wrong
from proof.fuzzing.targets.pieces import Pieces
from proxy.etcd import rpc_pb2 as pb
from proxy.etcd import wire
from proxy.etcd.model import Compare, Delete, EtcdUnknown, Get, Put, Txn

_TXN = Txn(
    (Compare(b"k", 0),),
    (Get(b"a"), Put(b"b", b"1"), Txn((Compare(b"c", 0),), (Get(b"c"), Delete(b"d")), ())),
    (Get(b"a"), Txn((Compare(b"a", 0),), (), ())),
)


def range_answer(data: bytes) -> None:
    """An answer to a Range."""
    found = wire.decode_range(data)
    if sum(len(kv.key) + len(kv.value) for kv in found.kvs) > len(data):
        raise Wrong("more bytes than the answer has")


def txn_answer(data: bytes) -> None:
    """An answer to a Txn with nested ones: a result for each operation."""
    found = wire.decode_txn(_TXN, data)
    if len(found.responses) != len(_TXN.success if found.succeeded else _TXN.failure):
        raise Wrong(f"{len(found.responses)} results")


def watch_stream(data: bytes) -> None:
    """Watch responses, each a piece: all events come out, in order, each once."""
    pieces = Pieces(data)
    joiner = wire.FragmentJoiner()
    given: list[bytes] = []
    taken: list[bytes] = []
    whole = True
    while pieces.rest:
        response = wire.decode(pb.WatchResponse, pieces.piece())
        given += [event.kv.key for event in response.events]
        message = joiner.feed(response)
        if message is not None:
            taken += [event.kv.key for event in message.events]
        whole = not response.fragment
    if taken != given[: len(taken)] or (whole and taken != given):
        raise Wrong(f"{len(taken)} events came out of {len(given)}")


ETCD = (
    Target("range-answer", "A RangeResponse.", range_answer, (EtcdUnknown,), 2000),
    Target("txn-answer", "A TxnResponse.", txn_answer, (EtcdUnknown,), 2000),
    Target("watch-stream", "WatchResponses, each a piece.", watch_stream, (EtcdUnknown,), 2000),
)
