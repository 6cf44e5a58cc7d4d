"""A stormy world with two etcds: proxies and clients at one, and followers that keep a copy in the other.

`copies` judges the copy. Besides all faults of a stormy world, the followers are killed, paused, cut off and
doubled, and the copy's etcd has faults of its own.

In some worlds the tree moves to the copy's etcd, amid faults. From there on the oracle sees that etcd's
commits in place of the former one's: for clients, histories and judges it is one tree.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from math import inf
from random import Random
from typing import Any

from typing_extensions import override

from pipeline.follow.options import Options
from pipeline.follow.source import OtherSource
from proof.history.records import Reply, Request
from proof.simulation.answers import STALENESS_TOLERANCE
from proof.simulation.bug_faults import Begun, nothing
from proof.simulation.clients import Client
from proof.simulation.copies import CopyJudge, node_pages, state_of
from proof.simulation.etcd import Cluster
from proof.simulation.followers import ADDRESS, Follower, printing, replaced
from proof.simulation.knobs import QUOTA, Knobs, drawn
from proof.simulation.losing import Losing
from proof.simulation.nemesis import Fault, Nemesis, every
from proof.simulation.network import Network
from proof.simulation.oracle import Oracle, Step
from proof.simulation.outcome import Outcome
from proof.simulation.proxies import Proxy
from proof.simulation.reserve import ReserveJudge
from proof.simulation.simulation import RECOVERY_LIMIT, Simulation
from proof.simulation.world import Host, World, running_host
from proxy.etcd.model import DELETE
from proxy.log.record import TreeSealed
from proxy.state.machine import Machine
from schema.record import decode_record

_LOOK = 1.0  # seconds between two looks of what starts a follower again
_POLL = 0.5
_TRUNCATED_EACH = 2.0  # seconds between two snapshots that are requested
#: Faults of the followers' hosts, which the nemesis takes for proxies', and of the copy's etcd.
_AT_THE_COPY = (
    "kill a proxy",
    "kill a proxy",
    "pause a proxy",
    "cut a proxy from a member",
    "cut a proxy from etcd",
    "slow network",
    "kill a member",
    "pause a member",
    "isolate a member",
    "no majority",
    "new leader",
    "lose answers",
    "lose requests",
    "double requests",
    "slow disk",
    "lag",
    "compact",
    "no space",
)
_COPY = "copy: "
_MOVED = "moved"  # names of the proxies at the copy begin so
SECOND, CUT, TRUNCATED = "a second follower", "cut a follower from its source", "truncate while none follows"
MOVE = "move the tree"
LOADED, RESUMED = "loading all", "going on behind"
"""What followers print if they load a copy anew, or go on where it is."""


class _CopySide:
    """The copy's etcd and its followers, as the nemesis takes them."""

    def __init__(self, simulation: "Standby", cluster: Cluster, followers: Sequence[Follower]) -> None:
        self.world: World = simulation.world
        self.network: Network = simulation.network
        self.cluster = cluster
        self.oracle: Oracle = simulation.oracle
        self.proxies: Any = followers
        self.clients: list[Client] = []
        self.knobs = simulation.knobs
        self.reserve: ReserveJudge = simulation.reserve
        self.spoiled = 0

    def replace_client(self, client: Client) -> None:
        """There is none."""

    def is_tainted(self) -> bool:
        """No memory is damaged here."""
        return False

    def taint(self, proxy: Proxy) -> None:
        """No memory is damaged here."""

    def ended_early(self, lease: int) -> None:
        """There is no lease."""


