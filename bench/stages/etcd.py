"""An etcd in this process: the tests' fake behind etcd's own messages, so that the real client talks to it.

It counts what it is asked to do for requests; what the proxy asks by the clock, such as whether it is level
with etcd, is counted apart. Its work is not the proxy's, and neither is HTTP/2's, which is left out.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from bench.stages.meter import APPEND, BACKGROUND, OUTSIDE, Meter
from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import (
    Compare,
    Delete,
    EtcdError,
    EventKeyValue,
    Get,
    Op,
    Put,
    RangeResult,
    Txn,
    TxnResult,
    WatchMessage,
)
from proxy.etcd.transport import Metadata, RpcError
from tests.fakes.etcd import FakeEtcd


@dataclass
class Counts:
    """What etcd was asked to do. `bytes` are those of the Txns; `ranges` are requests of their own.

    `background` are Txns and ranges that the proxy sends by the clock; nothing else of them is counted.
    """

    txns: int = 0
    puts: int = 0
    deletes: int = 0
    compares: int = 0
    bytes: int = 0
    ranges: int = 0
    watches: int = 0
    keep_alive_streams: int = 0
    keep_alives: int = 0
    background: int = 0

    def copy(self) -> "Counts":
        """As they are now."""
        return Counts(*astuple(self))

    def since(self, earlier: "Counts") -> "Counts":
        """What has come since it was like `earlier`."""
        return Counts(*(now - then for now, then in zip(astuple(self), astuple(earlier), strict=True)))

    def plus(self, other: "Counts") -> "Counts":
        """Both as one."""
        return Counts(*(one + two for one, two in zip(astuple(self), astuple(other), strict=True)))


class CountingEtcd:
    """The channel to the store, for EtcdClient's `connect`."""

    def __init__(self, meter: Meter) -> None:
        self.address = "in-process:0"
        self.counts = Counts()
        self.store = FakeEtcd()
        self._meter = meter

    async def unary(self, path: str, request: bytes, timeout: float, metadata: Metadata = ()) -> bytes:
        """One request, one answer."""
        former = self._meter.enter(OUTSIDE)
        counts = self.counts
        if former == BACKGROUND:
            counts.background += 1
            self.counts = Counts()
        try:
            answer = self._answer(path.rpartition("/")[2], request)
        except EtcdError as error:
            raise RpcError(error.message) from None
        finally:
            self.counts = counts
            self._meter.enter(former)
        # A Txn's events mostly come before its answer: let whoever follows them go first.
        await asyncio.sleep(0)
        return answer

    def begin(
        self,
        path: str,
        request: bytes,
        _timeout: float,
        _metadata: Metadata,
        on_answer: Callable[[bytes | RpcError], None],
    ) -> bool:
        """As `unary`, by a callback. No Txn that the proxy begins this way is refused here."""
        former = self._meter.enter(OUTSIDE)
        answer = self._answer(path.rpartition("/")[2], request)
        self._meter.enter(former)
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, self._give, answer, on_answer)
        return True

    def _give(self, answer: bytes, on_answer: Callable[[bytes | RpcError], None]) -> None:
        former = self._meter.enter(APPEND)
        on_answer(answer)
        self._meter.enter(former)

    async def stream(self, path: str, metadata: Metadata = ()) -> "_Watch | _KeepAlive":
        """A watch, or what keeps leases alive."""
        if path.endswith("/Watch"):
            self.counts.watches += 1
            return _Watch(self.store, self._meter)
        self.counts.keep_alive_streams += 1
        return _KeepAlive(self.store, self.counts)

    async def close(self) -> None:
        """Nothing is open."""

    def _answer(self, method: str, request: bytes) -> bytes:
        store = self.store
        response: Any
        if method == "Txn":
            self.counts.txns += 1
            self.counts.bytes += len(request)
            response = pb.TxnResponse()
            _fill_txn(response, store.txn(self._txn(pb.TxnRequest.FromString(request))))
        elif method == "Range":
            self.counts.ranges += 1
            response = pb.RangeResponse()
            _fill_range(response, store.range(_get(pb.RangeRequest.FromString(request))))
        elif method == "LeaseGrant":
            asked = pb.LeaseGrantRequest.FromString(request)
            response = pb.LeaseGrantResponse(id=asked.id, ttl=store.lease_grant(asked.id, asked.ttl))
        elif method == "LeaseRevoke":
            store.lease_revoke(pb.LeaseRevokeRequest.FromString(request).id)
            response = pb.LeaseRevokeResponse()
        elif method == "Status":
            response = pb.StatusResponse(version="3.4.36", leader=1)
            response.header.cluster_id = store.cluster_id
        else:
            raise RpcError(f"unknown method {method}")
        response.header.revision = store.revision
        encoded: bytes = response.SerializeToString()
        return encoded

    def _txn(self, message: Any) -> Txn:
        compares = [
            Compare(guard.key, guard.mod_revision, guard.range_end, guard.result == pb.Compare.LESS)
            for guard in message.compare
        ]
        self.counts.compares += len(compares)
        return Txn(compares, self._ops(message.success), self._ops(message.failure))

    def _ops(self, messages: Sequence[Any]) -> list[Op]:
        ops: list[Op] = []
        for message in messages:
            kind = message.WhichOneof("request")
            if kind == "request_put":
                put = message.request_put
                self.counts.puts += 1
                ops.append(Put(put.key, put.value, put.lease))
            elif kind == "request_delete_range":
                delete = message.request_delete_range
                self.counts.deletes += 1
                ops.append(Delete(delete.key, delete.range_end))
            elif kind == "request_txn":
                ops.append(self._txn(message.request_txn))
            else:
                ops.append(_get(message.request_range))
        return ops


