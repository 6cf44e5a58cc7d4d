"""Calls and streams to one cluster: which member gets them, authentication, errors, measurements.

How a call gets to a member is the transport's business, what its bytes say `proxy.etcd.client`'s. No request
is repeated here once etcd may have seen it: an unknown outcome goes to the caller, since only the caller can
settle it.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

from proxy.etcd import failures, wire
from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.calls import Calls
from proxy.etcd.credentials import Credentials
from proxy.etcd.endpoints import Endpoint, Endpoints
from proxy.etcd.model import EtcdError, EtcdRefused, EtcdUnknown
from proxy.etcd.transport import ByteStream, Request, RpcError
from proxy.support.environment import Clock
from proxy.support.tasks import Tasks

_Answer = TypeVar("_Answer")

# Without this a member that lost quorum keeps a stream open in silence for ever.
_REQUIRE_LEADER = ("hasleader", "true")


class Method(NamedTuple):
    """One of etcd's methods."""

    path: str
    name: str


def _method(service: str, name: str) -> Method:
    return Method(f"/etcdserverpb.{service}/{name}", name)


TXN = _method("KV", "Txn")
RANGE = _method("KV", "Range")
WATCH = _method("Watch", "Watch")
LEASE_GRANT = _method("Lease", "LeaseGrant")
LEASE_REVOKE = _method("Lease", "LeaseRevoke")
LEASE_KEEP_ALIVE = _method("Lease", "LeaseKeepAlive")
STATUS = _method("Maintenance", "Status")
_AUTHENTICATE = _method("Auth", "Authenticate")


