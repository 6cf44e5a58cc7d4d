"""Calls and streams to one cluster: which member gets them, authentication, errors, measurements.

How a call gets to a member is the transport's business, what its bytes say `proxy.etcd.wire`'s. Only a
`repeatable` call, one that may be sent again, goes to more than one member: a member that hangs costs half a
second then, not a timeout. The unknown outcome of any other goes to the caller, who alone can settle it.

A `Call` says what is asked. `Rpc.begin` makes an `_Attempt` of it, which lives until it has the answer: it
waits until the cluster is chosen, gets a token where one is needed, and sends the request to the current
endpoint, and to others.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from proxy.etcd import failures, wire
from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.authenticator import Authenticator
from proxy.etcd.http2 import Http2Channel
from proxy.etcd.interface import Calls
from proxy.etcd.model import EtcdError, EtcdRefused, EtcdUnknown, Get
from proxy.etcd.tls import Tls
from proxy.etcd.transport import ByteStream, Channel, InFlight, RpcError, TransportMissing
from proxy.options.etcd import GRPCIO, HTTP2, TRANSPORTS
from proxy.support.environment import Clock
from proxy.support.latency import RoundTrip
from proxy.support.libraries import how_to_add
from proxy.support.tasks import Tasks
from proxy.support.throttled_log import ThrottledLog

_LOG = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")

_TICK = 0.1  # seconds between two looks for requests that wait for long
_SLOW = 0.4  # seconds until a request that may be sent again goes to another member too
_ROUND_TRIPS = 4  # times the least time that calls took lately, if that is longer
_AUTHENTICATE_TIMEOUT = 10.0  # seconds: etcd hashes a password for each user who asks
_OPEN_TIMEOUT = 2.0  # seconds for opening a stream
_OTHERS = 1.0  # seconds for the other members to name their cluster, once one has
_AUTHENTICATE_WAIT = 5.0  # seconds to get a token for a stream
_PROBE_INTERVAL = 1.0  # seconds between two requests to members that did not answer
_PROBE_TIMEOUT = 1.0

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
ALARM = _method("Maintenance", "Alarm")
_AUTHENTICATE = _method("Auth", "Authenticate")


class Call(NamedTuple, Generic[_Answer]):
    """What is asked of etcd, once."""

    method: Method
    request: bytes
    timeout: float  # seconds; that of getting a token comes on top
    decode: Callable[[bytes], _Answer]  # raises EtcdUnknown for bytes that are no answer
    repeatable: bool = False  # whether it may be sent again, also while it may have been applied


# A linearizable read: its member needs a leader, too.
_PROBE = Call(RANGE, wire.encode_get(Get(b"\0", keys_only=True, limit=1)), _PROBE_TIMEOUT, bytes)


#: Makes the channel to a host and port, or to a Unix socket (see `is_socket`).
Connect = Callable[[str, int, Tls | None], Channel]


def connector(transport: str) -> Connect:
    """What makes channels of a transport. Raises ValueError, and TransportMissing, which is one."""
    if transport == HTTP2:
        return Http2Channel
    if transport != GRPCIO:
        raise ValueError(f"not a transport to etcd: {transport!r} (expected {' or '.join(TRANSPORTS)})")
    try:
        # Only here: the server works without grpcio unless the option names it (docs/decisions/0017).
        from proxy.etcd.grpc_channel import GrpcChannel
    except ImportError as error:
        raise TransportMissing(
            f"the transport grpcio cannot be used: {error}: {how_to_add('grpcio')}."
            " `--etcd-transport http2`, the default, needs nothing."
        ) from None
    return GrpcChannel


class Endpoint:
    """One member."""

    def __init__(self, endpoint: str, tls: Tls | None, connect: Connect) -> None:
        """Raises ValueError if this is no endpoint. `tls` is for https."""
        self.channel = connect(*_place_of(endpoint, tls))
        self.address = self.channel.address
        #: It did not answer lately, or later than another member. It gets requests only if all are like this.
        self.suspect = False
        #: When it last answered, in nanoseconds of the client's clock.
        self.answered = 0
        #: The cluster (`wire.cluster_of`) that its last answer was of; b"" also for the one in use.
        self.cluster = b""


def _place_of(endpoint: str, tls: Tls | None) -> tuple[str, int, Tls | None]:
    """What `Connect` takes. Raises ValueError if this is no endpoint."""
    url = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}")
    if url.scheme == "unix" and not url.netloc and url.path:
        return unquote(url.path), 0, None
    expected = (
        f"not an etcd endpoint: {endpoint!r} (expected http://HOST:PORT, https://HOST:PORT or unix:///PATH)"
    )
    if url.scheme not in ("http", "https") or not url.hostname or url.path not in ("", "/"):
        raise ValueError(expected)
    try:
        port = url.port or 2379
    except ValueError as error:  # it does not name the endpoint
        raise ValueError(f"{expected}: {error}") from error
    return url.hostname, port, (tls or Tls()) if url.scheme == "https" else None


class Endpoints:
    """All members."""

    def __init__(self, endpoints: Sequence[str], tls: Tls | None, connect: Connect) -> None:
        """Raises ValueError for a bad endpoint, or none."""
        if not endpoints:
            raise ValueError("no etcd endpoint given")
        self.all = [Endpoint(endpoint, tls, connect) for endpoint in endpoints]
        self.are_several = len(self.all) > 1
        #: Where the next request goes.
        self.current = self.all[0]

    @property
    def suspects(self) -> list[Endpoint]:
        """Those that did not answer lately."""
        return [endpoint for endpoint in self.all if endpoint.suspect]

    def after(self, endpoint: Endpoint) -> Endpoint:
        """The next endpoint: one that answers, if there is one besides this; else the last one that did.

        On a slow machine none may answer in time. A member that hangs must not be taken again for that.
        """
        index = self.all.index(endpoint)
        others = [*self.all[index + 1 :], *self.all[:index]]
        latest = max(others, key=attrgetter("answered"), default=endpoint)
        return next((other for other in others if not other.suspect), latest)

    def leave(self, endpoint: Endpoint) -> None:
        """This endpoint does not answer: send it no more requests until it does, if there are others."""
        endpoint.suspect = self.are_several
        if endpoint is self.current:
            self.current = self.after(endpoint)

    async def close(self) -> None:
        """Close all connections. Requests under way fail as unknown."""
        for endpoint in self.all:
            await endpoint.channel.close()


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
        self._cluster = b""  # that the members are of, as `wire.cluster_of`
        self._throttled_log = ThrottledLog(_LOG, clock)
        self._authenticator = authenticator
        self.streams: set[MemberStream] = set()
        self.repeatable: dict[_Attempt[Any], None] = {}  # under way, if there are other members
        self._look_timer: asyncio.TimerHandle | None = None  # one for all of them
        self._fastest = RoundTrip()
        self._probing = False

    async def ask(self, call: Call[_Answer]) -> _Answer:
        """Send a request and wait for its answer. Raises EtcdError."""
        answered: asyncio.Future[_Answer | EtcdError] = asyncio.get_running_loop().create_future()

        def settle(answer: _Answer | EtcdError) -> None:
            if not answered.done():  # else the caller was cancelled
                answered.set_result(answer)

        sent = self.begin(call, settle)
        try:
            answer = await answered
        finally:
            sent.cancel()
        if isinstance(answer, EtcdError):
            raise answer
        return answer

    def begin(self, call: Call[_Answer], on_answer: Callable[[_Answer | EtcdError], None]) -> InFlight:
        """Send a request; its answer goes to a callback, once.

        A task is needed only where the cluster has to be chosen first, or a token got.
        """
        attempt = _Attempt(self, call, on_answer)
        attempt.begin()
        return attempt

    async def answers_of_all(self, call: Call[_Answer]) -> list[_Answer | EtcdError]:
        """Send a request to each endpoint, and wait for all answers."""
        return await asyncio.gather(*self._begin_at_all(call))

    def _begin_at_all(self, call: Call[_Answer]) -> "list[asyncio.Future[_Answer | EtcdError]]":
        """Send a request to each endpoint.

        A member that does not answer is not avoided for that: it may be one that is not in use.
        """
        loop = asyncio.get_running_loop()

        def ask(endpoint: Endpoint) -> "asyncio.Future[_Answer | EtcdError]":
            answered: asyncio.Future[_Answer | EtcdError] = loop.create_future()

            def settle(answer: bytes | RpcError) -> None:
                found: _Answer | EtcdError = _read(call, self.checked(endpoint, answer))
                if not answered.done():  # else the caller was cancelled
                    answered.set_result(found)

            metadata = self.credentials.metadata
            endpoint.channel.begin(call.method.path, call.request, call.timeout, metadata, settle)
            return answered

        return [ask(endpoint) for endpoint in self.endpoints.all]

    @property
    def has_to_choose(self) -> bool:
        """Whether `choose_cluster` comes before any request."""
        return not self._cluster and self.endpoints.are_several

    async def choose_cluster(self, timeout: float) -> None:
        """Find out which cluster is meant: an address may be that of a new etcd by now.

        It is the one of more than half of the endpoints, else the one of all that answer in a moment. Raises
        EtcdUnknown if these are of several clusters, and an endpoint's error if none answers.
        """
        # A Txn without operations needs no permission, and no quorum.
        answers = self._begin_at_all(Call(TXN, b"", timeout, _named_cluster))
        waiting, named, errors = set(answers), set[bytes](), list[EtcdError]()
        while waiting and not self._cluster:
            patience = _OTHERS if named else None
            done, waiting = await asyncio.wait(waiting, timeout=patience, return_when="FIRST_COMPLETED")
            if not done:
                break
            for answer in (each.result() for each in done):
                if isinstance(answer, EtcdError):
                    errors.append(answer)
                else:
                    named.add(answer)
        if not self._cluster:
            if not named:
                raise errors[0]
            if len(named) > 1:
                raise EtcdUnknown(self._several_clusters())
            (self._cluster,) = named
        for each in self.endpoints.all:
            if each.cluster not in (b"", self._cluster):
                self.leave(each)

    def _several_clusters(self) -> str:
        of: dict[bytes, list[str]] = {}
        for each in self.endpoints.all:
            if each.cluster:
                of.setdefault(each.cluster, []).append(each.address)
        groups = "; ".join(map(", ".join, of.values()))
        return f"the addresses of --etcd belong to different etcd clusters: {groups}"

    def _look(self) -> None:
        """Send requests that wait for long to other members too."""
        now, slow = self.clock.perf_counter_ns(), self._slow
        for attempt in list(self.repeatable):
            attempt.look(now, slow)
        loop = asyncio.get_running_loop()
        self._look_timer = loop.call_later(_TICK, self._look) if self.repeatable else None

    def sent(self, attempt: "_Attempt[Any]") -> None:
        """A request that may be sent again was sent: others get it too if it has no answer for long."""
        if self.endpoints.are_several:
            self.repeatable[attempt] = None
            if self._look_timer is None:
                self._look_timer = asyncio.get_running_loop().call_later(_TICK, self._look)

    @property
    def _slow(self) -> float:
        """Seconds until a request goes to another member too: more where all calls take long."""
        return max(_SLOW, _ROUND_TRIPS * self._fastest.seconds)

    def answered(self, method: str, nanos: int) -> None:
        """A member has answered."""
        self.last_contact = self.clock.monotonic()
        self.calls.answered(method, nanos)
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
                _Attempt(self, _PROBE, partial(self._probed, endpoint), renews=False).send(endpoint)
        self._probing = False

    def _probed(self, endpoint: Endpoint, answer: bytes | EtcdError) -> None:
        if not isinstance(answer, EtcdUnknown):
            endpoint.suspect = False

    async def open(self, method: Method) -> "MemberStream":
        """Open a stream at the current endpoint. Raises EtcdError."""
        if self.has_to_choose:
            await self.choose_cluster(_OPEN_TIMEOUT)
        if self.credentials.incomplete:
            await self.authenticate("", _AUTHENTICATE_WAIT)
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
        self.streams.add(opened)
        return opened

    def checked(self, endpoint: Endpoint, response: bytes | RpcError) -> bytes | RpcError:
        """The response, or an error if it is another cluster's: an address may be that of a new etcd by now.

        After a restore from a backup all are: that is accepted once more than half of the endpoints are.
        """
        if isinstance(response, RpcError):
            return response
        if self._cluster and response.startswith(self._cluster, 2):
            endpoint.cluster = b""
            return response
        endpoint.cluster = cluster = wire.cluster_of(response)
        members = self.endpoints.all
        others = sum(each.cluster == cluster for each in members)
        if cluster and 2 * others > len(members):
            self._cluster = cluster
        if not self._cluster or cluster in (b"", self._cluster):
            return response
        error = f"{endpoint.address} is a member of another etcd cluster"
        self._throttled_log.error("%s: it is not used. Give --etcd the addresses of one cluster", error)
        return RpcError(error)

    def heard(self) -> None:
        """A stream has brought a message."""
        self.last_contact = self.clock.monotonic()

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
        for stream in list(self.streams):
            stream.close()
        await self.endpoints.close()

    async def authenticate(self, stale: str, timeout: float) -> None:
        """Get a token in place of `stale`. Raises EtcdError."""
        decode = partial(wire.decode, pb.AuthenticateResponse)

        async def ask(request: bytes) -> str:
            try:
                call = Call(_AUTHENTICATE, request, _AUTHENTICATE_TIMEOUT, decode, repeatable=True)
                return (await self.ask(call)).token
            except EtcdRefused as refusal:
                if refusal.message != failures.AUTH_NOT_ENABLED:
                    raise
                return ""  # as etcd's own client: an etcd without authentication accepts a user too

        await self._authenticator.renew(stale, timeout, ask)


def _read(call: Call[_Answer], response: bytes | RpcError) -> _Answer | EtcdError:
    """The answer to a call, or the error that the response stands for."""
    if isinstance(response, RpcError):
        return failures.error_for(response.details)
    try:
        return call.decode(response)
    except EtcdUnknown as garbled:
        return garbled


def _named_cluster(response: bytes) -> bytes:
    """The cluster that a response names, as `wire.cluster_of`. Raises EtcdUnknown."""
    cluster = wire.cluster_of(response)
    if not cluster:
        raise EtcdUnknown(f"etcd's answer of {len(response)} bytes names no cluster")
    return cluster


class _Attempt(Generic[_Answer]):
    """A call under way: at one member, and while that does not answer at others, if it may be sent again."""

    __slots__ = ("_call", "_instead", "_on_answer", "_renews", "_rpc", "_sent", "_token", "_unanswered")

    def __init__(
        self,
        rpc: Rpc,
        call: Call[_Answer],
        on_answer: Callable[[_Answer | EtcdError], None],
        *,
        renews: bool = True,
    ) -> None:
        """`renews`: if etcd says that the token is not valid (any more), get another one, and begin anew."""
        self._rpc = rpc
        self._call = call
        self._on_answer: Callable[[_Answer | EtcdError], None] | None = on_answer
        self._renews = renews and call.method is not _AUTHENTICATE
        self._token = rpc.credentials.token
        self._sent: list[tuple[Endpoint, int, InFlight]] = []  # each with its start, in nanoseconds
        self._unanswered = 0
        #: What chooses the cluster or gets the token, or a second attempt with a new one.
        self._instead: InFlight | None = None

    def begin(self) -> None:
        """Send the request to the current endpoint, once the cluster is known and there is a token."""
        rpc, call = self._rpc, self._call
        if rpc.has_to_choose:
            self._first(rpc.choose_cluster(call.timeout), "choose the cluster", self.begin)
        elif rpc.credentials.incomplete and call.method is not _AUTHENTICATE:
            self.get_token("")
        else:
            self.send(rpc.endpoints.current)

    def get_token(self, stale: str) -> None:
        """Get a token in place of `stale`, then send the request."""
        self._first(self._rpc.authenticate(stale, self._call.timeout), "get a token", self._got_token)

    def _got_token(self) -> None:
        self._token = self._rpc.credentials.token
        self.send(self._rpc.endpoints.current)

    def _first(self, work: Coroutine[Any, Any, None], what: str, then: Callable[[], None]) -> None:
        """Go on with `then` when this is done."""

        def ended(task: asyncio.Task[None]) -> None:
            if self._on_answer is None:
                return
            error = EtcdUnknown("cancelled") if task.cancelled() else task.exception()
            if error is None:
                then()
            elif isinstance(error, EtcdError):
                self._take_callback()(error)
            else:  # the log has it
                self._take_callback()(EtcdUnknown(f"cannot {what}: {error}"))

        task = self._rpc.tasks.start(work, f"{what} for a {self._call.method.name}", reported=(EtcdError,))
        task.add_done_callback(ended)
        self._instead = task

    def send(self, endpoint: Endpoint) -> None:
        """Send it to this member."""
        rpc, call = self._rpc, self._call
        started = rpc.clock.perf_counter_ns()
        timeout = call.timeout
        if self._sent:
            timeout -= (started - self._sent[0][1]) / 1e9
        elif call.repeatable:
            rpc.sent(self)
        self._unanswered += 1
        answered = partial(self._answered, endpoint, started)
        metadata = rpc.credentials.metadata
        request = endpoint.channel.begin(call.method.path, call.request, timeout, metadata, answered)
        self._sent.append((endpoint, started, request))

    def look(self, now: int, slow: float) -> None:
        """Send it to another member if the last one has not answered for `slow` seconds."""
        last, sent, _ = self._sent[-1]
        if now - sent >= slow * 1e9 and now - self._sent[0][1] < self._call.timeout * 1e9:
            self.send(self._rpc.endpoints.after(last))

    def cancel(self) -> None:
        """The answer is not wanted any more; no member is to blame."""
        if self._on_answer is not None:
            self._take_callback()
            for _, _, request in self._sent:
                request.cancel()
        if self._instead is not None:
            self._instead.cancel()

    def _answered(self, endpoint: Endpoint, started: int, response: bytes | RpcError) -> None:
        if self._on_answer is None:
            return
        self._unanswered -= 1
        rpc, name = self._rpc, self._call.method.name
        answer = _read(self._call, rpc.checked(endpoint, response))
        unknown = type(answer) is EtcdUnknown
        if not isinstance(answer, EtcdError):
            endpoint.answered = rpc.clock.perf_counter_ns()
            rpc.answered(name, endpoint.answered - started)
        else:
            if unknown:
                rpc.leave(endpoint)  # another one may do better
            rpc.calls.failed(name, answer)
            if unknown and self._unanswered:
                return  # another member may still answer
        on_answer = self._take_callback()
        if len(self._sent) > 1:
            for _, begun, request in self._sent:
                if begun != started:
                    request.cancel()
            if not unknown:
                self._prefer(endpoint)
        if isinstance(answer, EtcdError) and self._renews and rpc.credentials.expired(answer, self._token):
            again = self._instead = _Attempt(rpc, self._call, on_answer, renews=False)
            again.get_token(self._token)
        else:
            on_answer(answer)

    def _prefer(self, endpoint: Endpoint) -> None:
        """Leave the members that were asked before this one: they had more time, and have not answered."""
        for asked, _, _ in self._sent:
            if asked is endpoint:
                break
            self._rpc.leave(asked)
        self._rpc.endpoints.current = endpoint

    def _take_callback(self) -> Callable[[_Answer | EtcdError], None]:
        """Whom to give the answer; from now on nothing that arrives counts."""
        on_answer = self._on_answer
        assert on_answer is not None
        self._on_answer = None
        self._rpc.repeatable.pop(self, None)
        return on_answer


class MemberStream:
    """One open stream to one member. Ends by an EtcdError from `listen` or `write`, or by `close`."""

    def __init__(self, stream: ByteStream, rpc: Rpc, endpoint: Endpoint) -> None:
        self._stream = stream
        self._rpc = rpc
        self.endpoint = endpoint

    def write(self, request: bytes) -> None:
        """Send one message. Raises EtcdUnknown or EtcdRefused if the stream is broken."""
        try:
            self._stream.write(request)
        except RpcError as error:
            raise self._rpc.failure(self.endpoint, error.details) from None

    async def listen(self, on_message: Callable[[bytes], None]) -> None:
        """Pass on the messages as they arrive.

        Raises EtcdUnknown or EtcdRefused when the stream is broken, and what `on_message` raises.
        """

        def take(message: bytes) -> None:
            checked = self._rpc.checked(self.endpoint, message)
            if isinstance(checked, RpcError):
                raise checked
            self._rpc.heard()
            on_message(message)

        try:
            await self._stream.listen(take)
        except RpcError as error:
            raise self._rpc.failure(self.endpoint, error.details) from None
        raise EtcdUnknown("the stream was ended")

    def distrust(self) -> None:
        """Use other endpoints from now on: this one does not answer."""
        self._rpc.leave(self.endpoint)

    def close(self) -> None:
        """End the stream; `listen` raises EtcdUnknown."""
        self._rpc.streams.discard(self)
        self._stream.cancel()
