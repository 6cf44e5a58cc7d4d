"""Calls and streams to one cluster: which member gets them, authentication, errors, measurements.

How a call gets to a member is the transport's business, what its bytes say `proxy.etcd.wire`'s. Only a
`repeatable` request, one that may be sent again, goes to more than one member: a member that hangs costs half
a second then, not a timeout. The unknown outcome of any other goes to the caller, who alone can settle it.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from proxy.etcd import failures, wire
from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.authenticator import Authenticator
from proxy.etcd.calls import Calls
from proxy.etcd.endpoints import Endpoint, Endpoints
from proxy.etcd.model import EtcdError, EtcdRefused, EtcdUnknown, Get
from proxy.etcd.transport import ByteStream, Request, RpcError
from proxy.support.environment import Clock
from proxy.support.latency import RoundTrip
from proxy.support.tasks import Tasks

_Answer = TypeVar("_Answer")

_TICK = 0.1  # seconds between two looks for requests that wait for long
_PATIENCE = 0.4  # seconds until a request that may be sent again goes to another member too
_ROUND_TRIPS = 4  # times the least time that calls took lately, if that is longer
_AUTHENTICATE_TIMEOUT = 10.0  # seconds: etcd hashes a password for each user who asks
_OPEN_TIMEOUT = 2.0  # seconds for opening a stream
_AUTHENTICATE_WAIT = 5.0  # seconds to get a token for a stream
_PROBE_INTERVAL = 1.0  # seconds between two requests to members that did not answer
_PROBE_TIMEOUT = 1.0
_PROBE = wire.encode_get(Get(b"\0", keys_only=True, limit=1))  # linearizable: needs a leader, too

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

    def __init__(self, endpoints: Endpoints, authenticator: Authenticator, clock: Clock) -> None:
        self.endpoints = endpoints
        self.credentials = authenticator.credentials
        self.tasks = Tasks()
        #: clock.monotonic() of the last answer that etcd gave to a request or sent on a stream.
        self.last_contact = clock.monotonic()
        #: How long calls took, and which failed.
        self.calls = Calls()
        self.clock = clock
        self._authenticator = authenticator
        self._streams: set[MemberStream] = set()
        self._repeatable: dict[_Call[Any], None] = {}  # under way, if there are other members
        self._look_timer: asyncio.TimerHandle | None = None  # one for all of them
        self._fastest = RoundTrip()
        self._probing = False

    def begin(
        self,
        method: Method,
        request: bytes,
        timeout: float,
        decode: Callable[[bytes], _Answer],
        on_answer: Callable[[_Answer | EtcdError], None],
    ) -> Request:
        """Send a request that may be sent again; its answer goes to a callback.

        A task is needed only to get a token first.
        """
        if self.credentials.user:
            if self.credentials.incomplete:
                return self._begin_in_task(method, request, timeout, decode, on_answer)
            again = partial(self._begin_in_task, method, request, timeout, decode)
            on_answer = partial(self._take_unless_expired, again, on_answer, self.credentials.token)
        return self._send(method, request, timeout, decode, on_answer, repeatable=True)

    def _take_unless_expired(
        self,
        again: Callable[[Callable[[_Answer | EtcdError], None]], Request],
        on_answer: Callable[[_Answer | EtcdError], None],
        token: str,
        answer: _Answer | EtcdError,
    ) -> None:
        """Pass an answer on; if it says that the token is not valid any more, send the request again."""
        if self.credentials.expired(answer, token):
            again(on_answer)
        else:
            on_answer(answer)

    def _begin_in_task(
        self,
        method: Method,
        request: bytes,
        timeout: float,
        decode: Callable[[bytes], _Answer],
        on_answer: Callable[[_Answer | EtcdError], None],
    ) -> Request:
        async def ask() -> None:
            try:
                answer: _Answer | EtcdError = await self.call(
                    method, request, timeout, decode, repeatable=True
                )
            except EtcdError as error:
                answer = error
            on_answer(answer)

        return self.tasks.start(ask(), f"send a {method.name}")

    async def call(
        self,
        method: Method,
        request: bytes,
        timeout: float,
        decode: Callable[[bytes], _Answer],
        *,
        repeatable: bool = False,
    ) -> _Answer:
        """Send a request and wait for its answer. Raises EtcdError. `repeatable`: it may be sent again."""
        if self.credentials.incomplete:
            await self._authenticate("", timeout)
        token = self.credentials.token
        try:
            return await self._answer_to(method, request, timeout, decode, repeatable=repeatable)
        except EtcdRefused as refusal:
            if not self.credentials.expired(refusal, token):
                raise
        await self._authenticate(token, timeout)
        return await self._answer_to(method, request, timeout, decode, repeatable=repeatable)

    async def answers_of_all(self, method: Method, request: bytes, timeout: float) -> list[bytes | RpcError]:
        """Send a request to each endpoint, and wait for all answers.

        A member that does not answer is not avoided for that: it may be one that is not in use.
        """
        loop = asyncio.get_running_loop()

        def ask(endpoint: Endpoint) -> "asyncio.Future[bytes | RpcError]":
            answered: asyncio.Future[bytes | RpcError] = loop.create_future()

            def settle(answer: bytes | RpcError) -> None:
                if not answered.done():  # else the caller was cancelled
                    answered.set_result(answer)

            endpoint.channel.begin(method.path, request, timeout, self.credentials.metadata, settle)
            return answered

        return await asyncio.gather(*map(ask, self.endpoints.all))

    async def _answer_to(
        self,
        method: Method,
        request: bytes,
        timeout: float,
        decode: Callable[[bytes], _Answer],
        *,
        repeatable: bool = False,
    ) -> _Answer:
        answered: asyncio.Future[_Answer | EtcdError] = asyncio.get_running_loop().create_future()

        def settle(answer: _Answer | EtcdError) -> None:
            if not answered.done():  # else the caller was cancelled
                answered.set_result(answer)

        sent = self._send(method, request, timeout, decode, settle, repeatable=repeatable)
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
        *,
        repeatable: bool,
    ) -> Request:
        """Send a request to the current endpoint; a `repeatable` one also to others if that is slow."""
        call = _Call(self, method, request, timeout, decode, on_answer)
        if repeatable and self.endpoints.are_several:
            self._repeatable[call] = None
            if self._look_timer is None:
                self._look_timer = asyncio.get_running_loop().call_later(_TICK, self._look)
        call.send(self.endpoints.current)
        return call

    def _look(self) -> None:
        """Send requests that wait for long to other members too."""
        now, patience = self.clock.perf_counter_ns(), self._patience
        for call in list(self._repeatable):
            call.look(now, patience)
        loop = asyncio.get_running_loop()
        self._look_timer = loop.call_later(_TICK, self._look) if self._repeatable else None

    def call_over(self, call: "_Call[Any]") -> None:
        """A request has its answer, or none is wanted."""
        self._repeatable.pop(call, None)

    @property
    def _patience(self) -> float:
        """Seconds until a request goes to another member too: more where all calls take long."""
        return max(_PATIENCE, _ROUND_TRIPS * self._fastest.seconds)

    def answered(self, method: Method, nanos: int) -> None:
        """A member has answered."""
        self.last_contact = self.clock.monotonic()
        self.calls.answered(method.name, nanos)
        self._fastest.note(nanos / 1e9)

    def leave(self, endpoint: Endpoint) -> None:
        """This endpoint does not answer: others are used until it does, which is tried in the background."""
        self.endpoints.leave(endpoint)
        if endpoint.suspect and not self._probing:
            self._probing = True
            self.tasks.start(self._probe_suspects(), "ask members that did not answer")

    async def _probe_suspects(self) -> None:
        while suspects := self.endpoints.suspects:
            await asyncio.sleep(_PROBE_INTERVAL)
            for endpoint in suspects:
                probed = partial(self._probed, endpoint)
                _Call(self, RANGE, _PROBE, _PROBE_TIMEOUT, bytes, probed).send(endpoint)
        self._probing = False

    def _probed(self, endpoint: Endpoint, answer: bytes | EtcdError) -> None:
        if not isinstance(answer, EtcdUnknown):
            endpoint.suspect = False

    async def open(self, method: Method) -> "MemberStream":
        """Open a stream at the current endpoint. Raises EtcdError."""
        if self.credentials.incomplete:
            await self._authenticate("", _AUTHENTICATE_WAIT)
        endpoint = self.endpoints.current
        metadata = (*self.credentials.metadata, _REQUIRE_LEADER)
        try:
            async with asyncio.timeout(_OPEN_TIMEOUT):
                stream = await endpoint.channel.stream(method.path, metadata)
        except RpcError as error:
            raise self.failure(endpoint, error.details) from None
        except TimeoutError:
            raise self.failure(endpoint, f"no stream to {endpoint.address} could be opened") from None
        opened = MemberStream(stream, self, endpoint)
        self._streams.add(opened)
        return opened

    def heard(self) -> None:
        """A stream has brought a message."""
        self.last_contact = self.clock.monotonic()

    def forget(self, stream: "MemberStream") -> None:
        """The stream is closed."""
        self._streams.discard(stream)

    def failure(self, endpoint: Endpoint, details: str) -> EtcdError:
        """The error for `details` from an endpoint, which later requests avoid if the outcome is unknown."""
        error = failures.error_for(details)
        if type(error) is EtcdUnknown:
            self.leave(endpoint)
        return error

    async def close(self) -> None:
        """End all streams, tasks and connections. Requests under way fail as unknown."""
        await self.tasks.close()
        await self._authenticator.close()
        for stream in list(self._streams):
            stream.close()
        await self.endpoints.close()

    async def _authenticate(self, stale: str, timeout: float) -> None:
        """Get a token in place of `stale`. Raises EtcdError."""
        decode = partial(wire.decode, pb.AuthenticateResponse)

        async def ask(request: bytes) -> str:
            try:
                answer = await self._answer_to(
                    _AUTHENTICATE, request, _AUTHENTICATE_TIMEOUT, decode, repeatable=True
                )
            except EtcdRefused as refusal:
                if refusal.message != failures.AUTH_NOT_ENABLED:
                    raise
                return ""  # as etcd's own client: an etcd without authentication accepts a user too
            return answer.token

        await self._authenticator.renew(stale, timeout, ask)


class _Call(Generic[_Answer]):
    """A request to one member, and while that does not answer to others, if it may be sent again."""

    __slots__ = (
        "_attempts",
        "_decode",
        "_method",
        "_on_answer",
        "_request",
        "_rpc",
        "_timeout",
        "_unanswered",
    )

    def __init__(
        self,
        rpc: Rpc,
        method: Method,
        request: bytes,
        timeout: float,
        decode: Callable[[bytes], _Answer],
        on_answer: Callable[[_Answer | EtcdError], None],
    ) -> None:
        self._rpc = rpc
        self._method = method
        self._request = request
        self._timeout = timeout
        self._decode = decode
        self._on_answer: Callable[[_Answer | EtcdError], None] | None = on_answer
        self._attempts: list[tuple[Endpoint, int, Request]] = []  # each with its start, in nanoseconds
        self._unanswered = 0

    def send(self, endpoint: Endpoint) -> None:
        """Send it to this member."""
        rpc = self._rpc
        started = rpc.clock.perf_counter_ns()
        timeout = self._timeout
        if self._attempts:
            timeout -= (started - self._attempts[0][1]) / 1e9
        self._unanswered += 1
        answered = partial(self._answered, endpoint, started)
        metadata = rpc.credentials.metadata
        request = endpoint.channel.begin(self._method.path, self._request, timeout, metadata, answered)
        self._attempts.append((endpoint, started, request))

    def look(self, now: int, patience: float) -> None:
        """Send it to another member if the last one has not answered for `patience` seconds."""
        last, sent, _ = self._attempts[-1]
        if now - sent >= patience * 1e9 and now - self._attempts[0][1] < self._timeout * 1e9:
            self.send(self._rpc.endpoints.after(last))

    def cancel(self) -> None:
        """The answer is not wanted any more; no member is to blame."""
        if self._on_answer is not None:
            self._end()
            for _, _, request in self._attempts:
                request.cancel()

    def _answered(self, endpoint: Endpoint, started: int, response: bytes | RpcError) -> None:
        on_answer = self._on_answer
        if on_answer is None:
            return
        self._unanswered -= 1
        answer = self._read(endpoint, started, response)
        unknown = type(answer) is EtcdUnknown
        if unknown and self._unanswered:
            return  # another member may still answer
        self._end()
        if len(self._attempts) > 1:
            for _, begun, request in self._attempts:
                if begun != started:
                    request.cancel()
            if not unknown:
                self._prefer(endpoint)
        on_answer(answer)

    def _read(self, endpoint: Endpoint, started: int, response: bytes | RpcError) -> _Answer | EtcdError:
        rpc = self._rpc
        if isinstance(response, RpcError):
            error = rpc.failure(endpoint, response.details)
        else:
            try:
                answer = self._decode(response)
            except EtcdUnknown as garbled:
                rpc.leave(endpoint)  # another one may do better
                error = garbled
            else:
                endpoint.answered = rpc.clock.perf_counter_ns()
                rpc.answered(self._method, endpoint.answered - started)
                return answer
        rpc.calls.failed(self._method.name, error)
        return error

    def _prefer(self, endpoint: Endpoint) -> None:
        """Leave the members that were asked before this one: they had more time, and have not answered."""
        for asked, _, _ in self._attempts:
            if asked is endpoint:
                break
            self._rpc.leave(asked)
        self._rpc.endpoints.current = endpoint

    def _end(self) -> None:
        self._on_answer = None
        self._rpc.call_over(self)


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

    @property
    def is_suspect(self) -> bool:
        """Whether its member did not answer lately, while another one did."""
        return self._endpoint.suspect

    def distrust(self) -> None:
        """Use other endpoints from now on: this one does not answer."""
        self._rpc.leave(self._endpoint)

    def close(self) -> None:
        """End the stream; `listen` raises EtcdUnknown."""
        self._rpc.forget(self)
        self._stream.cancel()