class Rpc:
    """All calls of one client. A failure of unknown outcome moves later requests to the next endpoint."""

    def __init__(self, endpoints: Endpoints, credentials: Credentials, clock: Clock) -> None:
        self.endpoints = endpoints
        self.credentials = credentials
        self.tasks = Tasks()
        #: clock.monotonic() of the last answer that etcd gave to a request or sent on a stream.
        self.last_contact = clock.monotonic()
        #: How long calls took, and which failed.
        self.calls = Calls()
        self._clock = clock
        self._authenticating = asyncio.Lock()
        self._streams: set[MemberStream] = set()

    def begin(
        self,
        method: Method,
        request: bytes,
        timeout: float,
        decode: Callable[[bytes], _Answer],
        on_answer: Callable[[_Answer | EtcdError], None],
    ) -> None:
        """Send a request; its answer goes to a callback. A task is needed only to get a token first."""

        def answered(answer: _Answer | EtcdError) -> None:
            if self.credentials.expired(answer):
                self._begin_in_task(method, request, timeout, decode, on_answer)
            else:
                on_answer(answer)

        if not self.credentials.user:
            self._send(method, request, timeout, decode, on_answer)
        elif not self.credentials.token:
            self._begin_in_task(method, request, timeout, decode, on_answer)
        else:
            self._send(method, request, timeout, decode, answered)

    def _begin_in_task(
        self,
        method: Method,
        request: bytes,
        timeout: float,
        decode: Callable[[bytes], _Answer],
        on_answer: Callable[[_Answer | EtcdError], None],
    ) -> None:
        async def ask() -> None:
            try:
                answer: _Answer | EtcdError = await self.call(method, request, timeout, decode)
            except EtcdError as error:
                answer = error
            on_answer(answer)

        self.tasks.start(ask(), f"send a {method.name}")

    async def call(
        self, method: Method, request: bytes, timeout: float, decode: Callable[[bytes], _Answer]
    ) -> _Answer:
        """Send a request and wait for its answer. Raises EtcdError."""
        if self.credentials.incomplete:
            await self._authenticate("", timeout)
        token = self.credentials.token
        try:
            return await self._attempt(method, request, timeout, decode)
        except EtcdRefused as refusal:
            if not self.credentials.expired(refusal):
                raise
        await self._authenticate(token, timeout)
        return await self._attempt(method, request, timeout, decode)

    async def _attempt(
        self, method: Method, request: bytes, timeout: float, decode: Callable[[bytes], _Answer]
    ) -> _Answer:
        answered: asyncio.Future[_Answer | EtcdError] = asyncio.get_running_loop().create_future()

        def settle(answer: _Answer | EtcdError) -> None:
            if not answered.done():  # else the caller was cancelled
                answered.set_result(answer)

        sent = self._send(method, request, timeout, decode, settle)
        try:
            answer = await answered
        finally:
            sent.cancel()
        if isinstance(answer, EtcdError):
            raise answer
        return answer

    def _send(
        self,
        method: Method,
        request: bytes,
        timeout: float,
        decode: Callable[[bytes], _Answer],
        on_answer: Callable[[_Answer | EtcdError], None],
    ) -> Request:
        """Send a request to the current endpoint."""
        endpoint = self.endpoints.current
        clock = self._clock
        started = clock.perf_counter_ns()

        def answered(response: bytes | RpcError) -> None:
            answer: _Answer | EtcdError
            if isinstance(response, RpcError):
                answer = self.failure(endpoint, response.details)
                self.calls.failed(method.name, answer)
            else:
                try:
                    answer = decode(response)
                except EtcdUnknown as garbled:
                    self.endpoints.leave(endpoint)  # another one may do better
                    self.calls.failed(method.name, garbled)
                    answer = garbled
                else:
                    self.last_contact = clock.monotonic()
                    self.calls.answered(method.name, clock.perf_counter_ns() - started)
            on_answer(answer)

        metadata = self.credentials.metadata
        return endpoint.channel.begin(method.path, request, timeout, metadata, answered)

    async def open(self, method: Method) -> "MemberStream":
        """Open a stream at the current endpoint. Raises EtcdError."""
        if self.credentials.incomplete:
            await self._authenticate("", 5.0)
        endpoint = self.endpoints.current
        metadata = (*self.credentials.metadata, _REQUIRE_LEADER)
        try:
            stream = await endpoint.channel.stream(method.path, metadata)
        except RpcError as error:
            raise self.failure(endpoint, error.details) from None
        opened = MemberStream(stream, self, endpoint)
        self._streams.add(opened)
        return opened

    def heard(self) -> None:
        """A stream has brought a message."""
        self.last_contact = self._clock.monotonic()

    def forget(self, stream: "MemberStream") -> None:
        """The stream is closed."""
        self._streams.discard(stream)

    def failure(self, endpoint: Endpoint, details: str) -> EtcdError:
        """The error for `details` from an endpoint, which later requests avoid if the outcome is unknown."""
        error = failures.error_for(details)
        if type(error) is EtcdUnknown:
            self.endpoints.leave(endpoint)
        return error

    async def close(self) -> None:
        """End all streams, tasks and connections. Requests under way fail as unknown."""
        await self.tasks.close()
        for stream in list(self._streams):
            stream.close()
        await self.endpoints.close()

    async def _authenticate(self, stale: str, timeout: float) -> None:
        """Get a token in place of `stale`."""
        async with self._authenticating:
            if self.credentials.token != stale:
                return  # another request has got a new one in the meantime
            self.credentials.use("")
            decode = partial(wire.decode, pb.AuthenticateResponse)
            try:
                response = await self._attempt(_AUTHENTICATE, self.credentials.request, timeout, decode)
            except EtcdRefused as refusal:
                if refusal.message != failures.AUTH_NOT_ENABLED:
                    raise
                # As etcd's own client: an etcd without authentication accepts a user too.
                return
            self.credentials.use(response.token)


class MemberStream:
    """One open stream to one member. Ends by an EtcdError from `listen` or `write`, or by `close`."""

    def __init__(self, stream: ByteStream, rpc: Rpc, endpoint: Endpoint) -> None:
        self._stream = stream
        self._rpc = rpc
        self._endpoint = endpoint

    def write(self, request: bytes) -> None:
        """Send one message. Raises EtcdUnknown or EtcdRefused if the stream is broken."""
        try:
            self._stream.write(request)
        except RpcError as error:
            raise self._rpc.failure(self._endpoint, error.details) from None

    async def listen(self, on_message: Callable[[bytes], None]) -> None:
        """Pass on the messages as they arrive.

        Raises EtcdUnknown or EtcdRefused when the stream is broken, and what `on_message` raises.
        """

        def take(message: bytes) -> None:
            self._rpc.heard()
            on_message(message)

        try:
            await self._stream.listen(take)
        except RpcError as error:
            raise self._rpc.failure(self._endpoint, error.details) from None
        raise EtcdUnknown("the stream was ended")

    def distrust(self) -> None:
        """Use other endpoints from now on: this one does not answer."""
        self._rpc.endpoints.leave(self._endpoint)

    def close(self) -> None:
        """End the stream; `listen` raises EtcdUnknown."""
        self._rpc.forget(self)
        self._stream.cancel()
