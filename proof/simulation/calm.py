"""One calm world of a seed: many hours with few requests, and a fault now and then.

It finds what only time shows: what leaks or drifts, what ends too late, what goes wrong after hours. A stormy
world (`simulation`) has a hundred times as many faults an hour. Between two faults the world is quiet
(`proxies`) except for its clients: two that write, one that reads, sleepers that stand still for longer than
their timeouts, one with TTL nodes and containers, and visitors that connect, work, and leave or die. Every
few hours there is a burst of requests, once a rolling upgrade, and now and then a proxy is away for an hour.
"""

import gc
from random import Random

from typing_extensions import override

from proof.history.records import Create, Exists
from proof.simulation.bounds import too_much
from proof.simulation.clients import Client
from proof.simulation.exactly_once import Logged
from proof.simulation.expiring_nodes import ExpiringNodesClient, ExpiringNodesJudge
from proof.simulation.knobs import Knobs, drawn_calm
from proof.simulation.mix import LOCKS, REGISTERS
from proof.simulation.nemesis import Fault
from proof.simulation.outcome import Outcome
from proof.simulation.simulation import Simulation

_GAPS = (600.0, 1200.0, 2400.0)  # seconds between two faults, on average; each world has one of them
_THINK = (120.0, 300.0, 900.0)  # and between two bursts of one client's requests
_TIMEOUTS = (20_000, 30_000, 60_000)  # ms, besides two ticks
_LONG_TIMEOUTS = (60_000, 600_000, 3_600_000)  # ms, of sleepers
_VISITS = 240.0  # seconds between two visitors, on average
_NAPS = 900.0  # seconds between two sleeps
_BURSTS = 6 * 3600.0  # seconds from one burst to the next
_BURST = 15.0  # seconds
_GUESTS = 15  # visitors that come with a burst
_COMPACTIONS = 3600.0  # seconds between two compactions of etcd
_KEPT = 200  # revisions that are left by one
_SETTLING = 12.0  # seconds after a recovery in which everything still looks as often as ever
_WAKING = 6.0  # seconds of the same before the next fault
_LEAST_QUIET = 10.0
_AWAY = 3600.0  # seconds that a proxy is away
_GONE = 40.0  # seconds after which nothing waits for it any more


