"""The gRPC client: calls and streams to one etcd cluster, fail-over, authentication, errors.

How a call gets to a member is `proxy.etcd.channel`'s, what its bytes say `proxy.etcd.wire`'s, what failures
mean `proxy.etcd.failures`'; nothing here knows znodes. No request is repeated here once etcd may have seen
it: an unknown outcome goes to the caller, since only the caller can settle it.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from proxy.etcd import failures, wire
from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.calls import Calls
from proxy.etcd.channel import Channel
from proxy.etcd.keeper import LeaseKeeper
from proxy.etcd.model import (
    EtcdError,
    EtcdRefused,
    EtcdUnknown,
    Get,
    RangeResult,
    Status,
    Txn,
    TxnResult,
    WatchCompacted,
    WatchMessage,
)
from proxy.etcd.transport import (
    GRPCIO,
    HTTP2,
    TRANSPORTS,
    AnyCall,
    AnyChannel,
    Metadata,
    Pem,
    RpcError,
    TransportMissing,
)
from proxy.support.environment import HOST, Clock
from proxy.support.libraries import how_to_add
from proxy.support.tasks import Tasks
from proxy.support.validity import fault_of

_Answer = TypeVar("_Answer")

_TXN = "/etcdserverpb.KV/Txn"
_RANGE = "/etcdserverpb.KV/Range"
_WATCH = "/etcdserverpb.Watch/Watch"
_LEASE_GRANT = "/etcdserverpb.Lease/LeaseGrant"
_LEASE_REVOKE = "/etcdserverpb.Lease/LeaseRevoke"
_LEASE_KEEP_ALIVE = "/etcdserverpb.Lease/LeaseKeepAlive"
_STATUS = "/etcdserverpb.Maintenance/Status"
_AUTHENTICATE = "/etcdserverpb.Auth/Authenticate"

# Without this a member that lost quorum keeps a stream open in silence for ever.
_REQUIRE_LEADER = ("hasleader", "true")
_STREAM_ENDED = "the stream was ended"


class Tls:
    """Keys and certificates for https endpoints, in PEM files; "" leaves one out."""

    def __init__(
        self, ca_file: str = "", cert_file: str = "", key_file: str = "", server_name: str = ""
    ) -> None:
        """Without `ca_file` the system's roots are trusted. `cert_file` and `key_file` go together.

        `server_name` is what the server's certificate must be for, if not the endpoint's host. Blocks to read
        the files. Raises OSError, also for an expired certificate, and ValueError for a certificate without
        key or the reverse.
        """
        if bool(cert_file) != bool(key_file):
            raise ValueError("a client certificate and its key are needed together")
        self._files = (ca_file, cert_file, key_file)
        self.server_name = server_name
        self.context()
        fault = fault_of(cert_file, key_file) if cert_file else ""
        if fault:
            raise OSError(f"the certificate for etcd {cert_file}: {fault}")

    def context(self) -> ssl.SSLContext:
        """The files as they are now: renewed ones serve the next connections. Blocks; raises OSError."""
        ca_file, cert_file, key_file = self._files
        for name in filter(None, self._files):
            with open(name, "rb"):  # ssl's own errors do not name the file
                pass
        try:
            context = ssl.create_default_context(cafile=ca_file or None)
        except ssl.SSLError as error:
            raise OSError(f"the CA of etcd {ca_file}: {error}") from error
        try:
            if cert_file:
                # Without a password OpenSSL would ask for one on the terminal.
                context.load_cert_chain(cert_file, key_file, "")
        except ssl.SSLError as error:
            raise OSError(
                f"the certificate for etcd {cert_file} with the key {key_file},"
                f" which must not be encrypted: {error}"
            ) from error
        context.set_alpn_protocols(["h2"])
        return context

    def pem(self) -> Pem:
        """Authorities, certificate and key as they are in the files now. Blocks; raises OSError."""
        ca_file, cert_file, key_file = self._files
        return Pem(
            Path(ca_file).read_bytes() if ca_file else _system_authorities(),
            Path(cert_file).read_bytes() if cert_file else None,
            Path(key_file).read_bytes() if key_file else None,
        )


def _system_authorities() -> bytes:
    """The certificates that OpenSSL trusts without a `ca_file`, as PEM."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile:
        return Path(paths.cafile).read_bytes()
    # OpenSSL looks a certificate up by the hash of its subject: 8 hexadecimal digits and a number.
    names = sorted(Path(paths.capath).glob("[0-9a-f]*.[0-9]")) if paths.capath else []
    return b"\n".join(name.read_bytes() for name in names)


