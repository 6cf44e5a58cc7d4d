"""Raw etcd: Txns of the shape that each workload needs at least, sent by grpc.aio without any server between.

Depth 1 is one operation per Txn, one Txn at a time on each connection: what a naive bridge at its best could
do. Depth above 1 is the upper bound of group commit: the operations of a batch in one Txn, a few Txns in
flight. All requests are built and serialised beforehand, all replies parsed afterwards.

`append` is no workload of ZooKeeper's, but what zketcd's log does: one put with the key of a living proxy and
the absence of its own key as guards, for all operations of a Txn together. It is what a single write is
held against.

Where the table marks the generator as the limit, the figure says what a Python client gets out of etcd: the
bound that counts for a proxy written in Python.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import grpc

from bench.errors import BadReply, EffectsDiffer
from bench.load import STALL_SECONDS, Timing
from bench.workloads import DATA, LISTED_CHILDREN, MIXED_CYCLE, NUMBER, READ_NODES, Cell
from proxy.etcd import rpc_pb2 as rpc

BATCH = 64
"""Operations per Txn when batched; with their guards and counters they stay within etcd's default 128."""
BATCH_MULTI = 32
LANES = 4
"""Txns in flight at most when batched."""
CHUNK = 128
"""Keys per Txn while preparing and cleaning up."""
WRITTEN_NODES = 64
"""Nodes of its own that each connection's sets go round: a Txn may write a key only once."""

MOST_TXNS_PER_SECOND = 10_000
MOST_BATCHES_PER_SECOND = 2_000


class Part(NamedTuple):
    """What one operation adds to a Txn."""

    compares: list[rpc.Compare]
    ops: list[rpc.RequestOp]
    counters: list[bytes]
    """Keys of child counters to put, once per Txn."""


class Run(NamedTuple):
    """One run's place and extent."""

    root: bytes
    connections: int
    deletable: int
    """Nodes prepared for each connection to delete."""


Shape = Callable[[Run, int, int], Part]

APPEND = "append"
_HEADERS = 44
"""Bytes that a request and its part of the entry's header take in the log, beside path and data."""


def absent(key: bytes) -> rpc.Compare:
    """True where the key doesn't exist."""
    return rpc.Compare(
        result=rpc.Compare.CompareResult.EQUAL,
        target=rpc.Compare.CompareTarget.MOD,
        key=key,
        mod_revision=0,
    )


def present(key: bytes) -> rpc.Compare:
    """True where the key exists."""
    return rpc.Compare(
        result=rpc.Compare.CompareResult.GREATER,
        target=rpc.Compare.CompareTarget.MOD,
        key=key,
        mod_revision=0,
    )


def put(key: bytes, value: bytes = DATA) -> rpc.RequestOp:
    """A put inside a Txn."""
    return rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=value))


def own(run: Run, connection: int) -> bytes:
    """The prefix of one connection's keys."""
    return run.root + b"c%04d/" % connection