def client_of(etcd: CountingEtcd) -> EtcdClient:
    """The proxy's own client on a CountingEtcd."""
    return EtcdClient([etcd.address], connect=lambda _host, _port, _tls: etcd)


class _Watch:
    """A watch stream."""

    def __init__(self, store: FakeEtcd, meter: Meter) -> None:
        self._store = store
        self._meter = meter

    def write(self, message: bytes) -> None:
        asked = pb.WatchRequest.FromString(message).create_request
        self._watcher = self._store.watch(asked.key, asked.range_end, asked.start_revision)
        self._created = False

    async def listen(self, on_message: Callable[[bytes], None]) -> None:
        while True:
            on_message(self._encoded(await self._watcher.queue.get()))

    def _encoded(self, message: object) -> bytes:
        former = self._meter.enter(OUTSIDE)
        assert isinstance(message, WatchMessage)  # nothing is compacted here
        response: Any = pb.WatchResponse(created=not self._created)
        self._created = True
        response.header.revision = message.revision
        for event in message.events:
            told = response.events.add()
            told.type = event.type
            _fill_key(told.kv, event.kv)
        encoded: bytes = response.SerializeToString()
        self._meter.enter(former)
        return encoded

    def cancel(self) -> None:
        self._store.unwatch(self._watcher)


class _KeepAlive:
    """A stream of renewals."""

    def __init__(self, store: FakeEtcd, counts: Counts) -> None:
        self._store = store
        self._counts = counts
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()

    def write(self, message: bytes) -> None:
        self._counts.keep_alives += 1
        lease = pb.LeaseKeepAliveRequest.FromString(message).id
        response = pb.LeaseKeepAliveResponse(id=lease, ttl=self._store.lease_renew(lease))
        self._answers.put_nowait(response.SerializeToString())

    async def listen(self, on_message: Callable[[bytes], None]) -> None:
        while True:
            on_message(await self._answers.get())

    def cancel(self) -> None:
        pass


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


def _fill_key(message: Any, kv: EventKeyValue) -> None:
    message.key = kv.key
    message.value = kv.value
    message.create_revision = kv.create_revision
    message.mod_revision = kv.mod_revision
    message.version = kv.version
    message.lease = kv.lease
