"""Calls and streams to one cluster: which member gets them, authentication, errors, measurements.

How a call gets to a member is the transport's business, what its bytes say `proxy.etcd.client`'s. Only a
request that may be sent again (`race`) goes to more than one member: a member that hangs costs half a second
then, not a timeout. The unknown outcome of any other goes to the caller, since only the caller can settle it.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from proxy.etcd import failures, wire
from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.calls import Calls
from proxy.etcd.credentials import Credentials
from proxy.etcd.endpoints import Endpoint, Endpoints
from proxy.etcd.model import EtcdError, EtcdRefused, EtcdUnknown, Get
from proxy.etcd.transport import ByteStream, Request, RpcError
from proxy.support.environment import Clock
from proxy.support.latency import RoundTrip
from proxy.support.tasks import Tasks

_Answer = TypeVar("_Answer")

_RACE_TICK = 0.1  # seconds between two looks for requests that wait for long
_RACE_AFTER = 0.4  # seconds until a request that may be sent again goes to another member too
_RACE_FACTOR = 4  # times the least time that calls took lately, if that is longer
_OPEN_TIMEOUT = 2.0  # seconds for opening a stream
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

    def __init__(self, endpoints: Endpoints, credentials: Credentials, clock: Clock) -> None:
        self.endpoints = endpoints
        self.credentials = credentials
        self.tasks = Tasks()
        #: clock.monotonic() of the last answer that etcd gave to a request or sent on a stream.
        self.last_contact = clock.monotonic()
        #: How long calls took, and which failed.
        self.calls = Calls()
        self.clock = clock
        self._authenticating = asyncio.Lock()
        self._streams: set[MemberStream] = set()
        self._races: dict[_Race[Any], None] = {}
        self._race_timer: asyncio.TimerHandle | None = None
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

        def answered(answer: _Answer | EtcdError) -> None:
            if self.credentials.expired(answer):
                self._begin_in_task(method, request, timeout, decode, on_answer)
            else:
                on_answer(answer)

        if not self.credentials.user:
            return self._race(method, request, timeout, decode, on_answer)
        if not self.credentials.token:
            return self._begin_in_task(method, request, timeout, decode, on_answer)
        return self._race(method, request, timeout, decode, answered)

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
            if not self.credentials.expired(refusal):
                raise
        await self._authenticate(token, timeout)
        return await self._answer_to(method, request, timeout, decode, repeatable=repeatable)

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

        send = self._race if repeatable else self._send
        sent = send(method, request, timeout, decode, settle)
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
        return _Attempt(self, self.endpoints.current, method, request, timeout, decode, on_answer)

    def _race(
        self,
        method: Method,
        request: bytes,
        timeout: float,
        decode: Callable[[bytes], _Answer],
        on_answer: Callable[[_Answer | EtcdError], None],
    ) -> Request:
        """Send a request to the current endpoint, and while that does not answer to others as well."""
        if len(self.endpoints) == 1:
            return self._send(method, request, timeout, decode, on_answer)
        race = _Race(self, method, request, timeout, decode, on_answer)
        self._races[race] = None
        race.send(self.endpoints.current)
        if self._race_timer is None:
            self._race_timer = asyncio.get_running_loop().call_later(_RACE_TICK, self._look_at_races)
        return race

    def _look_at_races(self) -> None:
        loop = asyncio.get_running_loop()
        for race in list(self._races):
            race.look(loop.time())
        self._race_timer = loop.call_later(_RACE_TICK, self._look_at_races) if self._races else None

    def race_over(self, race: "_Race[Any]") -> None:
        """A request has its answer."""
        self._races.pop(race, None)

    @property
    def race_after(self) -> float:
        """After how many seconds a request goes to another member: later where all calls take long."""
        return max(_RACE_AFTER, _RACE_FACTOR * self._fastest.seconds)

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
                _Attempt(
                    self, endpoint, RANGE, _PROBE, _PROBE_TIMEOUT, bytes, partial(self._probed, endpoint)
                )
        self._probing = False

    def _probed(self, endpoint: Endpoint, answer: bytes | EtcdError) -> None:
        if not isinstance(answer, EtcdUnknown):
            endpoint.suspect = False

    async def open(self, method: Method) -> "MemberStream":
        """Open a stream at the current endpoint. Raises EtcdError."""
        if self.credentials.incomplete:
            await self._authenticate("", 5.0)
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
                response = await self._answer_to(_AUTHENTICATE, self.credentials.request, timeout, decode)
            except EtcdRefused as refusal:
                if refusal.message != failures.AUTH_NOT_ENABLED:
                    raise
                # As etcd's own client: an etcd without authentication accepts a user too.
                return
            self.credentials.use(response.token)


class _Attempt(Generic[_Answer]):
    """A request that was sent to one member, once."""

    __slots__ = ("_decode", "_endpoint", "_method", "_on_answer", "_request", "_rpc", "_started")

    def __init__(
        self,
        rpc: Rpc,
        endpoint: Endpoint,
        method: Method,
        request: bytes,
        timeout: float,
        decode: Callable[[bytes], _Answer],
        on_answer: Callable[[_Answer | EtcdError], None],
    ) -> None:
        self._rpc = rpc
        self._endpoint = endpoint
        self._method = method
        self._decode = decode
        self._on_answer: Callable[[_Answer | EtcdError], None] | None = on_answer
        self._started = rpc.clock.perf_counter_ns()
        metadata = rpc.credentials.metadata
        self._request = endpoint.channel.begin(method.path, request, timeout, metadata, self._answered)

    def cancel(self) -> None:
        """The answer is not wanted any more; the member is not to blame."""
        if self._on_answer is not None:
            self._on_answer = None
            self._request.cancel()

    def _answered(self, response: bytes | RpcError) -> None:
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is None:
            return
        rpc = self._rpc
        answer: _Answer | EtcdError
        if isinstance(response, RpcError):
            answer = rpc.failure(self._endpoint, response.details)
            rpc.calls.failed(self._method.name, answer)
        else:
            try:
                answer = self._decode(response)
            except EtcdUnknown as garbled:
                rpc.leave(self._endpoint)  # another one may do better
                rpc.calls.failed(self._method.name, garbled)
                answer = garbled
            else:
                rpc.answered(self._method, rpc.clock.perf_counter_ns() - self._started)
        on_answer(answer)


class _Race(Generic[_Answer]):
    """A request that may be sent again: to one member after another, until the first answer."""

    __slots__ = (
        "_asked",
        "_attempts",
        "_deadline",
        "_decode",
        "_method",
        "_next",
        "_on_answer",
        "_request",
        "_rpc",
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
        self._decode = decode
        self._on_answer: Callable[[_Answer | EtcdError], None] | None = on_answer
        now = asyncio.get_running_loop().time()
        self._deadline = now + timeout
        self._next = now + rpc.race_after
        self._attempts: list[_Attempt[_Answer]] = []
        self._asked: list[Endpoint] = []
        self._unanswered = 0

    def send(self, endpoint: Endpoint) -> None:
        """Send it to one more member."""
        self._asked.append(endpoint)
        self._unanswered += 1
        left = max(0.0, self._deadline - asyncio.get_running_loop().time())
        answered = partial(self._answered, endpoint)
        self._attempts.append(
            _Attempt(self._rpc, endpoint, self._method, self._request, left, self._decode, answered)
        )

    def look(self, now: float) -> None:
        """Send it to another member if it is time for that."""
        if self._next <= now < self._deadline and self._on_answer is not None:
            self._next = now + self._rpc.race_after
            self.send(self._rpc.endpoints.after(self._asked[-1]))

    def cancel(self) -> None:
        """The answer is not wanted any more."""
        self._on_answer = None
        self._rpc.race_over(self)
        for attempt in self._attempts:
            attempt.cancel()

    def _answered(self, endpoint: Endpoint, answer: _Answer | EtcdError) -> None:
        self._unanswered -= 1
        unknown = isinstance(answer, EtcdError) and type(answer) is EtcdUnknown
        if self._on_answer is None or (unknown and self._unanswered):
            return  # over, or another member may still answer
        on_answer = self._on_answer
        if not unknown and self._asked[0] is not endpoint:
            for other in self._asked[: self._asked.index(endpoint)]:
                self._rpc.leave(other)  # it had more time and has not answered
            self._rpc.endpoints.current = endpoint
        self.cancel()
        on_answer(answer)


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
        self._rpc.leave(self._endpoint)

    def close(self) -> None:
        """End the stream; `listen` raises EtcdUnknown."""
        self._rpc.forget(self)
        self._stream.cancel()