def end_of(prefix: bytes) -> bytes:
    """The end of the range of keys that start with `prefix` (whose last byte is below 255)."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def _range(key: bytes, range_end: bytes = b"", keys_only: bool = False) -> Part:
    request = rpc.RangeRequest(key=key, range_end=range_end, keys_only=keys_only)
    return Part([], [rpc.RequestOp(request_range=request)], [])


def _get(run: Run, connection: int, i: int) -> Part:
    return _range(run.root + b"n" + NUMBER % ((i + connection * 37) % READ_NODES))


def _exists(run: Run, connection: int, i: int) -> Part:
    return _range(run.root + b"n" + NUMBER % ((i + connection * 37) % READ_NODES), keys_only=True)


def _children(run: Run, connection: int, i: int) -> Part:
    prefix = run.root + b"listed/"
    return _range(prefix, end_of(prefix), keys_only=True)


def _create(run: Run, connection: int, i: int) -> Part:
    directory = own(run, connection)
    key = directory + NUMBER % i
    return Part([absent(key)], [put(key)], [directory + b"#"])


def _sequential(run: Run, connection: int, i: int) -> Part:
    # A raw client can't know the next number: it takes its own, and writes the shared counter.
    key = run.root + b"s%04d-" % connection + NUMBER % i
    return Part([absent(key)], [put(key)], [run.root + b"#"])


def _set(run: Run, connection: int, i: int) -> Part:
    key = own(run, connection) + b"w" + NUMBER % (i % WRITTEN_NODES)
    return Part([present(key)], [put(key)], [])


def _delete(run: Run, connection: int, i: int) -> Part:
    directory = own(run, connection)
    key = directory + b"d" + NUMBER % i
    delete = rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key))
    return Part([present(key)], [delete], [directory + b"#"])


def _mixed(run: Run, connection: int, i: int) -> Part:
    if i % MIXED_CYCLE == MIXED_CYCLE - 1:
        return _set(run, connection, i // MIXED_CYCLE)
    return _get(run, connection, i)


def _multi(run: Run, connection: int, i: int) -> Part:
    log, blocks, directory = run.root + b"log/", run.root + b"blocks/", own(run, connection)
    number = b"%04d-" % connection + NUMBER % i
    keys = [log + number, blocks + number, directory + number]
    checked = present(directory + b"w" + NUMBER % 0)
    counters = [log + b"#", blocks + b"#", directory + b"#"]
    return Part([checked, *map(absent, keys)], [put(key) for key in keys], counters)


def _append(run: Run, connection: int, i: int) -> Part:
    return Part([present(own(run, connection) + b"#")], [], [])


SHAPES: dict[str, Shape] = {
    "get": _get,
    "exists": _exists,
    "children": _children,
    "create": _create,
    "sequential": _sequential,
    "set": _set,
    "delete": _delete,
    "mixed": _mixed,
    "multi": _multi,
    APPEND: _append,
}

KEYS_CHANGED = {"create": 1, "sequential": 1, "delete": -1, "multi": 3}
"""By how much one operation changes the number of keys, its counters aside; an `append` puts one a Txn."""


def txn(parts: Sequence[Part]) -> bytes:
    """One Txn with all parts, serialised; equal guards and counters go in once."""
    compares = {compare.SerializeToString(): compare for part in parts for compare in part.compares}
    counters = sorted({key for part in parts for key in part.counters})
    request = rpc.TxnRequest(
        compare=compares.values(),
        success=[op for part in parts for op in part.ops] + [put(key, bytes(8)) for key in counters],
    )
    return request.SerializeToString()


def _entry(run: Run, connection: int, number: int, batch: int) -> bytes:
    """The Txn that appends an entry of `batch` creates, not compressed."""
    key = run.root + b"log/%04d/%016d" % (connection, number)
    request = rpc.TxnRequest(
        compare=[*_append(run, connection, number).compares, absent(key)],
        success=[put(key, bytes(batch * (len(DATA) + _HEADERS)))],
    )
    return request.SerializeToString()


def requests(run: Run, shape: Shape, connection: int, batch: int, most: int) -> list[bytes]:
    """All Txns that one connection may send in a run."""
    if shape is _delete:
        most = min(most, run.deletable // batch)
    if shape is _append:
        return [_entry(run, connection, number, batch) for number in range(most)]
    return [
        txn([shape(run, connection, i) for i in range(first * batch, (first + 1) * batch)])
        for first in range(most)
    ]


class Etcd:
    """etcd's KV service with bytes in and bytes out."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.txn = channel.unary_unary("/etcdserverpb.KV/Txn", None, None)
        self._range = channel.unary_unary("/etcdserverpb.KV/Range", None, None)

    async def put_all(self, keys: Iterable[bytes]) -> None:
        """Puts DATA under every key."""
        ops = [put(key) for key in keys]
        for first in range(0, len(ops), CHUNK):
            await self.txn(rpc.TxnRequest(success=ops[first : first + CHUNK]).SerializeToString())

    async def count(self, prefix: bytes) -> int:
        """How many keys start with `prefix`."""
        request = rpc.RangeRequest(key=prefix, range_end=end_of(prefix), limit=1, keys_only=True)
        return rpc.RangeResponse.FromString(await self._range(request.SerializeToString())).count

    async def delete_all(self, prefix: bytes) -> None:
        """Deletes the keys that start with `prefix`, in Txns of moderate size.

        One Txn that changes very many keys slows etcd 3.4 down for good: every later Txn copies a read buffer
        that keeps the length of the most changes ever made between two commits of its backend.
        """
        start, end = prefix, end_of(prefix)
        while True:
            page = rpc.RangeRequest(key=start, range_end=end, limit=CHUNK, keys_only=True)
            keys = [
                kv.key for kv in rpc.RangeResponse.FromString(await self._range(page.SerializeToString())).kvs
            ]
            if not keys:
                return
            start = keys[-1] + b"\0"
            delete = rpc.DeleteRangeRequest(key=keys[0], range_end=start)
            op = rpc.RequestOp(request_delete_range=delete)
            await self.txn(rpc.TxnRequest(success=[op]).SerializeToString())


