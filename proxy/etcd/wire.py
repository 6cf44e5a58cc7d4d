"""Transactions and ranges as bytes of etcd's protocol, and back.

Pure: bytes in, values out. Requests on the hot path are written by hand, field by field, because building
protobuf objects from Python costs two to five times as much (docs/decisions/0001-etcd-client.md); the tests
prove them equal to what protobuf reads and writes. Everything else uses the generated `rpc_pb2`.
"""

import re
from collections.abc import Sequence
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.model import (
    Compare,
    EtcdUnknown,
    Event,
    Get,
    KeyValue,
    Op,
    Put,
    RangeResult,
    Txn,
    TxnResult,
    WatchMessage,
)

Answer = TypeVar("Answer", bound=Message)

# Field tags, (number << 3 | wire type), as rpc.proto numbers them.
_TXN_COMPARE, _TXN_SUCCESS, _TXN_FAILURE = b"\x0a", b"\x12", b"\x1a"
_OP_RANGE, _OP_PUT, _OP_DELETE, _OP_TXN = b"\x0a", b"\x12", b"\x1a", b"\x22"
_COMPARE_LESS = b"\x08\x02"
_COMPARE_RANGE_END = b"\x82\x04"


class _Varints(dict[int, bytes]):
    """Numbers as protobuf varints; small ones, such as lengths, are remembered."""

    def __missing__(self, number: int) -> bytes:
        rest = number & 0xFFFFFFFFFFFFFFFF  # negative int64 go as their two's complement, ten bytes
        octets = bytearray()
        while rest > 0x7F:
            octets.append(rest & 0x7F | 0x80)
            rest >>= 7
        octets.append(rest)
        encoded = bytes(octets)
        if 0 <= number < 0x4000:
            self[number] = encoded
        return encoded


_VARINT = _Varints()


def encode_txn(txn: Txn) -> bytes:
    """The bytes of a TxnRequest."""
    return _txn_bytes(txn.compares, txn.success, txn.failure)


def encode_get(get: Get) -> bytes:
    """The bytes of a RangeRequest."""
    body = b"\x0a%b%b" % (_VARINT[len(get.key)], get.key)
    if get.range_end:
        body += b"\x12%b%b" % (_VARINT[len(get.range_end)], get.range_end)
    if get.limit:
        body += b"\x18" + _VARINT[get.limit]
    if get.revision:
        body += b"\x20" + _VARINT[get.revision]
    if get.keys_only:
        body += b"\x40\x01"
    return body


def _txn_bytes(compares: Sequence[Compare], success: Sequence[Op], failure: Sequence[Op]) -> bytes:
    varint = _VARINT
    parts: list[bytes] = []
    for key, mod_revision, range_end, less in compares:
        # Field 2 is the target MOD, 3 the key, 6 the revision (in a oneof: sent even when 0).
        body = b"\x10\x02\x1a%b%b\x30%b" % (varint[len(key)], key, varint[mod_revision])
        if less:
            body += _COMPARE_LESS
        if range_end:
            body += _COMPARE_RANGE_END + varint[len(range_end)] + range_end
        parts += (_TXN_COMPARE, varint[len(body)], body)
    _append_ops(parts, _TXN_SUCCESS, success)
    _append_ops(parts, _TXN_FAILURE, failure)
    return b"".join(parts)


def _append_ops(parts: list[bytes], tag: bytes, ops: Sequence[Op]) -> None:
    varint = _VARINT
    for op in ops:
        if isinstance(op, Put):
            key, value, lease = op
            kind = _OP_PUT
            body = b"\x0a%b%b\x12%b%b" % (varint[len(key)], key, varint[len(value)], value)
            if lease:
                body += b"\x18" + varint[lease]
        elif isinstance(op, Txn):
            kind = _OP_TXN
            body = _txn_bytes(op.compares, op.success, op.failure)
        elif isinstance(op, Get):
            kind = _OP_RANGE
            body = encode_get(op)
        else:
            key, range_end = op
            kind = _OP_DELETE
            body = b"\x0a%b%b" % (varint[len(key)], key)
            if range_end:
                body += b"\x12%b%b" % (varint[len(range_end)], range_end)
        length = varint[len(body)]
        parts += (tag, varint[len(kind) + len(length) + len(body)], kind, length, body)


