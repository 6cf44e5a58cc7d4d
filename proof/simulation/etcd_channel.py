"""A simulated host's connections to members of etcd: requests, watch streams, and streams of keep-alives."""

from collections import deque
from collections.abc import Callable
from typing import Any

from typing_extensions import override

from lab.fakes.etcd_messages import watch_message
from proof.simulation.etcd import REFUSED, Cluster, Member
from proof.simulation.etcd_bugs import remembered
from proof.simulation.network import Pipe
from proof.simulation.world import Host
from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.model import WatchMessage
from proxy.etcd.transport import Metadata, RpcError

_CHECK = 3.0  # seconds between two looks of a stream at its connection; it breaks after three bad ones
_LOST = "the connection was lost"


class Channel:
    """A host's channel to one member, for EtcdClient's `connect`."""

    def __init__(self, cluster: Cluster, host: Host, member: Member) -> None:
        self.address = f"{member.name}:2379"
        self.cluster = cluster
        self.host = host
        self.member = member

    def begin(
        self,
        path: str,
        request: bytes,
        timeout: float,
        metadata: Metadata,
        on_answer: Callable[[bytes | RpcError], None],
    ) -> "_Call":
        """One request, one answer."""
        call = self._ask(path, request, timeout)
        call.future.add_done_callback(lambda done: on_answer(done.result()))
        return call

    def _ask(self, path: str, request: bytes, timeout: float) -> "_Call":
        call = _Call(self)
        member, host, network = self.member, self.host, self.cluster.network

        def respond(result: bytes | RpcError) -> None:
            network.send(member.name, host, host.name, call.answered, result)

        network.send(
            host.name,
            self.cluster.host,
            member.name,
            self.cluster.arrived,
            member,
            path.rpartition("/")[2],
            request,
            respond,
        )
        late = host.call_later(timeout, call.answered, RpcError("deadline exceeded"))

        def over(_future: object) -> None:
            late.cancel()
            call.over()

        call.future.add_done_callback(over)
        return call

    async def stream(self, path: str, metadata: Metadata = ()) -> "_Stream":
        """Open a watch, or a stream that keeps leases alive."""
        if not self.member.up:
            call = _Call(self)
            self.host.call_later(0.001, call.answered, RpcError(REFUSED))
            try:
                raise await call.future
            finally:
                call.over()
        return _Watch(self) if path.endswith("/Watch") else _KeepAlive(self)

    async def close(self) -> None:
        """End all calls."""
        for call in list(self.member.calls):
            if call.host is self.host:
                call.lose()


class _Call:
    """A request under way."""

    is_stream = False

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.host = channel.host
        self.future: Any = channel.host.create_future()
        channel.member.calls[self] = None

    def answered(self, result: bytes | RpcError) -> None:
        if not self.future.done():
            self.future.set_result(result)

    def lose(self) -> None:
        """The connection is lost."""
        self.channel.host.call_soon(self.answered, RpcError(_LOST))

    def cancel(self) -> None:
        """The answer is not wanted any more."""
        self.answered(RpcError("cancelled"))

    def over(self) -> None:
        self.channel.member.calls.pop(self, None)


class _Stream(_Call):
    """A bidirectional stream."""

    is_stream = True

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        host, member, network = channel.host, channel.member, channel.cluster.network
        self._to = Pipe(network, host.name, channel.cluster.host, member.name, self._received)
        self._from = Pipe(network, member.name, host, host.name, self._came)
        self._inbox: deque[bytes] = deque()
        self._error: str | None = None
        self._bad = 0
        self._check = host.call_later(_CHECK, self._look)

    def write(self, message: bytes) -> None:
        """Send a message."""
        if self._error is not None:
            raise RpcError(self._error)
        self._to.send(message)

    async def read(self) -> bytes:
        """The next message."""
        while not self._inbox:
            if self._error is not None:
                raise RpcError(self._error)
            self.future = self.channel.host.create_future()
            await self.future
        return self._inbox.popleft()

    async def listen(self, on_message: Callable[[bytes], None]) -> None:
        """Pass on the messages as they come."""
        while True:
            on_message(await self.read())

    def cancel(self) -> None:
        """End it."""
        self._end("the stream was closed")

    def lose(self) -> None:
        """The connection is lost."""
        if self._error is None:
            self.channel.host.call_soon(self._end, _LOST)

    def _received(self, message: bytes) -> None:
        """A message of the client's has come to the member."""

    def _came(self, message: bytes) -> None:
        self._inbox.append(message)
        self.answered(b"")

    def _end(self, why: str) -> None:
        if self._error is None:
            self._error = why
            self._check.cancel()
            self._to.break_off()
            self._from.break_off()
            self.over()
            self.answered(b"")

    def _look(self) -> None:
        """HTTP/2's pings, and etcd's own look for a leader (the metadata `hasleader`)."""
        channel = self.channel
        member, name, network = channel.member, channel.host.name, channel.cluster.network
        silent = member.paused or network.is_cut(name, member.name) or network.is_cut(member.name, name)
        leaderless = not silent and not channel.cluster.has_leader(member)
        self._bad = self._bad + 1 if silent or leaderless else 0
        if self._bad >= 3:
            self._end("etcdserver: no leader" if leaderless else "no answer to a ping")
        else:
            self._check = channel.host.call_later(channel.host.world.stretched(_CHECK), self._look)