_Connect = Callable[[str, int, Tls | None], AnyChannel]


def _connector(transport: str) -> _Connect:
    """How channels are made by a transport. Raises ValueError, and TransportMissing, which is one."""
    if transport == HTTP2:
        return Channel
    if transport != GRPCIO:
        raise ValueError(f"not a transport to etcd: {transport!r} (expected {' or '.join(TRANSPORTS)})")
    try:
        # Only here: the server does without grpcio unless it is asked for (docs/decisions/0017).
        from proxy.etcd.grpc_channel import GrpcChannel
    except ImportError as error:
        raise TransportMissing(
            f"the transport grpcio cannot be used: {error}: {how_to_add('grpcio')}."
            " `--etcd-transport http2`, the default, needs nothing."
        ) from None
    return GrpcChannel


class Stream:
    """One open bidirectional call. Ends by an EtcdError from `listen` or `write`, or by `close`."""

    def __init__(self, call: AnyCall, client: "EtcdClient", member: "_Member") -> None:
        self._call = call
        self._client = client
        self._member = member

    def write(self, request: bytes) -> None:
        """Send one message. Raises EtcdUnknown or EtcdRefused if the stream is broken."""
        try:
            self._call.write(request)
        except RpcError as error:
            raise self._client.failure(self._member, error.details) from None

    async def listen(self, on_message: Callable[[bytes], None]) -> None:
        """Pass on the messages as they come.

        Raises EtcdUnknown or EtcdRefused when the stream is broken, and what `on_message` raises.
        """
        client = self._client

        def take(message: bytes) -> None:
            client.last_contact = client.clock.monotonic()
            on_message(message)

        try:
            await self._call.listen(take)
        except RpcError as error:
            raise client.failure(self._member, error.details) from None
        raise EtcdUnknown(_STREAM_ENDED)

    def distrust(self) -> None:
        """Say that this stream's endpoint is no good: others are to be used from now on."""
        self._client.leave(self._member)

    def close(self) -> None:
        """End the call; whoever waits in `listen` gets EtcdUnknown."""
        self._client.forget(self)
        self._call.cancel()


class _Member:
    """The channel to one endpoint."""

    def __init__(self, endpoint: str, tls: Tls | None, connect: _Connect) -> None:
        url = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}")
        expected = f"not an etcd endpoint: {endpoint!r} (expected http://HOST:PORT or https://HOST:PORT)"
        if url.scheme not in ("http", "https") or not url.hostname or url.path not in ("", "/"):
            raise ValueError(expected)
        try:
            port = url.port or 2379
        except ValueError as error:  # it does not name the endpoint
            raise ValueError(f"{expected}: {error}") from error
        secure = (tls or Tls()) if url.scheme == "https" else None
        self.channel = connect(url.hostname, port, secure)
        self.address = self.channel.address