def prepared(run: Run, workload: str) -> list[bytes]:
    """The keys that a run needs; all counters are among them: only the operations change the count."""
    keys = [run.root + b"n" + NUMBER % i for i in range(READ_NODES)]
    keys += [run.root + b"listed/" + NUMBER % i for i in range(LISTED_CHILDREN)]
    keys += [run.root + directory + b"#" for directory in (b"", b"log/", b"blocks/")]
    for connection in range(run.connections):
        directory = own(run, connection)
        keys.append(directory + b"#")
        keys += [directory + b"w" + NUMBER % i for i in range(WRITTEN_NODES)]
        if workload == "delete":
            keys += [directory + b"d" + NUMBER % i for i in range(run.deletable)]
    return keys


async def drive(
    port: int,
    root: bytes,
    cell: Cell,
    seconds: float,
    limit: int,
    around: Callable[[], Callable[[Timing], dict[str, float]]],
) -> dict[str, float]:
    """One whole run; `around` is called at the start of the timed phase, what it returns at its end.

    Raises BadReply for a Txn that didn't succeed, EffectsDiffer for a wrong number of keys, AioRpcError for
    an RPC that failed.
    """
    workload, connections, depth = cell
    shape = SHAPES[workload]
    batch = 1
    lanes = connections
    most = int(MOST_TXNS_PER_SECOND * seconds) // connections
    if depth > 1:
        batch = BATCH_MULTI if workload == "multi" else BATCH
        lanes = min(LANES, connections)
        most = int(MOST_BATCHES_PER_SECOND * seconds) // lanes
    run = Run(root, lanes, max(limit // lanes, batch))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        etcd = Etcd(channel)
        await etcd.put_all(prepared(run, workload))
        before = await etcd.count(root)
        work = [requests(run, shape, lane, batch, max(most, 1)) for lane in range(lanes)]
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
        check_replies(replies)
        changed = len(replies) if workload == APPEND else sum(counts) * KEYS_CHANGED.get(workload, 0)
        promised = before + changed
        if (found := await etcd.count(root)) != promised:
            raise EffectsDiffer(f"etcd holds {found} keys, but the counted replies promise {promised}")
        await etcd.delete_all(root)
    return figures


def check_replies(replies: Iterable[bytes]) -> None:
    """Raises BadReply for a Txn whose guards failed, or a read that found nothing."""
    for reply in replies:
        response = rpc.TxnResponse.FromString(reply)
        if not response.succeeded:
            raise BadReply("a Txn's guards failed")
        for answer in response.responses:
            if answer.HasField("response_range") and not answer.response_range.count:
                raise BadReply("a read found nothing")
