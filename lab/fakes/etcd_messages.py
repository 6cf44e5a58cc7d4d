"""The fake etcd behind etcd's own messages: the answer to a request as a real member would send it.

So the real client can talk to the fake. Streams are their users' own; the messages of a watch are made here.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lab.fakes.etcd import FakeEtcd
from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.model import (
    Compare,
    Delete,
    EtcdError,
    Event,
    Get,
    KeyValue,
    Op,
    Put,
    RangeResult,
    Txn,
    TxnResult,
)
from proxy.etcd.transport import RpcError


def answer(
    store: FakeEtcd,
    method: str,
    request: bytes,
    on_txn: Callable[[Txn], None] = lambda _txn: None,
    leader: int = 1,
) -> bytes:
    """The answer of a member of `store` to a call such as "Txn". Raises RpcError with etcd's words.

    `on_txn` gets each Txn before it is committed. `leader` is what the member says of its leader; 0: none.
    """
    try:
        response = _answer(store, method, request, on_txn, leader)
    except EtcdError as error:
        raise RpcError(error.message) from None
    response.header.cluster_id = store.cluster_id
    response.header.revision = store.revision
    encoded: bytes = response.SerializeToString()
    return encoded


def watch_message(revision: int, events: Iterable[Event], *, fragment: bool = False) -> bytes:
    """What a member sends on a watch stream. `fragment`: more of it follows in another message."""
    response: Any = pb.WatchResponse(fragment=fragment)
    response.header.revision = revision
    for event in events:
        told = response.events.add()
        told.type = event.type
        _fill_key(told.kv, event.kv)
    encoded: bytes = response.SerializeToString()
    return encoded


def _answer(store: FakeEtcd, method: str, request: bytes, on_txn: Callable[[Txn], None], leader: int) -> Any:
    response: Any
    if method == "Txn":
        txn = txn_of(pb.TxnRequest.FromString(request))
        on_txn(txn)
        response = pb.TxnResponse()
        _fill_txn(response, store.txn(txn))
    elif method == "Range":
        response = pb.RangeResponse()
        _fill_range(response, store.range(_get(pb.RangeRequest.FromString(request))))
    elif method == "LeaseGrant":
        asked = pb.LeaseGrantRequest.FromString(request)
        response = pb.LeaseGrantResponse(id=asked.id, ttl=store.lease_grant(asked.id, asked.ttl))
    elif method == "LeaseRevoke":
        store.lease_revoke(pb.LeaseRevokeRequest.FromString(request).id)
        response = pb.LeaseRevokeResponse()
    elif method == "Status":
        response = pb.StatusResponse(version=store.version, leader=leader)
        response.db_size, response.db_size_in_use = store.file.size, store.file.in_use
    else:
        raise RpcError(f"unknown method {method}")
    return response


def txn_of(message: Any) -> Txn:
    """A TxnRequest as the client's own value."""
    compares = [
        Compare(guard.key, guard.mod_revision, guard.range_end, guard.result == pb.Compare.LESS)
        for guard in message.compare
    ]
    return Txn(compares, _ops(message.success), _ops(message.failure))


def _ops(messages: Sequence[Any]) -> list[Op]:
    ops: list[Op] = []
    for message in messages:
        kind = message.WhichOneof("request")
        if kind == "request_put":
            put = message.request_put
            ops.append(Put(put.key, put.value, put.lease))
        elif kind == "request_delete_range":
            delete = message.request_delete_range
            ops.append(Delete(delete.key, delete.range_end))
        elif kind == "request_txn":
            ops.append(txn_of(message.request_txn))
        else:
            ops.append(_get(message.request_range))
    return ops


def _get(message: Any) -> Get:
    return Get(message.key, message.range_end, message.revision, message.keys_only, message.limit)


def _fill_txn(response: Any, result: TxnResult) -> None:
    response.succeeded = result.succeeded
    for found in result.responses:
        place = response.responses.add()
        if isinstance(found, TxnResult):
            _fill_txn(place.response_txn, found)
        elif isinstance(found, RangeResult):
            _fill_range(place.response_range, found)
        else:
            place.response_put.header.revision = result.revision


def _fill_range(response: Any, result: RangeResult) -> None:
    response.more = result.more
    response.count = result.count
    for kv in result.kvs:
        _fill_key(response.kvs.add(), kv)


def _fill_key(message: Any, kv: KeyValue) -> None:
    message.key = kv.key
    message.value = kv.value
    message.create_revision = kv.create_revision
    message.mod_revision = kv.mod_revision
    message.version = kv.version
    message.lease = kv.lease