class _Watch(_Stream):
    """A watch stream."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self.member = channel.member
        self._watcher: Any = None
        self._request: Any = None
        #: The watch delivers nothing before this time of the world, though the connection is well.
        self.stalled_until = 0.0
        #: What was sent of late, which a bug of etcd's sends again.
        self._told = remembered()

    @override
    def _received(self, message: bytes) -> None:
        self._request = pb.WatchRequest.FromString(message).create_request
        if self._error is None and self.channel.member.up:
            self.channel.cluster.watches[self] = None
            self.pump()

    def pump(self) -> None:
        """Send what the member has for this watch."""
        cluster, member = self.channel.cluster, self.channel.member
        if not member.sees_others or self._request is None:
            return
        if cluster.world.now < self.stalled_until:
            cluster.host.call_soon_at(self.stalled_until, self._go_on)
            return
        if self._watcher is None:
            asked = self._request
            first = cluster.bugs.first_revision(asked.start_revision, cluster.store.compacted)
            self._watcher = cluster.store.watch(asked.key, asked.range_end, first)
        queue = self._watcher.queue
        messages: list[WatchMessage] = []
        while not queue.empty():
            message = queue.get_nowait()
            if isinstance(message, WatchMessage):
                messages.append(message)
                continue
            self._send(messages)
            messages = []
            canceled = pb.WatchResponse(canceled=True, compact_revision=message.revision)
            self._from.send(canceled.SerializeToString())
        self._send(messages)

    def lose_pending(self) -> None:
        """A compaction takes some of what a slow watch has not got yet (17529)."""
        cluster = self.channel.cluster
        queue = None if self._watcher is None else self._watcher.queue
        kept: list[Any] = []
        while queue is not None and not queue.empty():
            message = queue.get_nowait()
            if isinstance(message, WatchMessage) and message.events and cluster.bugs.is_lost():
                cluster.bugs.on_left_out(self.host.name)
            else:
                kept.append(message)
        for message in kept:
            self._watcher.queue.put_nowait(message)

    def _go_on(self) -> None:
        if self in self.channel.cluster.watches:
            self.pump()

    def _send(self, messages: list[WatchMessage]) -> None:
        cluster, member = self.channel.cluster, self.channel.member
        messages = cluster.bugs.told(self._told, self.host.name, messages)
        if messages and not messages[0].events:  # the confirmation of the watch has no events
            self._from.send(watch_message(messages[0].revision, []))
            del messages[0]
        if len(messages) > 1 and cluster.random.random() < 0.5:  # a watch that lagged gets many at a time
            events = [event for message in messages for event in message.events]
            messages = [WatchMessage(messages[-1].revision, events)]
        for revision, told in messages:
            events = list(told)
            lag = member.lag * cluster.random.random() if member.lag else 0.0
            if len(events) > 1 and cluster.random.random() < 0.3:
                middle = cluster.random.randrange(1, len(events))
                self._from.send(watch_message(revision, events[:middle], fragment=True), lag)
                events = events[middle:]
            self._from.send(watch_message(revision, events), lag)

    @override
    def _end(self, why: str) -> None:
        super()._end(why)
        self.channel.cluster.watches.pop(self, None)
        if self._watcher is not None:
            self.channel.cluster.store.unwatch(self._watcher)


class _KeepAlive(_Stream):
    """A stream of renewals, which the leader answers without asking the others."""

    @override
    def _received(self, message: bytes) -> None:
        cluster = self.channel.cluster
        if not cluster.has_leader(self.channel.member) or self._error is not None:
            return
        if cluster.random.random() < cluster.troubles.lose_keep_alive:
            return
        lease = pb.LeaseKeepAliveRequest.FromString(message).id
        cluster.store.now = cluster.world.now
        response = pb.LeaseKeepAliveResponse(id=lease, ttl=cluster.store.lease_renew(lease))
        self._from.send(response.SerializeToString())
