"""What etcd answers: ranges, Txns, the watch stream, and the HTTP/2 that carries them."""

import asyncio
from collections.abc import Callable
from typing import Any

from proof.fuzzing.target import Target, Wrong
from proof.fuzzing.targets.pieces import Pieces, cut
from proxy.etcd import rpc_pb2 as pb
from proxy.etcd import wire
from proxy.etcd.http2 import Call, Connection
from proxy.etcd.model import Compare, Delete, EtcdUnknown, Get, Put, Txn
from proxy.etcd.transport import RpcError

_TXN = Txn(
    (Compare(b"k", 0),),
    (Get(b"a"), Put(b"b", b"1"), Txn((), (Get(b"c"), Delete(b"d")), ())),
    (Get(b"a"), Txn((), (), ())),
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


class _Loop:
    """What Connection needs of a loop: nothing happens unless it is called."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], object]] = []

    def time(self) -> float:
        return 100.0

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._soon.append(callback)

    def call_later(self, delay: float, callback: Callable[[], object]) -> Any:
        return self

    def call_at(self, when: float, callback: Callable[[], object]) -> Any:
        return self

    def cancel(self) -> None:
        """As a timer."""

    def run(self) -> None:
        while self._soon:
            self._soon.pop(0)()


class _Transport(asyncio.Transport):
    def write(self, data: Any) -> None:
        """No reader is needed."""

    def abort(self) -> None:
        """The same."""


_STREAMS = (1, 3)


def http2(data: bytes) -> None:
    """What a server sends to two calls: they end, once each, with an answer or RpcError."""
    loop: Any = _Loop()
    connection = Connection(loop, "etcd")
    connection.connection_made(_Transport())
    answers: dict[int, list[bytes | RpcError]] = {stream: [] for stream in _STREAMS}
    calls: list[Call] = []
    for stream in _STREAMS:
        call = connection.open(b"\x83")
        call.answer(1.0, answers[stream].append)
        connection.send(call, bytes(100), last=True)
        calls.append(call)
    for chunk in cut(data):
        if not connection.usable:
            break
        connection.data_received(chunk)
        loop.run()
    connection.connection_lost(None)
    loop.run()
    if connection.busy or any(len(got) != 1 for got in answers.values()):
        raise Wrong(f"answers by stream: { {stream: len(got) for stream, got in answers.items()} }")
    if not all(call.ended for call in calls):
        raise Wrong("a call continues without a connection")


ETCD = (
    Target("range-answer", "A RangeResponse.", range_answer, (EtcdUnknown,), 2000),
    Target("txn-answer", "A TxnResponse.", txn_answer, (EtcdUnknown,), 2000),
    Target("watch-stream", "WatchResponses, each a piece.", watch_stream, (EtcdUnknown,), 2000),
    Target("http2", "What a server sends.", http2, ()),
)
