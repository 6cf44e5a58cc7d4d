"""The gRPC client: calls and streams to one etcd cluster, fail-over, authentication, errors.

The only file that imports grpc. What the bytes say is `proxy.etcd.wire`'s and what failures mean is
`proxy.etcd.failures`'; nothing here knows znodes. No request is repeated here once etcd may have seen it: an
unknown outcome goes to the caller, who alone can settle it.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import grpc.aio

from proxy.etcd import failures, wire
from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.keeper import LeaseKeeper
from proxy.etcd.model import (
    EtcdError,
    EtcdRefused,
    EtcdUnknown,
    Get,
    KeyValue,
    Lease,
    RangeResult,
    Status,
    Txn,
    TxnResult,
    WatchCompacted,
    WatchMessage,
)
from proxy.tasks import Tasks

_TXN = "/etcdserverpb.KV/Txn"
_RANGE = "/etcdserverpb.KV/Range"
_WATCH = "/etcdserverpb.Watch/Watch"
_LEASE_GRANT = "/etcdserverpb.Lease/LeaseGrant"
_LEASE_REVOKE = "/etcdserverpb.Lease/LeaseRevoke"
_LEASE_TIME_TO_LIVE = "/etcdserverpb.Lease/LeaseTimeToLive"
_LEASE_KEEP_ALIVE = "/etcdserverpb.Lease/LeaseKeepAlive"
_STATUS = "/etcdserverpb.Maintenance/Status"
_AUTHENTICATE = "/etcdserverpb.Auth/Authenticate"

_UNARY = (_TXN, _RANGE, _LEASE_GRANT, _LEASE_REVOKE, _LEASE_TIME_TO_LIVE, _STATUS, _AUTHENTICATE)
_STREAMS = (_WATCH, _LEASE_KEEP_ALIVE)

_OPTIONS = (
    # A watch that catches up gets messages beyond gRPC's 4 MiB, and one revision may hold many MiB.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # etcd closes connections that ping more often than --grpc-keepalive-min-time (5 s), or without a call.
    ("grpc.keepalive_time_ms", 6000),
    ("grpc.keepalive_timeout_ms", 3000),
    # It is this one, 60 s by default, that ends a silent connection (seen with grpcio 1.85).
    ("grpc.http2.ping_timeout_ms", 3000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    # gRPC's own back-off grows to two minutes; an etcd that returns should be seen within a second.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5000),  # the time that one attempt to connect may take, TLS included
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Whether a request may be repeated is decided above us (DESIGN 4.7), never by gRPC.
    ("grpc.enable_retries", 0),
    # A proxy named in the environment is for the web; etcd is near.
    ("grpc.enable_http_proxy", 0),
)
# Without this a member that lost quorum keeps a stream open in silence for ever.
_REQUIRE_LEADER = ("hasleader", "true")
_STREAM_ENDED = "the stream was ended"

_Metadata = tuple[tuple[str, str], ...]
_StreamCall = grpc.aio.StreamStreamCall[bytes, bytes]


class Tls:
    """Keys and certificates for https endpoints, read from PEM files here and now; "" leaves one out."""

    def __init__(
        self, ca_file: str = "", cert_file: str = "", key_file: str = "", server_name: str = ""
    ) -> None:
        """Without `ca_file` gRPC's built-in roots are trusted. `cert_file` and `key_file` go together.

        `server_name` is what the server's certificate must be for, if not the endpoint's host. Blocks to read
        the files. Raises OSError, and ValueError for a certificate without key or the reverse.
        """
        if bool(cert_file) != bool(key_file):
            raise ValueError("a client certificate and its key are needed together")
        ca, key, cert = (Path(name).read_bytes() if name else None for name in (ca_file, key_file, cert_file))
        self.credentials = grpc.ssl_channel_credentials(ca, key, cert)
        self.options = (("grpc.ssl_target_name_override", server_name),) if server_name else ()


class Stream:
    """One open bidirectional call. Ends by an EtcdError from `read` or `write`, or by `close`."""

    def __init__(self, call: _StreamCall, client: "EtcdClient", member: "_Member") -> None:
        self._call = call
        self._client = client
        self._member = member

    async def write(self, request: bytes) -> None:
        """Send one message. Raises EtcdUnknown or EtcdRefused if the stream is broken."""
        with self._translated():
            await self._call.write(request)

    async def read(self) -> bytes:
        """The next message. Raises EtcdUnknown or EtcdRefused if the stream is broken."""
        with self._translated():
            message = await self._call.read()
        if not isinstance(message, bytes):
            raise EtcdUnknown(_STREAM_ENDED)  # grpc.aio.EOF
        self._client.last_contact = time.monotonic()
        return message

    def distrust(self) -> None:
        """Say that this stream's endpoint is no good: others are to be used from now on."""
        self._client.leave(self._member)

    def close(self) -> None:
        """End the call; whoever waits in `read` or `write` gets EtcdUnknown."""
        self._call.cancel()
        self._client.forget(self)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except grpc.aio.AioRpcError as error:
            raise self._client.failure(self._member, error.details() or str(error.code())) from None
        except asyncio.InvalidStateError:
            # grpc.aio's way to say that the call was over already when it was written to.
            raise EtcdUnknown(_STREAM_ENDED) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Not this task but the call was cancelled, by close().
            raise EtcdUnknown(_STREAM_ENDED) from None


