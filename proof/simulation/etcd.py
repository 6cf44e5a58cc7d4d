"""An etcd cluster as its clients see it: three members, one order of commits, elections, leases, watches.

The store is the tests' in-memory model, which tests/proxy/etcd/test_fake.py holds against real etcd. Raft
itself is not simulated: what a client can see of it is. A Txn may be lost, committed after its sender gave
up, committed twice, overtaken by a later one; an election stops everything for some seconds and lengthens
leases; a member that is cut off from the others stays silent; a watch lags, stalls, is cut and fragmented.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Protocol

from typing_extensions import override

from lab.fakes.etcd import FakeEtcd
from lab.fakes.etcd_messages import answer, txn_of
from proof.simulation.etcd_bugs import EtcdBugs
from proof.simulation.network import Network
from proof.simulation.world import Host, World
from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.model import Event, Get
from proxy.etcd.transport import RpcError

# The first of its line whose linearizable reads are never old, and the last one with issue 20418.
_VERSION, READS_OLD_DATA = "3.4.42", "3.4.41"
_SERVER_TIMEOUT = 7.0  # seconds until a member gives a request up (5 s and two election timeouts)
_LEASE_TICK = 0.5  # seconds between two looks of etcd's lessor
_ELECTION = (1.0, 2.5)  # seconds
REFUSED = "connecting: connection refused"
_WRITES = frozenset(("Txn", "LeaseGrant", "LeaseRevoke"))


class Store(FakeEtcd):
    """The model of etcd, which reports each commit."""

    def __init__(self) -> None:
        super().__init__()
        self.version = _VERSION
        self.on_commit: Callable[[int, list[Event]], None] = lambda _revision, _events: None
        #: When each lease was granted or renewed last.
        self.renewed: dict[int, float] = {}

    @override
    def _commit(self, events: list[Event]) -> None:
        super()._commit(events)
        if events:
            self.on_commit(self.revision, events)

    @override
    def lease_renew(self, lease_id: int) -> int:
        lease = self._leases.get(lease_id)
        if lease is not None and lease.expires <= self.now:
            self.lease_revoke(lease_id)  # etcd renews nothing that has run out
        elif lease is not None:
            self.renewed[lease_id] = self.now
        return super().lease_renew(lease_id)

    @override
    def lease_grant(self, lease_id: int, ttl: int) -> int:
        self.renewed[lease_id] = self.now
        return super().lease_grant(lease_id, ttl)


class OpenCall(Protocol):
    """A request or stream of a host that is open on a member."""

    host: Host
    is_stream: bool

    def lose(self) -> None:
        """The connection is lost."""

    def over(self) -> None:
        """Nothing follows."""


class OpenWatch(Protocol):
    """A watch stream."""

    host: Host
    member: "Member"
    #: It delivers nothing before this time of the world, though the connection is well.
    stalled_until: float

    def pump(self) -> None:
        """Send what the member has for this watch."""

    def lose_pending(self) -> None:
        """Lose events that were not sent yet, since a compaction took them."""

    def cancel(self) -> None:
        """End it."""


class Member:
    """One member."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.up = True
        self.paused = False
        self.isolated = False  # from the other members
        self.lag = 0.0  # seconds that it is behind the leader
        self.behind = 0  # revisions by which its reads may be old, see EtcdBugs
        self.stands_at = 0  # the revision of its reads while it is stale, see EtcdBugs
        self.calls: dict[OpenCall, None] = {}  # that are open on it
        self.inbox: list[Callable[[], None]] = []  # what came while it was paused
        self.waiting: dict[_Proposal, None] = {}  # what waits for a leader

    @property
    def sees_others(self) -> bool:
        """Whether it takes part in the cluster."""
        return self.up and not self.paused and not self.isolated


class _Proposal:
    """A request that the leader has to commit, or a read that has to ask it."""

    def __init__(
        self, member: Member, method: str, request: bytes, respond: Callable[[bytes | RpcError], None]
    ) -> None:
        self.member = member
        self.method = method
        self.request = request
        self.respond = respond


class Troubles:
    """The troubles of the cluster, which faults set."""

    def __init__(self) -> None:
        #: Chances, from 0 to 1.
        self.lose_answer = 0.0
        self.lose_request = 0.0
        self.double = 0.0
        self.lose_keep_alive = 0.0
        #: Each says which requests to write are lost.
        self.losses: list[Callable[[bytes], bool]] = []
        #: Seconds that the disk adds to each commit.
        self.slow_disk = 0.0
        #: Time of the world until which leases that have run out are not revoked.
        self.leases_late_until = 0.0


