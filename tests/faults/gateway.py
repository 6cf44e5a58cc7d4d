"""A gateway between a proxy and its etcd that knows what an append is: a test decides what becomes of each.

It speaks gRPC on both sides, as a service mesh does. Everything passes, but each append is shown to the test
first, which may hold it back.
"""

import contextlib
import enum
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self

import grpc

from lab.servers import EtcdServer, wait_until
from proxy.etcd import rpc_pb2 as pb
from schema.entry import Entry, Kind, decode_entry
from schema.errors import ForeignKey
from schema.keys import Keyspace
from schema.keys import Kind as KeyKind

_TXN = "/etcdserverpb.KV/Txn"
_THREADS = 200  # each stream takes one, and each append that is held back
_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Fate(enum.Enum):
    """What becomes of an append."""

    PASS = "it goes to etcd, the answer to the proxy"
    HOLD = "it waits here, and goes to etcd later"


class Append(NamedTuple):
    """An append that a proxy has sent."""

    incarnation: str
    number: int
    entry: Entry

    @property
    def kinds(self) -> set[Kind]:
        """What the entry's requests are."""
        return {Kind(request.kind) for request in self.entry.requests}


def passing(_append: Append) -> Fate:
    """Let everything through."""
    return Fate.PASS


class Gateway:
    """Relays gRPC to an etcd."""

    def __init__(self, etcd: EtcdServer, prefix: str = "/zketcd") -> None:
        self._keys = Keyspace(prefix)
        self._upstream: Any = grpc.insecure_channel(etcd.address, options=_UNLIMITED)
        self._decide: Callable[[Append], Fate] = passing
        self._open = threading.Event()  # held appends may be sent
        self._open.set()
        self._lock = threading.Lock()
        #: Those that wait here now.
        self.held: list[Append] = []
        self._server = grpc.server(ThreadPoolExecutor(_THREADS), options=_UNLIMITED)
        self._server.add_generic_rpc_handlers((_Handler(self),))
        self._port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    @property
    def endpoint(self) -> str:
        """For `--etcd`."""
        return f"http://127.0.0.1:{self._port}"

    def decide(self, decide: Callable[[Append], Fate]) -> None:
        """Ask this of each append from now on; what is held stays so until `release`."""
        with self._lock:
            self._open = threading.Event()
            self._decide = decide

    def release(self) -> None:
        """Release what is held, and everything that comes."""
        with self._lock:
            self._decide = passing
            self._open.set()

    def await_held(self, count: int = 1) -> list[Append]:
        """Wait until so many appends are held; those that were sent again do not count."""

        def enough() -> list[Append] | None:
            with self._lock:
                found = {(append.incarnation, append.number): append for append in self.held}
            return list(found.values()) if len(found) >= count else None

        return wait_until(enough, f"{count} appends held back") or []

    def close(self) -> None:
        """End everything."""
        self.release()
        self._server.stop(None)
        self._upstream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- relaying ------------------------------------------------------------------------------------------

    def append_in(self, request: bytes) -> Append | None:
        """The append that a Txn is, if it is one."""
        ops = list(pb.TxnRequest.FromString(request).success)
        while ops:
            op = ops.pop()
            ops += op.request_txn.success
            if not op.HasField("request_put"):
                continue
            put = op.request_put
            try:
                parsed = self._keys.parse(put.key)
            except ForeignKey:
                continue
            if parsed.kind is KeyKind.ENTRY:
                return Append(parsed.incarnation, parsed.number, decode_entry(put.value))
        return None

    def txn(self, request: bytes, context: Any) -> bytes:
        """One Txn."""
        append = self.append_in(request)
        fate = Fate.PASS
        with self._lock:
            may_go = self._open
            if append is not None:
                fate = self._decide(append)
                if fate is not Fate.PASS:
                    self.held.append(append)
        if fate is Fate.HOLD:
            may_go.wait()
        try:
            answer: bytes = self._upstream.unary_unary(_TXN)(
                request, metadata=_passed_on(context), timeout=60
            )
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())
            raise
        except ValueError as error:  # the gateway is closed
            context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
            raise
        finally:
            if append is not None and fate is not Fate.PASS:
                with self._lock:
                    self.held.remove(append)
        return answer

    def relay(self, method: str, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """Any other call."""
        call = self._upstream.stream_stream(method)(_until_gone(requests), metadata=_passed_on(context))
        context.add_callback(call.cancel)
        try:
            yield from call
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())


def _passed_on(context: Any) -> list[tuple[str, str]]:
    """The metadata that are etcd's."""
    return [(key, value) for key, value in context.invocation_metadata() if key in {"hasleader", "token"}]


def _until_gone(requests: Iterator[bytes]) -> Iterator[bytes]:
    """What a client sends, until it goes away."""
    with contextlib.suppress(grpc.RpcError):
        yield from requests


class _Handler(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Finds the handler of a call."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def service(self, handler_call_details: Any) -> Any:
        """A handler that leaves bytes as they are."""
        gateway, method = self._gateway, handler_call_details.method
        if method == _TXN:
            return grpc.unary_unary_rpc_method_handler(gateway.txn)
        return grpc.stream_stream_rpc_method_handler(
            lambda requests, context: gateway.relay(method, requests, context)
        )