class _Member:
    """The channel to one endpoint and its methods."""

    def __init__(self, endpoint: str, tls: Tls | None) -> None:
        url = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}")
        if url.scheme not in ("http", "https") or not url.hostname or url.path not in ("", "/"):
            raise ValueError(
                f"not an etcd endpoint: {endpoint!r} (expected http://HOST:PORT or https://HOST:PORT)"
            )
        host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
        self.address = f"{host}:{url.port or 2379}"
        if url.scheme == "https":
            tls = tls or Tls()
            options = (*_OPTIONS, *tls.options)
            self.channel = grpc.aio.secure_channel(self.address, tls.credentials, options=options)
        else:
            self.channel = grpc.aio.insecure_channel(self.address, options=_OPTIONS)
        # No serializers: bytes in, bytes out.
        self.unary = {method: self.channel.unary_unary(method, None, None) for method in _UNARY}
        self.streams = {method: self.channel.stream_stream(method, None, None) for method in _STREAMS}


class EtcdClient:
    """A client of one cluster, to be made and used inside one running event loop.

    Every request goes to the current endpoint; a failure of unknown outcome moves on to the next endpoint for
    the requests that follow. All timeouts are in seconds. Unless said otherwise a method raises EtcdRefused
    (nothing applied), EtcdNoSpace or EtcdUnknown (no telling).
    """

    def __init__(
        self, endpoints: Sequence[str], *, tls: Tls | None = None, user: str = "", password: str = ""
    ) -> None:
        """Connects lazily. `tls` is for https endpoints. Raises ValueError for a bad endpoint."""
        if not endpoints:
            raise ValueError("no etcd endpoint given")
        self._members = [_Member(endpoint, tls) for endpoint in endpoints]
        self._member = self._members[0]
        self._user = user
        self._password = password
        self._token = ""
        self._metadata: _Metadata = ()
        self._authenticating = asyncio.Lock()
        self._streams: set[Stream] = set()
        self._tasks = Tasks()
        #: time.monotonic() of the last answer that etcd gave to a request or sent on a stream.
        self.last_contact = time.monotonic()

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
        return wire.decode_txn(txn, await self._call(_TXN, wire.encode_txn(txn), timeout))

    async def range(self, get: Get, timeout: float) -> RangeResult:
        """Read; linearizable unless a revision is given."""
        return wire.decode_range(await self._call(_RANGE, wire.encode_get(get), timeout))

    async def range_pages(
        self, start: bytes, end: bytes, revision: int, *, page_bytes: int = 4 << 20, timeout: float = 30.0
    ) -> AsyncIterator[list[KeyValue]]:
        """All of [start, end) as it was at `revision`, in pages of about `page_bytes`.

        `timeout` is for each page. After a failure the rest can be had from the last key + NUL on.
        """
        limit = 128
        more = True
        while more:
            page = await self.range(Get(start, end, revision, limit=limit), timeout)
            more = page.more
            if not page.kvs:
                return
            yield page.kvs
            start = page.kvs[-1].key + b"\0"
            size = sum(len(kv.key) + len(kv.value) + 32 for kv in page.kvs)
            # Values differ in size (up to 1.5 MiB each), so the limit grows step by step.
            limit = max(1, min(4 * limit, page_bytes * len(page.kvs) // size))

    async def lease_grant(self, lease_id: int, ttl: int, timeout: float = 5.0) -> int:
        """Make lease `lease_id` for `ttl` seconds; returns the seconds that etcd granted."""
        request = pb.LeaseGrantRequest(ttl=ttl, id=lease_id).SerializeToString()
        return pb.LeaseGrantResponse.FromString(await self._call(_LEASE_GRANT, request, timeout)).ttl

    async def lease_revoke(self, lease_id: int, timeout: float = 5.0) -> None:
        """End a lease, deleting its keys."""
        await self._call(_LEASE_REVOKE, pb.LeaseRevokeRequest(id=lease_id).SerializeToString(), timeout)

    async def lease_time_to_live(self, lease_id: int, timeout: float = 5.0) -> Lease:
        """What is left of a lease; one that is gone is no error but has `ttl` -1."""
        request = pb.LeaseTimeToLiveRequest(id=lease_id, keys=True).SerializeToString()
        response = pb.LeaseTimeToLiveResponse.FromString(
            await self._call(_LEASE_TIME_TO_LIVE, request, timeout)
        )
        return Lease(response.ttl, response.granted_ttl, list(response.keys))

    def lease_keeper(self, on_alive: Callable[[int, int], None], answer_timeout: float = 3.0) -> LeaseKeeper:
        """Start a keep-alive stream, which lives until close(); see LeaseKeeper."""
        keeper = LeaseKeeper(lambda: self._open(_LEASE_KEEP_ALIVE), on_alive, answer_timeout)
        self._tasks.start(keeper.run(), "keep leases alive")
        return keeper

    async def status(self, timeout: float = 5.0) -> Status:
        """Ask the current endpoint's member, which answers even without a quorum."""
        data = await self._call(_STATUS, b"", timeout)
        response = pb.StatusResponse.FromString(data)
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

    async def watch(self, start: bytes, end: bytes, from_revision: int) -> AsyncGenerator[WatchMessage, None]:
        """The changes of [start, end) from `from_revision` on, in whole revisions, in order.

        The first message, without events, says that etcd has taken the watch. Ends only by an exception:
        WatchCompacted, EtcdUnknown (broken; resume after the last revision got), EtcdRefused (permission).
        A member without a leader, or silent for some 9 s, breaks the stream.
        """
        stream = await self._open(_WATCH)
        try:
            create = pb.WatchCreateRequest(
                key=start, range_end=end, start_revision=from_revision, fragment=True
            )
            await stream.write(pb.WatchRequest(create_request=create).SerializeToString())
            joiner = wire.FragmentJoiner()
            while True:
                response = pb.WatchResponse.FromString(await stream.read())
                if response.canceled:
                    raise self._watch_error(response)
                message = joiner.feed(response)
                if message is not None:
                    yield message
        finally:
            stream.close()

    async def close(self) -> None:
        """End all streams, tasks and connections. Requests under way fail as unknown."""
        await self._tasks.close()
        for stream in list(self._streams):
            stream.close()
        for member in self._members:
            await member.channel.close(None)

    async def _call(self, method: str, request: bytes, timeout: float) -> bytes:
        if self._user and not self._token:
            await self._authenticate("", timeout)
        token = self._token
        try:
            return await self._attempt(method, request, timeout)
        except EtcdRefused as refusal:
            if not self._user or refusal.message not in failures.STALE_TOKEN:
                raise
        await self._authenticate(token, timeout)
        return await self._attempt(method, request, timeout)

    async def _attempt(self, method: str, request: bytes, timeout: float) -> bytes:
        member = self._member
        try:
            response: bytes = await member.unary[method](request, timeout=timeout, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise self.failure(member, error.details() or str(error.code())) from None
        self.last_contact = time.monotonic()
        return response

    async def _authenticate(self, stale: str, timeout: float) -> None:
        async with self._authenticating:
            if self._token != stale:
                return  # another request has got a new one meanwhile
            request = pb.AuthenticateRequest(name=self._user, password=self._password).SerializeToString()
            try:
                self._metadata = ()
                response = pb.AuthenticateResponse.FromString(
                    await self._attempt(_AUTHENTICATE, request, timeout)
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
        stream = Stream(member.streams[method](None, metadata=metadata), self, member)
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
