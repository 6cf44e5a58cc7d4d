"""Raw etcd: the Txns of zketcd's log, sent by grpc.aio without any server between.

`append` is what a write of zketcd is compared with: one put, with the key of a living proxy and the absence
of its own key as guards. Depth 1 is one Txn at a time on each connection. Depth above 1 is the upper bound of
shared entries: a put has the size of a batch of creates, and a few Txns are in flight. All requests are built
and serialised beforehand, all replies parsed afterwards.

Where the table marks the generator as the limit, the figure says what a Python client gets out of etcd: the
bound that counts for a proxy written in Python.
"""

import asyncio
import time
from collections.abc import Callable, Iterable

import grpc

from bench.data import SIZE
from bench.errors import BadReply, EffectsDiffer
from bench.load import STALL_SECONDS, Timing
from bench.workloads import Cell
from proxy.etcd import rpc_pb2 as rpc

APPEND = "append"
BATCH = 64
"""Creates in an entry when batched."""
LANES = 4
"""Txns in flight at most when batched."""
_CHUNK = 128  # keys per Txn while cleaning up
_MOST_TXNS_PER_SECOND = 10_000
_MOST_BATCHES_PER_SECOND = 2_000
_HEADERS = 44  # bytes that a request and its part of the entry's header take in the log, beside path and data


def entry(root: bytes, lane: int, number: int, batch: int) -> bytes:
    """The Txn that appends an entry of `batch` creates, not compressed."""
    key = root + b"log/%04d/%016d" % (lane, number)
    equal, greater = rpc.Compare.CompareResult.EQUAL, rpc.Compare.CompareResult.GREATER
    modified = rpc.Compare.CompareTarget.MOD
    proxy = rpc.Compare(result=greater, target=modified, key=_proxy(root, lane), mod_revision=0)
    absent = rpc.Compare(result=equal, target=modified, key=key, mod_revision=0)
    put = rpc.PutRequest(key=key, value=bytes(batch * (SIZE + _HEADERS)))
    request = rpc.TxnRequest(compare=[proxy, absent], success=[rpc.RequestOp(request_put=put)])
    return request.SerializeToString()


def _proxy(root: bytes, lane: int) -> bytes:
    return root + b"proxy/%04d" % lane


class Etcd:
    """etcd's KV service with bytes in and bytes out."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.txn = channel.unary_unary("/etcdserverpb.KV/Txn", None, None)
        self._range = channel.unary_unary("/etcdserverpb.KV/Range", None, None)

    async def put_all(self, keys: Iterable[bytes]) -> None:
        """Puts every key."""
        puts = [rpc.RequestOp(request_put=rpc.PutRequest(key=key)) for key in keys]
        await self.txn(rpc.TxnRequest(success=puts).SerializeToString())

    async def count(self, prefix: bytes) -> int:
        """How many keys start with `prefix`."""
        request = rpc.RangeRequest(key=prefix, range_end=_end_of(prefix), limit=1, keys_only=True)
        return rpc.RangeResponse.FromString(await self._range(request.SerializeToString())).count

    async def delete_all(self, prefix: bytes) -> None:
        """Deletes the keys that start with `prefix`, in Txns of moderate size.

        One Txn that changes very many keys slows etcd 3.4 down for good: every later Txn copies a read buffer
        that keeps the length of the most changes ever made between two commits of its backend.
        """
        start, end = prefix, _end_of(prefix)
        while True:
            page = rpc.RangeRequest(key=start, range_end=end, limit=_CHUNK, keys_only=True)
            keys = [
                kv.key for kv in rpc.RangeResponse.FromString(await self._range(page.SerializeToString())).kvs
            ]
            if not keys:
                return
            start = keys[-1] + b"\0"
            delete = rpc.DeleteRangeRequest(key=keys[0], range_end=start)
            op = rpc.RequestOp(request_delete_range=delete)
            await self.txn(rpc.TxnRequest(success=[op]).SerializeToString())


def _end_of(prefix: bytes) -> bytes:
    """The end of the range of keys that start with `prefix` (whose last byte is below 255)."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


async def drive(
    port: int,
    root: bytes,
    cell: Cell,
    seconds: float,
    around: Callable[[], Callable[[Timing], dict[str, float]]],
) -> dict[str, float]:
    """One whole run; `around` is called at the start of the timed phase, what it returns at its end.

    Raises BadReply for a Txn that didn't succeed, EffectsDiffer for a wrong number of keys, AioRpcError for
    an RPC that failed.
    """
    batch = BATCH if cell.depth > 1 else 1
    lanes = min(LANES, cell.connections) if cell.depth > 1 else cell.connections
    rate = _MOST_BATCHES_PER_SECOND if cell.depth > 1 else _MOST_TXNS_PER_SECOND
    most = max(int(rate * seconds) // lanes, 1)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        etcd = Etcd(channel)
        await etcd.put_all(_proxy(root, lane) for lane in range(lanes))
        before = await etcd.count(root)
        work = [[entry(root, lane, number, batch) for number in range(most)] for lane in range(lanes)]
        replies: list[bytes] = []
        samples: list[tuple[int, int]] = []
        counts = [0] * lanes

        async def send(lane: int, deadline: float) -> None:
            for request in work[lane]:
                sent = time.perf_counter_ns()
                replies.append(await etcd.txn(request, timeout=STALL_SECONDS))
                now = time.perf_counter_ns()
                samples.append((now - sent, batch))
                counts[lane] += batch
                if now > deadline:
                    return

        finish = around()
        start = time.perf_counter_ns()
        await asyncio.gather(*(send(lane, start + seconds * 1e9) for lane in range(lanes)))
        figures = finish(Timing(counts, (time.perf_counter_ns() - start) / 1e9, samples))
        if not all(rpc.TxnResponse.FromString(reply).succeeded for reply in replies):
            raise BadReply("a Txn's guards failed")
        promised = before + len(replies)
        if (found := await etcd.count(root)) != promised:
            raise EffectsDiffer(f"etcd holds {found} keys, but the counted replies promise {promised}")
        await etcd.delete_all(root)
    return figures