class EtcdClient:
    """A client of one cluster, to be made and used inside one running event loop.

    Every request goes to the current endpoint; a failure of unknown outcome moves on to the next endpoint for
    the requests that follow. All timeouts are in seconds. Unless said otherwise a method raises EtcdRefused
    (nothing applied), EtcdNoSpace or EtcdUnknown (the outcome is not known).
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        tls: Tls | None = None,
        user: str = "",
        password: str = "",
        transport: str = HTTP2,
        connect: _Connect | None = None,
        clock: Clock = HOST.clock,
    ) -> None:
        """Connects lazily. `tls` is for https endpoints. Raises ValueError for a bad endpoint.

        `transport` is one of proxy.etcd.transport.TRANSPORTS; TransportMissing (a ValueError) says that its
        library is not installed. `connect`, if given, makes the channel to a host and port instead.
        `clock` measures the calls.
        """
        if not endpoints:
            raise ValueError("no etcd endpoint given")
        connect = connect or _connector(transport)
        self._members = [_Member(endpoint, tls, connect) for endpoint in endpoints]
        self._member = self._members[0]
        self._user = user
        self._password = password
        self._token = ""
        self._metadata: Metadata = ()
        self._authenticating = asyncio.Lock()
        self._streams: set[Stream] = set()
        self._tasks = Tasks()
        self.clock = clock
        #: clock.monotonic() of the last answer that etcd gave to a request or sent on a stream.
        self.last_contact = self.clock.monotonic()
        #: How long calls took, and which failed.
        self.calls = Calls()

    @property
    def endpoint(self) -> str:
        """HOST:PORT that the next request goes to."""
        return self._member.address

    def fail_over(self) -> None:
        """Use the next endpoint for requests and streams from now on; open streams stay where they are."""
        index = self._members.index(self._member)
        self._member = self._members[(index + 1) % len(self._members)]

    def leave(self, member: "_Member") -> None:
        """Fail over unless others have done so already; for Stream."""
        if member is self._member:
            self.fail_over()

    def forget(self, stream: Stream) -> None:
        """The stream is closed; for Stream."""
        self._streams.discard(stream)

    def failure(self, member: "_Member", details: str) -> EtcdError:
        """The error that `details` from `member` stand for, and what follows from it for later requests."""
        error = failures.error_for(details)
        if type(error) is EtcdUnknown:
            self.leave(member)
        return error

    async def txn(self, txn: Txn, timeout: float) -> TxnResult:
        """Commit `txn`."""
        return await self._call(_TXN, wire.encode_txn(txn), timeout, partial(wire.decode_txn, txn))

    def begin_txn(self, txn: Txn, timeout: float, on_answer: Callable[[TxnResult | EtcdError], None]) -> None:
        """As `txn`, but the answer goes to a callback: no task has to be started, nor woken."""
        member = self._member
        asked = self.clock.perf_counter_ns()

        def answered(answer: bytes | RpcError) -> None:
            if not isinstance(answer, RpcError):
                try:
                    result = wire.decode_txn(txn, answer)
                except EtcdUnknown as garbled:
                    self._garbled(member, "Txn", garbled)
                    on_answer(garbled)
                    return
                self.last_contact = self.clock.monotonic()
                self.calls.answered("Txn", self.clock.perf_counter_ns() - asked)
                on_answer(result)
                return
            failure = self.failure(member, answer.details)
            self.calls.failed("Txn", failure)
            if self._user and failure.message in failures.STALE_TOKEN:
                self._begin_in_task(txn, timeout, on_answer)
            else:
                on_answer(failure)

        if (self._user and not self._token) or not member.channel.begin(
            _TXN, wire.encode_txn(txn), timeout, self._metadata, answered
        ):
            self._begin_in_task(txn, timeout, on_answer)

    def _begin_in_task(
        self, txn: Txn, timeout: float, on_answer: Callable[[TxnResult | EtcdError], None]
    ) -> None:
        """For what has to wait for more than one answer: a connection, or a token."""

        async def ask() -> None:
            try:
                answer: TxnResult | EtcdError = await self.txn(txn, timeout)
            except EtcdError as error:
                answer = error
            on_answer(answer)

        self._tasks.start(ask(), "commit a Txn")

    async def range(self, get: Get, timeout: float) -> RangeResult:
        """Read; linearizable unless a revision is given."""
        return await self._call(_RANGE, wire.encode_get(get), timeout, wire.decode_range)

    async def lease_grant(self, lease_id: int, ttl: int, timeout: float = 5.0) -> int:
        """Make lease `lease_id` for `ttl` seconds; returns the seconds that etcd granted."""
        request = pb.LeaseGrantRequest(ttl=ttl, id=lease_id).SerializeToString()
        return (
            await self._call(_LEASE_GRANT, request, timeout, partial(wire.decode, pb.LeaseGrantResponse))
        ).ttl

    async def lease_revoke(self, lease_id: int, timeout: float = 5.0) -> None:
        """End a lease, deleting its keys."""
        request = pb.LeaseRevokeRequest(id=lease_id).SerializeToString()
        await self._call(_LEASE_REVOKE, request, timeout, partial(wire.decode, pb.LeaseRevokeResponse))

    def lease_keeper(self, on_alive: Callable[[int, int], None], answer_timeout: float = 3.0) -> LeaseKeeper:
        """Start a keep-alive stream, which lives until close(); see LeaseKeeper."""
        keeper = LeaseKeeper(lambda: self._open(_LEASE_KEEP_ALIVE), on_alive, answer_timeout)
        self._tasks.start(keeper.run(), "keep leases alive")
        return keeper

    async def status(self, timeout: float = 5.0) -> Status:
        """Ask the current endpoint's member, which answers even without a quorum."""
        response = await self._call(_STATUS, b"", timeout, partial(wire.decode, pb.StatusResponse))
        header = response.header
        return Status(
            response.version,
            header.cluster_id,
            header.member_id,
            response.db_size,
            response.db_size_in_use,
            response.leader,
            response.raft_index,
            response.raft_term,
            header.revision,
            list(response.errors),
        )

    async def watch(
        self, start: bytes, end: bytes, from_revision: int, on_message: Callable[[WatchMessage], None]
    ) -> None:
        """Pass on the changes of [start, end) from `from_revision` on, in whole revisions, in order.

        Each is passed on the moment it comes: no task is woken for it. The first message, without events,
        says that etcd has taken the watch. Ends only by an exception: WatchCompacted, EtcdUnknown (broken;
        resume after the last revision got), EtcdRefused (permission), or what `on_message` raises. A member
        without a leader, or silent for some 9 s, breaks the stream.
        """
        stream = await self._open(_WATCH)
        joiner = wire.FragmentJoiner()

        def take(data: bytes) -> None:
            response = wire.decode(pb.WatchResponse, data)
            if response.canceled:
                raise self._watch_error(response)
            message = joiner.feed(response)
            if message is not None:
                on_message(message)

        try:
            create = pb.WatchCreateRequest(
                key=start, range_end=end, start_revision=from_revision, fragment=True
            )
            stream.write(pb.WatchRequest(create_request=create).SerializeToString())
            await stream.listen(take)
        finally:
            stream.close()

    async def close(self) -> None:
        """End all streams, tasks and connections. Requests under way fail as unknown."""
        await self._tasks.close()
        for stream in list(self._streams):
            stream.close()
        for member in self._members:
            await member.channel.close()

    async def _call(
        self, method: str, request: bytes, timeout: float, decode: Callable[[bytes], _Answer]
    ) -> _Answer:
        if self._user and not self._token:
            await self._authenticate("", timeout)
        token = self._token
        try:
            return await self._attempt(method, request, timeout, decode)
        except EtcdRefused as refusal:
            if not self._user or refusal.message not in failures.STALE_TOKEN:
                raise
        await self._authenticate(token, timeout)
        return await self._attempt(method, request, timeout, decode)

    def _garbled(self, member: "_Member", method: str, error: EtcdUnknown) -> None:
        """`member` has sent an answer that is none: another one may do better."""
        self.leave(member)
        self.calls.failed(method, error)

    async def _attempt(
        self, method: str, request: bytes, timeout: float, decode: Callable[[bytes], _Answer]
    ) -> _Answer:
        member = self._member
        asked = self.clock.perf_counter_ns()
        try:
            response = await member.channel.unary(method, request, timeout, self._metadata)
        except RpcError as error:
            failure = self.failure(member, error.details)
            self.calls.failed(method.rpartition("/")[2], failure)
            raise failure from None
        try:
            answer = decode(response)
        except EtcdUnknown as garbled:
            self._garbled(member, method.rpartition("/")[2], garbled)
            raise
        self.last_contact = self.clock.monotonic()
        self.calls.answered(method.rpartition("/")[2], self.clock.perf_counter_ns() - asked)
        return answer

    async def _authenticate(self, stale: str, timeout: float) -> None:
        async with self._authenticating:
            if self._token != stale:
                return  # another request has got a new one meanwhile
            request = pb.AuthenticateRequest(name=self._user, password=self._password).SerializeToString()
            try:
                self._metadata = ()
                response = await self._attempt(
                    _AUTHENTICATE, request, timeout, partial(wire.decode, pb.AuthenticateResponse)
                )
            except EtcdRefused as refusal:
                if refusal.message != failures.AUTH_NOT_ENABLED:
                    raise
                # As etcd's own client: a user given to an etcd without authentication is let in.
                return
            self._token = response.token
            self._metadata = (("token", response.token),)

    async def _open(self, method: str) -> Stream:
        if self._user and not self._token:
            await self._authenticate("", 5.0)
        metadata = (*self._metadata, _REQUIRE_LEADER)
        member = self._member
        try:
            call = await member.channel.stream(method, metadata)
        except RpcError as error:
            raise self.failure(member, error.details) from None
        stream = Stream(call, self, member)
        self._streams.add(stream)
        return stream

    def _watch_error(self, response: pb.WatchResponse) -> EtcdError:
        if response.compact_revision:
            return WatchCompacted(response.compact_revision)
        # The reason is the text of a Go error: "rpc error: code = X desc = etcdserver: ...".
        reason = response.cancel_reason.rpartition("desc = ")[2]
        if self._user and reason in failures.STALE_TOKEN:
            self._token = ""  # the next request or stream gets a new one
            self._metadata = ()
            return EtcdUnknown(reason)
        return failures.error_for(reason or "the watch was cancelled")