# Every answer begins with its header, and that with the cluster's id: field 1 of both.
_CLUSTER = re.compile(rb"\x0a[\x00-\x7f](\x08[\x80-\xff]*[\x00-\x7f])")


def cluster_of(answer: bytes) -> bytes:
    """The field of an answer that names its cluster, which begins at byte 2; b"" if there is none."""
    found = _CLUSTER.match(answer)
    return b"" if found is None else found[1]


def decode(kind: type[Answer], answer: bytes) -> Answer:
    """Read an answer. Raises EtcdUnknown for bytes that are no such message: the outcome is unknown."""
    try:
        return kind.FromString(answer)
    except DecodeError as error:
        raise EtcdUnknown(f"etcd's answer of {len(answer)} bytes is not understood: {error}") from None


def decode_txn(txn: Txn, response: bytes) -> TxnResult:
    """Read the TxnResponse to `txn`. Nested results carry the revision of the whole. Raises EtcdUnknown."""
    try:
        message = pb.TxnResponse.FromString(response)  # as `decode`, at a call less for each Txn
        return _txn_result(txn, message, message.header.revision)
    except (DecodeError, IndexError) as error:
        raise EtcdUnknown(f"etcd's answer of {len(response)} bytes is not understood: {error}") from None


def decode_range(response: bytes) -> RangeResult:
    """Read a RangeResponse. Raises EtcdUnknown."""
    message = decode(pb.RangeResponse, response)
    return _range_result(message, message.header.revision)


def _txn_result(txn: Txn, message: pb.TxnResponse, revision: int) -> TxnResult:
    succeeded = message.succeeded
    if not succeeded and not txn.compares:
        raise EtcdUnknown("etcd's answer says that a comparison has failed in a request without any")
    results: list[RangeResult | TxnResult | None] = []
    # The request says what each response is, so those of puts and deletes need not be looked at.
    for index, op in enumerate(txn.success if succeeded else txn.failure):
        if isinstance(op, Txn):
            results.append(_txn_result(op, message.responses[index].response_txn, revision))
        elif isinstance(op, Get):
            results.append(_range_result(message.responses[index].response_range, revision))
        else:
            results.append(None)
    return TxnResult(succeeded, revision, results)


def _range_result(message: pb.RangeResponse, revision: int) -> RangeResult:
    kvs = [
        KeyValue(kv.key, kv.value, kv.create_revision, kv.mod_revision, kv.version, kv.lease)
        for kv in message.kvs
    ]
    if message.more and not kvs:
        raise EtcdUnknown("etcd's answer has no keys and says that there are more")
    return RangeResult(kvs, message.more, message.count, revision)


class FragmentJoiner:
    """Turns watch responses, which etcd may cut anywhere, into messages of whole revisions.

    With `fragment` set, etcd cuts a response that exceeds its request limit into several of which all but the
    last are marked (sendFragments in server/etcdserver/api/v3rpc/watch.go). An unmarked one ends on a whole
    revision. Of a marked one the last revision is kept back; what is before it can go out at once, so that a
    long catch-up is applied piece by piece.
    """

    def __init__(self) -> None:
        self._held: list[Event] = []

    def feed(self, response: pb.WatchResponse) -> WatchMessage | None:
        """The message that is complete now, or None."""
        revision = response.header.revision
        arrived: Sequence[Any] = response.events  # as `Event` says, they need not be converted
        if not response.fragment:
            if not self._held:
                return WatchMessage(revision, arrived)
            events = self._held
            events.extend(arrived)
            self._held = []
            return WatchMessage(revision, events)
        events = self._held
        events.extend(arrived)
        if not events:
            return None
        last = events[-1].kv.mod_revision
        whole = len(events) - 1
        while whole and events[whole - 1].kv.mod_revision == last:
            whole -= 1
        self._held = events[whole:]
        return WatchMessage(revision, events[:whole]) if whole else None
