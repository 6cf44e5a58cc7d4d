"""An etcd in this process: the tests' fake behind etcd's own messages, so that the real client talks to it.

It counts what it is asked to do for requests; what the proxy asks by the clock, such as whether it is level
with etcd, is counted apart. Its work is not the proxy's, and neither is HTTP/2's, which is left out.
"""

import asyncio
from collections.abc import Callable
from dataclasses import astuple, dataclass

from bench.stages.meter import APPEND, BACKGROUND, OUTSIDE, Meter
from lab.fakes.etcd import FakeEtcd
from lab.fakes.etcd_messages import answer, watch_message
from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import Delete, Put, Txn, WatchMessage
from proxy.etcd.transport import Metadata, RpcError


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
        self.store.version = "3.4.42"  # of which the proxy has nothing to warn
        self._meter = meter

    def begin(
        self,
        path: str,
        request: bytes,
        timeout: float,
        metadata: Metadata,
        on_answer: Callable[[bytes | RpcError], None],
    ) -> asyncio.Handle:
        """One request, one answer."""
        former = self._meter.enter(OUTSIDE)
        counts = self.counts
        if former == BACKGROUND:
            counts.background += 1
            self.counts = Counts()
        try:
            response: bytes | RpcError = self._answer(path.rpartition("/")[2], request)
        except RpcError as error:
            response = error
        finally:
            self.counts = counts
            self._meter.enter(former)
        # The events of a Txn mostly arrive before its answer: LogFollower handles them first.
        loop = asyncio.get_running_loop()
        stage = BACKGROUND if former == BACKGROUND else APPEND
        return loop.call_soon(loop.call_soon, self._give, stage, response, on_answer)

    def _give(
        self, stage: str, response: bytes | RpcError, on_answer: Callable[[bytes | RpcError], None]
    ) -> None:
        former = self._meter.enter(stage)
        on_answer(response)
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
        if method == "Txn":
            self.counts.bytes += len(request)
        elif method == "Range":
            self.counts.ranges += 1
        return answer(self.store, method, request, self._count)

    def _count(self, txn: Txn) -> None:
        self.counts.txns += 1
        self._count_parts(txn)

    def _count_parts(self, txn: Txn) -> None:
        self.counts.compares += len(txn.compares)
        for op in (*txn.success, *txn.failure):
            if isinstance(op, Txn):
                self._count_parts(op)
            elif isinstance(op, Put):
                self.counts.puts += 1
            elif isinstance(op, Delete):
                self.counts.deletes += 1


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

    async def listen(self, on_message: Callable[[bytes], None]) -> None:
        while True:
            on_message(self._encoded(await self._watcher.queue.get()))

    def _encoded(self, message: object) -> bytes:
        former = self._meter.enter(OUTSIDE)
        assert isinstance(message, WatchMessage)  # nothing is compacted here
        encoded = watch_message(message.revision, message.events)
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