class Cluster:
    """Three members and their one store."""

    def __init__(self, world: World, network: Network, name: str = "etcd") -> None:
        """`name` begins the names of its members."""
        self.world = world
        self.network = network
        self.host = Host(world, name)
        self.store = Store()
        self.members = [Member(f"{name}{number}") for number in (1, 2, 3)]
        self.leader: Member | None = self.members[0]
        self.term = 1
        self.elections = 0
        self.random = world.random(name)
        self.troubles = Troubles()
        self.bugs = EtcdBugs(world.random(f"bugs of {name}"))
        self.watches: dict[OpenWatch, None] = {}
        self.store.on_commit = self._committed
        #: Called with each commit.
        self.on_commit: Callable[[int, list[Event]], None] = lambda _revision, _events: None
        self._last_commit = 0.0
        self._in_flight: dict[_Proposal, None] = {}
        self._electing = False
        self.host.call_later(_LEASE_TICK, self._tick)

    # -- requests --------------------------------------------------------------------------------------------

    def arrived(
        self, member: Member, method: str, request: bytes, respond: Callable[[bytes | RpcError], None]
    ) -> None:
        """A request has come to a member."""
        if not member.up:
            respond(RpcError(REFUSED))
            return
        if member.paused:
            member.inbox.append(lambda: self.arrived(member, method, request, respond))
            return
        if method == "Status":
            leader = 0 if not self.has_leader(member) else 1
            self._run(member, method, request, respond, leader)
            return
        if method in _WRITES and self._is_lost(request):
            return
        self._propose(_Proposal(member, method, request, respond))

    def _is_lost(self, request: bytes) -> bool:
        troubles = self.troubles
        return self.random.random() < troubles.lose_request or any(lost(request) for lost in troubles.losses)

    def _propose(self, proposal: _Proposal) -> None:
        member = proposal.member
        if not self.has_leader(member):
            member.waiting[proposal] = None
            self.host.call_later(_SERVER_TIMEOUT, self._give_up, proposal)
            return
        now = self.world.now
        if proposal.method not in _WRITES:
            self.host.call_soon_at(now + self._hop(), self._execute, proposal)
            return
        if proposal.method == "Txn" and self.random.random() < self.troubles.double:
            copy = _Proposal(member, "Txn", proposal.request, lambda _result: None)
            self.host.call_later(self.random.choice((0.01, 1.0, 20.0, 300.0)), self._again, copy)
        # Proposals of one member mostly keep their order; sometimes one overtakes another.
        at = now + self._hop() + self.troubles.slow_disk * self.random.random()
        self._last_commit = at if self.random.random() < 0.1 else max(at, self._last_commit)
        self._in_flight[proposal] = None
        self.host.call_soon_at(self._last_commit, self._commit, proposal, self.term)

    def _again(self, copy: _Proposal) -> None:
        if copy.member.sees_others:
            self._propose(copy)

    def _hop(self) -> float:
        return 0.0002 + 0.001 * self.random.random()

    def _commit(self, proposal: _Proposal, term: int) -> None:
        if proposal not in self._in_flight or term != self.term:
            return  # an election has decided what becomes of it
        del self._in_flight[proposal]
        self._execute(proposal)

    def _execute(self, proposal: _Proposal) -> None:
        if not self.has_leader(proposal.member):
            self._propose(proposal)
            return
        respond = proposal.respond
        if proposal.method in _WRITES and self.random.random() < self.troubles.lose_answer:
            respond = _nobody
        self._run(proposal.member, proposal.method, proposal.request, respond)

    def _run(
        self,
        member: Member,
        method: str,
        request: bytes,
        respond: Callable[[bytes | RpcError], None],
        leader: int = 1,
    ) -> None:
        self.store.now = self.world.now
        is_wrong = (member.behind or member.stands_at) and _only_reads(method, request)
        try:
            with (
                self.bugs.reading(self.store, member.behind, member.stands_at) if is_wrong else nullcontext()
            ):
                response: bytes | RpcError = answer(self.store, method, request, leader=leader)
        except RpcError as error:
            response = error
        respond(response)

    def _give_up(self, proposal: _Proposal) -> None:
        if proposal in proposal.member.waiting:
            del proposal.member.waiting[proposal]
            proposal.respond(RpcError("etcdserver: request timed out"))

    def _committed(self, revision: int, events: list[Event]) -> None:
        self.on_commit(revision, events)
        for watch in list(self.watches):
            watch.pump()

    # -- leaders ---------------------------------------------------------------------------------------------

    def has_leader(self, member: Member) -> bool:
        """Whether a member reaches a leader that has a majority."""
        leader = self.leader
        return (
            leader is not None
            and member.sees_others
            and leader.sees_others
            and sum(other.sees_others for other in self.members) * 2 > len(self.members)
        )

    def check(self) -> None:
        """Something has happened to a member: elect a leader if there is none that works."""
        if self._electing or (
            self.leader is not None and self.leader.sees_others and self.has_leader(self.leader)
        ):
            return
        self.depose()

    def depose(self) -> None:
        """The leader is none any more; another one, or the same, is elected soon."""
        self.leader = None
        self.term += 1
        if not self._electing:
            self._electing = True
            low, high = _ELECTION
            self.host.call_later(low + (high - low) * self.random.random(), self._elect)

    def _elect(self) -> None:
        candidates = [member for member in self.members if member.sees_others]
        if len(candidates) * 2 <= len(self.members):
            self.host.call_later(1.0, self._elect)
            return
        self._electing = False
        self.leader = self.random.choice(candidates)
        self.elections += 1
        self.world.trace(self.host.name, f"{self.leader.name} leads in term {self.term}")
        self.store.now = self.world.now
        self.store.extend_leases()
        # What was in the old leader's log is in the new one's, or is lost without an answer.
        for proposal in list(self._in_flight):
            del self._in_flight[proposal]
            if self.random.random() < 0.5:
                proposal.respond = _nobody if self.random.random() < 0.7 else proposal.respond
                self._propose(proposal)
        for member in self.members:
            if member.sees_others:
                waiting, member.waiting = member.waiting, {}
                for proposal in waiting:
                    if self.random.random() < 0.6:
                        self._propose(proposal)
                    else:
                        member.waiting[proposal] = None  # dropped: it times out
        self._wake_watches()

    # -- faults ----------------------------------------------------------------------------------------------

    def kill(self, member: Member) -> None:
        """A member's process ends."""
        member.up = False
        member.inbox.clear()
        member.waiting.clear()
        for call in list(member.calls):
            call.lose()
        self.check()

    def start(self, member: Member) -> None:
        """Start the member's process again."""
        member.up = True
        self.check()

    def restore(self) -> None:
        """All members end, and their data go to a new cluster, whose members are to be started."""
        for member in self.members:
            self.kill(member)
        self._in_flight.clear()
        self.store.cluster_id = self.random.getrandbits(63)

    def pause(self, member: Member) -> None:
        """A member stands still."""
        member.paused = True
        self.check()

    def resume(self, member: Member) -> None:
        """A member continues, with what has arrived meanwhile."""
        member.paused = False
        inbox, member.inbox = member.inbox, []
        for arrive in inbox:
            arrive()
        self.check()
        self._wake_watches()

    def isolate(self, member: Member) -> None:
        """Cut a member off from the others, not from its clients."""
        member.isolated = True
        self.check()

    def rejoin(self, member: Member) -> None:
        """Undo `isolate`."""
        member.isolated = False
        self.check()
        self._wake_watches()

    def break_streams(self) -> int:
        """Cut all streams; how many there were."""
        calls = [call for member in self.members for call in member.calls if call.is_stream]
        for call in calls:
            call.lose()
        return len(calls)

    def compact(self, back: int = 0) -> None:
        """Forget all history but that of the last `back` revisions."""
        revision = self.store.revision - back
        if revision > self.store.compacted:
            self.store.compact(revision)

    def compact_periodically(self, seconds: float, revision: int = 0) -> None:
        """As --auto-compaction-retention does: forget what is older than a period; it began at `revision`."""
        if self.store.compacted < revision <= self.store.revision:
            self.store.compact(revision)
        self.host.call_later(seconds, self.compact_periodically, seconds, self.store.revision)

    def make_space(self) -> str:
        """What an operator does with an etcd that is full (docs/etcd.md); the sizes, for people."""
        store = self.store
        self.compact()
        store.defragment()
        if store.file.size > store.quota * 9 // 10:
            store.quota *= 2
        store.disarm()
        return f"{store.file.size} of {store.quota} bytes are in use"

    def _wake_watches(self) -> None:
        for watch in list(self.watches):
            watch.pump()

    def _tick(self) -> None:
        self.host.call_later(self.world.stretched(_LEASE_TICK), self._tick)
        store = self.store
        if self.leader is None or not self.has_leader(self.leader):
            return
        if self.world.now >= self.troubles.leases_late_until:
            passed = self.world.now - store.now
            store.advance(max(0.0, passed))


def _only_reads(method: str, request: bytes) -> bool:
    if method != "Txn":
        return method == "Range"
    txn = txn_of(pb.TxnRequest.FromString(request))
    return all(isinstance(op, Get) for op in (*txn.success, *txn.failure))


def _nobody(_result: bytes | RpcError) -> None:
    """Take an answer that gets lost."""