class Standby(Simulation):
    """One world with a copy."""

    kind = "standby"

    # -- parts -----------------------------------------------------------------------------------------------

    @override
    def _drawn(self, rng: Random) -> Knobs:
        # A copy's budgets are filled by the times of its own entries, and it has no release of its own.
        return drawn(self.world.seed, rng)._replace(
            budgets=("",), quota=QUOTA, compaction=0.0, upgrade=inf, backup=inf
        )

    @override
    def _populate(self, rng: Random) -> None:
        self.copy_cluster = Cluster(self.world, self.network, "copy")
        self._copy_id = self.copy_cluster.store.cluster_id = self.world.random("copy's id").getrandbits(63)
        self.copy_cluster.store.quota = QUOTA
        self.copy = CopyJudge(self.oracle.machine, self.copy_cluster.store, self.violate)
        self.said: Counter[str] = Counter()
        self.oracle.listeners.ended = self.copy.applied
        self.copy_cluster.on_commit = self._copy_committed
        draw = self.world.random("followers")
        self._replaced = replaced()
        options = Options(
            entry_changes=draw.choice((1, 20, 8000)), log_bytes=draw.choice((2_000, 20_000, 1 << 26))
        )
        self.followers = [Follower(f"follower{n}", self.cluster, self.copy_cluster, options) for n in (1, 2)]
        options = options._replace(finish=True, address=ADDRESS)
        self._mover = Follower("mover", self.cluster, self.copy_cluster, options)
        self.commands = list(self.followers)
        self._copy_nemesis = Nemesis(_CopySide(self, self.copy_cluster, self.commands))
        for each in (*self.followers, self._mover):
            each.on_failure = self._failed
        self._source = self.cluster
        self._former = list(self.proxies)
        self.others = self._make_proxies(self.copy_cluster, _MOVED, draw)
        self._at: dict[str, str] = {}  # clients and their servers
        self._steps: Oracle | None = None  # of the source, once the tree has moved
        #: The end of the world, if the tree has not moved.
        self.losing: Losing | None = None
        self._sealed_at = inf
        self._followers_random = self.world.random("faults of followers")
        self._supervisor = Host(self.world, "supervisor")
        self._is_supervised = self.is_moving = self.has_moved = False
        self._held = 0  # faults that last, and let no follower run
        at_copy = tuple(f"{_COPY}{name}" for name in _AT_THE_COPY)
        if self._fault_names == tuple(self.nemesis.names):
            self._fault_names = (*self._fault_names, *at_copy, *3 * (SECOND, CUT, TRUNCATED), MOVE, MOVE)
        super()._populate(rng)

    @property
    @override
    def _addresses(self) -> Sequence[Proxy]:
        return [*self._former, *self.others]

    # -- followers -------------------------------------------------------------------------------------------

    def _supervise(self) -> None:
        """Start a follower if none runs, as systemd does."""
        self._supervisor.call_later(_LOOK, self._supervise)
        if not self._held and not self.has_moved and not any(each.alive for each in self.followers):
            self.followers[0].start()
        if self.is_moving and not self._mover.alive and not self._mover.is_done:
            self._mover.start()

    def _failed(self, error: Exception) -> None:
        """A follower has ended: it may say that this is another source only after a restore."""
        position = self.copy.position
        origin = None if position is None else position.origin
        is_same = origin is not None and origin.cluster_id == self._source.store.cluster_id
        if is_same and isinstance(error, OtherSource):
            self.violate(f"a follower does not know its source: {error}")

    def _note(self, said: str) -> None:
        for what in (LOADED, RESUMED):
            self.said[what] += what in said

    # -- the move --------------------------------------------------------------------------------------------

    def _begin_move(self) -> Begun | None:
        """Start the other proxies, which wait, and the command that seals the source."""
        if self.is_moving or self.copy.position is None:
            return None
        self.is_moving = True
        self.commands.append(self._mover)
        for proxy in self.others:
            proxy.start()
        self._mover.start()
        return "", nothing

    @override
    def _committed(self, revision: int, events: list[Any]) -> None:
        keys = self.copy.keys
        if self._sealed_at < inf:
            for event in events:
                if event.type != DELETE and event.kv.key.startswith(keys.live):
                    self.violate(f"{event.kv.key.decode()} was put behind the seal")
            return
        super()._committed(revision, events)
        for event in events:
            if event.kv.key == keys.tree and decode_record(event.kv.value).seal is not None:
                self.world.trace("etcd", f"is sealed at zxid {self.oracle.machine.zxid:#x}")
                self._sealed_at = self.world.now

    def _copy_committed(self, revision: int, events: list[Any]) -> None:
        if self.has_moved:
            super()._committed(revision, events)
            return
        if self.losing is not None and self.losing.oracle is not None:
            self.losing.oracle.committed(events)
            return
        self.copy.committed(events)
        if self.copy.complete and self.losing is not None:
            self.losing.promoted()
        elif self.copy.complete and self.copy.machine is not None:
            self._move(self.copy.machine)

    def _move(self, copy: Machine) -> None:
        """The copy is complete: the oracle goes on there."""
        oracle, right = self.oracle, self.oracle.machine
        if self._sealed_at == inf:
            self.violate("the copy is complete, and its source is not sealed")
        if state_of(copy) != state_of(right) or node_pages(copy) != node_pages(right):
            self.violate(
                f"the copy is complete at zxid {copy.zxid:#x}; its source was sealed at {right.zxid:#x}"
            )
        self.world.trace("world", f"has moved at zxid {copy.zxid:#x}")
        self.has_moved = True
        steps = self._steps = Oracle(self.world, right.cluster_id, self.violate)
        steps.steps = oracle.steps
        nothing = Step("", 0, 0, 0)
        oracle.steps = [self.copy.steps.get(count + 1, nothing) for count in range(copy.entries)]
        oracle.begin(copy)
        oracle.listeners.ended = lambda _machine: None
        self.naive.model.sessions.update(dict.fromkeys(self.naive.model.sessions, ""))
        self.proxies[:] = self.others
        self.cluster = self.copy_cluster
        self.expiry.moved(self.cluster)
        counts, self.nemesis = self.nemesis.counts, Nemesis(self)
        self.nemesis.counts = counts

    @override
    def machine_applied(self, machine: Machine) -> None:
        name = running_host().name
        is_copy = (
            name.startswith(_MOVED)
            if name.startswith((_MOVED, "proxy"))
            else machine.cluster_id == self._copy_id
        )
        if is_copy and self.losing is not None and self.losing.oracle is not None:
            self.losing.oracle.compare(name, machine)
        elif is_copy and not self.has_moved:
            self.copy.compare(name, machine)
        elif is_copy or self._steps is None or name == "operator":
            super().machine_applied(machine)
        elif machine not in self.tainted:
            self._steps.compare(name, machine)

    @override
    def _begin_client(self, client: Client) -> None:
        super()._begin_client(client)
        on_session = client.on_session

        def attached(session: int, server: str) -> None:
            self._at[client.name] = server
            self._judge_sealed(client)
            on_session(session, server)

        client.on_session = attached

    @override
    def _replied(self, client: Client, session: int, request: Request, answer: Reply) -> None:
        self._judge_sealed(client)
        if self.losing is not None:
            self.losing.acknowledged(client, request, answer)
        super()._replied(client, session, request, answer)

    def _judge_sealed(self, client: Client) -> None:
        """Servers of the source see the seal, or stop because their state is old."""
        latest = self._sealed_at + self.knobs.staleness + client.timeout + STALENESS_TOLERANCE
        if client.came_at > latest and not self._at[client.name].startswith(_MOVED):
            self.violate(
                f"{self._at[client.name]} serves {client.name} {client.came_at - self._sealed_at:.1f} s after"
                " the seal of its tree"
            )

    @override
    def start_ended(self) -> None:
        for proxy in self.proxies:
            if proxy.ended.startswith(TreeSealed.__name__) and self._sealed_at < inf:
                proxy.ended = ""
        super().start_ended()

    # -- the loss --------------------------------------------------------------------------------------------

    @override
    def _seal(self) -> None:
        """The source is lost, unless the tree has moved."""
        if not self.has_moved:
            self.copy.is_lost = True
            self.losing = Losing(self, self._fault_names)
            self.losing.run()

    def source_client(self) -> Client:
        """As `losing.Sides`."""
        return self._make_client(self._timeouts[-1], addresses=self._former)

    def begin_fault_of(self, name: str) -> Fault | None:
        """As `losing.Sides`."""
        return self._begin_fault(name)

    # -- faults ----------------------------------------------------------------------------------------------

    @override
    def _begin_fault(self, name: str) -> Fault | None:
        own = {SECOND: self._second, CUT: self._cut_source, TRUNCATED: self._truncate, MOVE: self._begin_move}
        begun: Begun | None
        if self.has_moved and (name.startswith(_COPY) or name in own):
            begun = self._come_back()
        elif name.startswith(_COPY):
            fault = self._copy_nemesis.begin(name.removeprefix(_COPY))
            begun = None if fault is None else (fault.what, fault.end)
        elif name in own:
            begun = own[name]()
        elif name == "restore etcd" and self.is_moving and not self.has_moved:
            return None  # what is restored is another tree
        else:
            return super()._begin_fault(name)
        return self.nemesis.noted(name, begun)

    def _come_back(self) -> Begun:
        """The servers of the former etcd are started again."""
        gone = [proxy for proxy in self._former if not proxy.alive]
        for proxy in gone:
            proxy.start()
        return "the source comes back", nothing

    def _second(self) -> Begun | None:
        """Somebody starts the command again, while one runs or stands still."""
        others = [follower for follower in self.followers if not follower.alive]
        if len(others) != 1:
            return None
        (runs,) = (follower for follower in self.followers if follower.alive)
        stands_still = self._followers_random.random() < 0.5
        if stands_still:
            runs.pause()
        others[0].start()
        return runs.name + (" stands still" if stands_still else ""), runs.resume

    def _cut_source(self) -> Begun:
        way = self._followers_random.randrange(3)
        members = [member.name for member in self.cluster.members]
        pairs = []
        for follower in self.followers:
            if way != 1:
                pairs += [(follower.name, member) for member in members]
            if way != 2:
                pairs += [(member, follower.name) for member in members]
        self.network.cut(pairs)
        what = ("both ways", "answers only", "requests only")[way]
        return what, lambda: self.network.mend(pairs)

    def _truncate(self) -> Begun:
        """The source writes snapshots and truncates its log while no follower reads it."""
        self._held += 1
        for follower in self.followers:
            follower.kill()

        def want() -> None:
            for client in self.clients:
                client.urge()
            for proxy in self.proxies:
                if proxy.server is not None:
                    proxy.server.snapshots.want()

        stop = every(self.cluster.host, _TRUNCATED_EACH, want)

        def end() -> None:
            stop()
            self._held -= 1

        return "", end

    # -- the run ---------------------------------------------------------------------------------------------

    @override
    def run(self) -> Outcome:
        with printing(self.world, self._note):
            return super().run()

    @override
    def recover(self, after: str) -> None:
        if self.is_moving:
            self._wait(lambda: self.has_moved, f"the tree has not moved after {after}")
        super().recover(after)
        if self.has_moved:
            gone = lambda: not any(proxy.alive for proxy in self._former)  # noqa: E731
            self._wait(gone, f"a server of the source lives on after {after}")
        else:
            self._recover_copy(after)

    def _recover_copy(self, after: str) -> None:
        """Wait until the copy has all that the source has now; that takes a bounded time."""
        if not self._is_supervised:
            self._is_supervised = True
            self._supervise()
        zxid = self.oracle.machine.zxid
        level = lambda: self.copy.position is not None and self.copy.position.zxid >= zxid  # noqa: E731
        self._wait(level, f"the copy is not level after {after}")

    def _wait(self, probe: Callable[[], bool], what: str) -> None:
        world, begun = self.world, self.world.now
        while not self.broken and not probe():
            if world.now - begun > RECOVERY_LIMIT:
                ends = ", ".join(f"{each.name}: {each.ended or 'runs'}" for each in self.commands)
                self.violate(f"within {RECOVERY_LIMIT:.0f} s {what}: {ends}")
            world.run(world.now + _POLL)

    @override
    def _settle(self) -> None:
        super()._settle()
        if not self.broken and not self.has_moved:
            self._judge_copy()

    def _judge_copy(self) -> None:
        """Nothing is written any more: the copy is the source's tree."""
        self._recover_copy("the end")
        copy = self.copy.machine
        if copy is None or node_pages(copy) != node_pages(self.oracle.machine):
            self.violate("the copy's pages are not those of its source")
        elif copy.compute_digest() != copy.digest.settle(copy.tree.nodes):
            self.violate("the copy's digest from scratch is another one")

    @override
    def _end(self) -> None:
        super()._end()
        for each in self.commands:
            each.kill()
        for proxy in (*self._former, *self.others):
            proxy.kill()
        for host in (self._supervisor, self._source.host, self.copy_cluster.host):
            host.kill()


def simulate_standby(seed: int, hours: float, faults: tuple[str, ...]) -> Outcome:
    """One such world of a seed."""
    return Standby(seed, hours, faults).run()
