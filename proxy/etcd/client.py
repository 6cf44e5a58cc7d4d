"""The client of etcd: its requests and streams as methods. Nothing here knows znodes.

How a request gets to a member is `proxy.etcd.rpc`'s business, what its bytes say `proxy.etcd.wire`'s, what
failures mean `proxy.etcd.failures`'.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from proxy.etcd import failures, rpc, wire
from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.authenticator import Authenticator
from proxy.etcd.interface import Calls
from proxy.etcd.leases import LeaseKeeper
from proxy.etcd.model import (
    EtcdError,
    EtcdRefused,
    EtcdUnknown,
    Get,
    RangeResult,
    RefusalKind,
    Status,
    Txn,
    TxnResult,
    WatchCompacted,
    WatchMessage,
)
from proxy.etcd.rpc import Call
from proxy.etcd.tls import Tls
from proxy.etcd.transport import InFlight
from proxy.options.etcd import HTTP2
from proxy.support.environment import HOST, Clock

_CONFIRM_TIMEOUT = 2.0  # seconds until a member must have confirmed a watch


class EtcdClient:
    """A client of one cluster, to be made and used inside one running event loop.

    Every request goes to the current endpoint; a failure of unknown outcome moves on to the next endpoint for
    the requests that follow. All timeouts are in seconds. Unless said otherwise a method raises EtcdRefused
    (nothing applied), EtcdNoSpace or EtcdUnknown (the outcome is not known).
    """

    # More than seven parameters: all but the first have defaults, and a caller names the few that it needs.
    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        tls: Tls | None = None,
        user: str = "",
        password: str = "",
        password_file: str = "",
        transport: str = HTTP2,
        connect: rpc.Connect | None = None,
        clock: Clock = HOST.clock,
    ) -> None:
        """Connects lazily. `tls` is for https endpoints. Raises ValueError for a bad endpoint.

        `password_file`: where the password is, in place of `password`; it is read when a token is needed.

        `transport` is one of proxy.etcd.transport.TRANSPORTS; TransportMissing (a ValueError) says that its
        library is not installed. `connect`, if given, makes the channel to a host and port instead.
        """
        members = rpc.Endpoints(endpoints, tls, connect or rpc.connector(transport))
        self._rpc = rpc.Rpc(members, Authenticator(user, password, password_file, clock), clock)
        self._watching: rpc.MemberStream | None = None

    @property
    def endpoint(self) -> str:
        """HOST:PORT that the next request goes to."""
        return self._rpc.endpoints.current.address

    @property
    def last_contact(self) -> float:
        """clock.monotonic() of the last answer that etcd gave to a request or sent on a stream."""
        return self._rpc.last_contact

    @property
    def calls(self) -> Calls:
        """How long calls took, and which failed."""
        return self._rpc.calls

    async def txn(self, txn: Txn, timeout: float) -> TxnResult:
        """Commit `txn`."""
        only_reads = all(isinstance(op, Get) for op in (*txn.success, *txn.failure))
        decode = partial(wire.decode_txn, txn)
        return await self._rpc.ask(Call(rpc.TXN, wire.encode_txn(txn), timeout, decode, only_reads))

    def begin_txn(
        self, txn: Txn, timeout: float, on_answer: Callable[[TxnResult | EtcdError], None]
    ) -> InFlight:
        """As `txn`, for one that may be committed twice; the answer goes to a callback.

        No task has to be started, nor woken. It is sent to other members too while one does not answer.
        """
        decode = partial(wire.decode_txn, txn)
        return self._rpc.begin(Call(rpc.TXN, wire.encode_txn(txn), timeout, decode, True), on_answer)

    async def range(self, get: Get, timeout: float) -> RangeResult:
        """Read; linearizable unless a revision is given."""
        return await self._rpc.ask(Call(rpc.RANGE, wire.encode_get(get), timeout, wire.decode_range, True))

    async def lease_grant(self, lease_id: int, ttl: int, timeout: float = 5.0) -> int:
        """Make lease `lease_id` for `ttl` seconds; returns the seconds that etcd granted."""
        request = pb.LeaseGrantRequest(ttl=ttl, id=lease_id).SerializeToString()
        decode = partial(wire.decode, pb.LeaseGrantResponse)
        return (await self._rpc.ask(Call(rpc.LEASE_GRANT, request, timeout, decode))).ttl

    async def lease_revoke(self, lease_id: int, timeout: float = 5.0) -> None:
        """End a lease, deleting its keys."""
        request = pb.LeaseRevokeRequest(id=lease_id).SerializeToString()
        decode = partial(wire.decode, pb.LeaseRevokeResponse)
        await self._rpc.ask(Call(rpc.LEASE_REVOKE, request, timeout, decode))

    def lease_keeper(
        self, on_alive: Callable[[int, int], None], answer_timeout: float = 3.0
    ) -> Callable[[int], None]:
        """Start a stream of keep-alives, which lives until close(); returns LeaseKeeper.send."""
        keeper = LeaseKeeper(
            partial(self._rpc.open, rpc.LEASE_KEEP_ALIVE), on_alive, answer_timeout, self._rpc.clock
        )
        self._rpc.tasks.start(keeper.run(), "keep leases alive")
        return keeper.send

    async def status(self, timeout: float = 5.0) -> Status:
        """Ask the current endpoint's member, which answers even without a quorum; if it hangs, another.

        With authentication on, etcd 3.4.42 to 3.4.45, 3.5.28 to 3.5.31 and 3.6.9 to 3.6.11 tell the status to
        root alone (CVE-2026-33413, and etcd's pull request 21811). For others it is what the header of any
        answer has and the alarms, without a version, sizes and leader.
        """
        try:
            response = await self._rpc.ask(_status_call(timeout))
        except EtcdRefused as refusal:
            if refusal.kind is not RefusalKind.PERMISSION:
                raise
            # A Txn without operations needs no permission, and no quorum.
            nothing = partial(wire.decode, pb.TxnResponse)
            header = (await self._rpc.ask(Call(rpc.TXN, b"", timeout, nothing, True))).header
            alarms = await self._alarms(timeout)
            return Status(
                "", header.cluster_id, header.member_id, 0, 0, 0, 0, header.raft_term, header.revision, alarms
            )
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

    async def _alarms(self, timeout: float) -> list[str] | None:
        """The alarms, in the words of a status; None if etcd does not tell them, or has no quorum."""
        try:
            answer = await self._rpc.ask(
                Call(rpc.ALARM, b"", timeout, partial(wire.decode, pb.AlarmResponse), True)
            )
        except EtcdError:
            return None
        return [f"memberID:{each.memberID} alarm:{pb.AlarmType.Name(each.alarm)} " for each in answer.alarms]

    async def versions(self, timeout: float = 5.0) -> list[str]:
        """Ask each endpoint's member for its version; "" for one that does not answer. Raises nothing."""
        answers = await self._rpc.answers_of_all(_status_call(timeout))
        return ["" if isinstance(each, EtcdError) else each.version for each in answers]

    async def watch(
        self, start: bytes, end: bytes, from_revision: int, on_message: Callable[[WatchMessage], None]
    ) -> None:
        """Pass on the changes of [start, end) from `from_revision` on, in whole revisions, in order.

        Each is passed on at once: no task is woken for it. The first message, without events, says that etcd
        has accepted the watch. Ends only by an exception: WatchCompacted, EtcdUnknown (broken; resume after
        the last revision received), EtcdRefused (permission), or what `on_message` raises. A member without a
        leader, or one that is silent for some 9 s, breaks the stream.
        """
        stream = self._watching = await self._rpc.open(rpc.WATCH)
        joiner = wire.FragmentJoiner()
        unconfirmed = asyncio.get_running_loop().call_later(_CONFIRM_TIMEOUT, _unconfirmed, stream)

        def take(data: bytes) -> None:
            response = wire.decode(pb.WatchResponse, data)
            if response.canceled:
                raise self._watch_error(response)
            if not response.events:
                unconfirmed.cancel()
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
            unconfirmed.cancel()
            stream.close()

    def watched_member_is_suspect(self) -> bool:
        """Whether the member of the newest watch has left a request unanswered that another one answered."""
        return self._watching is not None and self._watching.endpoint.suspect

    def leave_watched_member(self) -> None:
        """The newest watch hangs: send requests to other members until its own answers a probe."""
        if self._watching is not None:
            self._watching.distrust()

    async def close(self) -> None:
        """End all streams, tasks and connections. Requests under way fail as unknown."""
        await self._rpc.close()

    def _watch_error(self, response: pb.WatchResponse) -> EtcdError:
        if response.compact_revision:
            return WatchCompacted(response.compact_revision)
        # The reason is the text of a Go error: "rpc error: code = X desc = etcdserver: ...".
        error = failures.error_for(
            response.cancel_reason.rpartition("desc = ")[2] or "the watch was cancelled"
        )
        credentials = self._rpc.credentials
        if credentials.expired(error, credentials.token):
            credentials.use("")  # the next request or stream gets a new one
            return EtcdUnknown(error.message)
        return error


def _status_call(timeout: float) -> Call[pb.StatusResponse]:
    return Call(rpc.STATUS, b"", timeout, partial(wire.decode, pb.StatusResponse), True)


def _unconfirmed(stream: rpc.MemberStream) -> None:
    """A member has not confirmed a watch: it hangs, though its host accepts connections."""
    stream.distrust()
    stream.close()