class Calm(Simulation):
    """One calm world."""

    kind = "calm"
    _seals = False  # it has proxies whose clocks stand for hours, and sessions that last for hours

    # -- parts -----------------------------------------------------------------------------------------------

    _options = (f"--max-session-timeout={max(_LONG_TIMEOUTS)}",)

    @override
    def _drawn(self, rng: Random) -> Knobs:
        return drawn_calm(self.world.seed, rng)

    @override
    def _populate(self, rng: Random) -> None:
        self._gap = rng.choice(_GAPS)
        self._think = rng.choice(_THINK)
        self._timeouts = [self._timeouts[0], *_TIMEOUTS]
        self._quiet = 0.0
        self._calm_since = 0.0
        self._going = True
        self._visitors: list[Client] = []
        self._times = self.world.random("clients' times")
        self._expiring_nodes = ExpiringNodesJudge(self.oracle, self.violate)
        for _ in range(2):
            self._new_client()
        self._new_client(reads_only=True)
        self._sleepers = [self._make_client(rng.choice(_LONG_TIMEOUTS)) for _ in range(2)]
        self._expirer = ExpiringNodesClient(self.world, self.clients_host, "expirer", self.proxies, 60_000)
        self._expirer.think = 300.0
        self._begin_client(self._expirer)

    @property
    @override
    def _everybody(self) -> list[Client]:
        return [*self.clients, *self._sleepers, self._expirer, *self._visitors]

    @override
    def _awaited(self) -> list[Client]:
        """Who sleeps, or takes an hour to find a connection dead, is not waited for."""
        return [client for client in self.clients if not client.is_asleep]

    @override
    def _writes(self) -> dict[int, list[Logged]]:
        others = self._expirer.session_ids
        return {session: logged for session, logged in self.oracle.writes.items() if session not in others}

    @override
    def _more_figures(self) -> tuple[float, int, int, float]:
        return self._quiet, self._expiring_nodes.ended, 0, 0.0

    # -- what clients do -------------------------------------------------------------------------------------

    def _later(self, mean: float, act: str) -> None:
        self.clients_host.call_later(self._times.expovariate(1 / mean), getattr(self, act))

    def _visit(self) -> None:
        """A client comes for some requests, and leaves or dies."""
        if not self._going:
            return
        self._later(_VISITS, "_visit")
        self._welcome()

    def _welcome(self) -> None:
        rng = self._times
        for visitor in [visitor for visitor in self._visitors if visitor.is_over]:
            self._visitors.remove(visitor)
            self.dead_clients.append(visitor)
        visitor = self._make_client(rng.choice(self._timeouts))
        visitor.think = 3.0
        visitor.wish(Create(f"{LOCKS}/v-", b"", ephemeral=True, sequential=True))
        visitor.wish(Exists(f"{REGISTERS}/nobody", watch=True))
        self._visitors.append(visitor)
        leave = visitor.retire if rng.random() < 0.7 else visitor.die
        self.clients_host.call_later(rng.expovariate(1 / 10), leave)

    def _nap(self) -> None:
        """A client stands still, perhaps for longer than its timeout."""
        if not self._going:
            return
        self._later(_NAPS, "_nap")
        rng = self._times
        client = rng.choice([*self.clients, *self._sleepers, self._expirer])
        if not client.is_asleep:
            client.sleep(min(client.timeout, 1800.0) * rng.choice((0.2, 0.6, 0.95, 1.2, 3.0)))

    def _burst(self) -> None:
        """Send many requests at once, as cron jobs do."""
        if not self._going:
            return
        self.clients_host.call_later(_BURSTS, self._burst)
        self.world.trace("clients", "a burst")
        for client in self.clients:
            client.think = 0.5
            client.urge()
        for _ in range(_GUESTS):
            self._welcome()
        self.clients_host.call_later(_BURST, self._burst_over)

    def _burst_over(self) -> None:
        for client in self.clients:
            client.think = self._think

    def _compact(self) -> None:
        """Compact etcd periodically."""
        self.clients_host.call_later(_COMPACTIONS, self._compact)
        self.cluster.compact(_KEPT)

    # -- the run ---------------------------------------------------------------------------------------------

    @override
    def _live(self, until: float) -> None:
        world, rng = self.world, self.plan
        upgrade_at = world.now + self.knobs.upgrade * (until - world.now)
        self._later(_VISITS, "_visit")
        self._later(_NAPS, "_nap")
        self._later(_BURSTS / 2, "_burst")
        self._compact()
        episodes = 0
        while world.now < until and not self.broken:
            self._rest(min(until, world.now + rng.expovariate(1 / self._gap)))
            if world.now >= upgrade_at:
                upgrade_at = float("inf")
                self.upgrade()
            elif rng.random() < 0.05:
                self._be_away()
            else:
                self._episode()
            episodes += 1
            if episodes % 8 == 0:
                gc.collect()

    def _rest(self, until: float) -> None:
        """Nothing goes wrong until a time of the world. What should have happened by then has."""
        world = self.world
        self._calm_since = world.now
        stalled = max([watch.stalled_until for watch in self.cluster.watches], default=0.0)
        world.run(min(until, max(world.now, stalled) + _SETTLING))
        if until - world.now > _LEAST_QUIET + _WAKING:
            world.quiet_until = until - _WAKING
            self._quiet += world.quiet_until - world.now
        world.run(until)
        for late in self.expiry.overdue(self.oracle.machine.sessions, self._calm_since):
            self.violate(late)
        self._expiring_nodes.look(self._calm_since)

    @override
    def _episode(self) -> None:
        """Make one fault, seldom two."""
        rng, world = self.plan, self.world
        faults: list[Fault] = []
        for _ in range(rng.choice((1, 1, 1, 2))):
            fault = self.nemesis.begin(rng.choice(self._fault_names))
            if fault is not None:
                faults.append(fault)
            world.run(world.now + rng.choice((0.5, 5.0, 15.0, 60.0)) * rng.random())
        for fault in faults:
            world.trace("nemesis", f"end of: {fault.name}")
            fault.end()
        self._recover_from(faults)

    def _be_away(self) -> None:
        """A proxy stands still, or its machine is gone, for an hour; the others continue."""
        rng, world = self.plan, self.world
        proxy = rng.choice(self.proxies)
        paused = rng.random() < 0.5
        if paused:
            proxy.pause()
        else:
            proxy.kill(silently=rng.random() < 0.5)
        self.nemesis.note("away for an hour", f"{proxy.name}, {'paused' if paused else 'killed'}")
        world.run(world.now + _GONE)
        self._rest(world.now + _AWAY)
        world.trace("nemesis", f"{proxy.name} comes back")
        if paused:
            proxy.resume()
        self.recover(f"an hour without {proxy.name}")

    @override
    def _settle(self) -> None:
        self._going = False
        for client in self._everybody:
            client.wake()
        for visitor in [*self._visitors, self._expirer]:
            visitor.retire()
            visitor.urge()
        self.recover("the end of all faults")
        # As long as the longest session of which no client knows may live.
        deadline = self.world.now + max(_LONG_TIMEOUTS) / 1000 + 60.0
        while self._left_sessions() and self.world.now < deadline and not self.broken:
            self._rest(min(deadline, self.world.now + 60.0))
        for client in (*self.clients, *self._sleepers):
            client.think = 1.0
            client.urge()
        super()._settle()

    @override
    def _judge_end(self) -> None:
        for what in too_much(self.proxies, self.cluster, self.oracle.machine):
            self.violate(what)


def simulate_calm(seed: int, hours: float, faults: tuple[str, ...] = ()) -> Outcome:
    """One calm world of a seed."""
    return Calm(seed, hours, faults).run()
