"""One world of a seed in which a tree follows a ZooKeeper, is cut over, and is followed by ZooKeeper's files.

Half of the time the tree follows: proxies stand by and serve no client. Then the ZooKeeper is stopped, and an
operator asks for the cut-over. From there on it is a stormy world (`simulation`) whose tree is not empty, and
in which a process keeps a data directory level with the tree. Faults come at all times.
"""

import asyncio
import tempfile
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from typing_extensions import override

from pipeline.follow import inward, outward
from pipeline.follow.base import load_base
from proof.simulation.following import seams, zk_format
from proof.simulation.following.faults import FollowFaults
from proof.simulation.following.followers import Ended, Service
from proof.simulation.following.judge import Judge
from proof.simulation.following.source import Source
from proof.simulation.following.zk_format import Node
from proof.simulation.knobs import Knobs
from proof.simulation.outcome import Outcome
from proof.simulation.simulation import Simulation
from proof.simulation.world import Host
from proxy.etcd.client import EtcdClient
from proxy.state.machine import Machine
from schema.keys import Keyspace

_SHARE = 0.5  # of the time, in which the tree follows
_LIMIT = 240.0  # seconds from the end of faults until the follower is level: one request may take 60
_POLL = 0.5
_NEVER = 2.0  # of the share of the time
_PATH = 100  # characters of the folder's name, which etcd holds: some faults depend on its size
#: Faults that need a serving proxy, or its snapshots and leases.
_OF_SERVING = frozenset(
    {
        "stop a proxy",
        "hot restart",
        "cut clients from a proxy",
        "reset connections",
        "lose keep-alives",
        "end a lease early",
        "end leases late",
        "stall a watch",
        "kill snapshot writers",
        "want snapshots",
        "damage a snapshot",
        "client dies",
        "read slowly",
        "memory",
        "load anew",
        "end a proxy in a gap",
        "load anew in a long write",
    }
)


class Follow(Simulation):
    """One such world."""

    kind = "follow"

    def __init__(self, seed: int, hours: float, kinds: tuple[str, ...], folder: Path) -> None:
        """`kinds`: the only faults there are; else all. `folder`: an empty one."""
        super().__init__(seed, hours, kinds)
        rng = self.world.random("following")
        self.keeps = rng.random() < 0.5  # sessions, at the cut-over
        self.source = Source(self.world, folder / "source")
        self.judge = Judge(self.source, self.cluster.store, self.violate, keeps=self.keeps)
        self.judge.on_begin = self._begun
        self._rng = rng
        self._folder = folder
        self._services: list[Service] = []
        faults = FollowFaults(self.cluster, self.network, lambda: self._services)
        self.nemesis.add(faults.kinds)
        self._all_kinds = kinds or tuple(self.nemesis.kinds)
        self._kinds = tuple(kind for kind in self._all_kinds if kind not in _OF_SERVING) or ("compact",)
        self._kept: dict[int, int] = {}
        self._cut_over_at = 0.0
        self._stopped = False

    @override
    def _drawn(self, rng: Random) -> Knobs:
        """Without a next release: files cannot have the start of a session that spends two zxids."""
        return super()._drawn(rng)._replace(upgrade=_NEVER)

    # -- processes -------------------------------------------------------------------------------------------

    async def _follow(self, etcd: EtcdClient, keys: Keyspace) -> int:
        return await inward.follow(etcd, keys, inward.Options(str(self._folder / "source")))

    async def _finish(self, etcd: EtcdClient, keys: Keyspace) -> int:
        options = inward.Options(
            str(self._folder / "source"), finish=True, keep_sessions=self.keeps, zxid=self.source.zxid
        )
        return await inward.follow(etcd, keys, options)

    async def _mirror(self, etcd: EtcdClient, keys: Keyspace) -> int:
        return await outward.mirror(etcd, keys, outward.Options(str(self._folder / "back")))

    def _service(self, name: str, command: Any, *, may_overlap: bool = True) -> Service:
        service = Service(self.cluster, name, command, partial(self._ended, name), may_overlap=may_overlap)
        self._services.append(service)
        return service

    def _ended(self, name: str, _process: str, ended: Ended) -> None:
        """A process of a command has ended without a fault."""
        said = f"ends: {self._plain(repr(ended.error or ended.code))}"
        self.world.trace(name, said)
        if not (ended.is_expected or self.judge.finished):
            self.violate(f"{name} {said}")
        if ended.error is None and not self.judge.finished:
            self.violate(f"{name} is done, and the tree is not complete")

    def _plain(self, text: str) -> str:
        """Without what differs from run to run."""
        return text.replace(str(self._folder), "FOLDER")

    def said(self, who: str, text: str) -> None:
        """A command prints something."""
        self.world.trace(who, self._plain(text))

    # -- observers -------------------------------------------------------------------------------------------

    def _begun(self, zxid: int) -> None:
        """The first snapshot is in etcd: from here on the oracle has a tree. The judge compares that."""
        cluster_id = self.cluster.store.cluster_id
        self.oracle.begin(load_base(str(self._folder / "source"), None, cluster_id, zxid))

    @override
    def _committed(self, _revision: int, events: list[Any]) -> None:
        before = self.judge.finished
        self.judge.committed(events)
        super()._committed(_revision, events)
        if not before:
            for proxy in self.proxies:
                if proxy.serving or proxy.transports:
                    self.violate(f"{proxy.name} serves clients, and the tree is not complete")
            if self.judge.finished:
                self._completed()

    def _completed(self) -> None:
        """The cut-over. What is judged from here on continues from the source's tree."""
        self.world.trace("judge", f"the tree is complete at {self.source.zxid:#x}")
        self.naive.model = self.source.model
        self._cut_over_at = self.world.now
        self._kept = dict(self.source.moments[self.source.zxid].sessions)
        for service in self._services:
            service.is_wanted = False

    @override
    def _applied(self, machine: Machine) -> None:
        host = asyncio.get_running_loop()
        assert isinstance(host, Host)
        if machine is self.oracle.machine:
            return
        if host.name in ("follower", "finisher"):
            # It has applied what it is about to append. The cut-over's zxid is none of the source's yet.
            if machine.zxid & 0xFFFFFFFF:
                self.judge.applied(host.name, machine)
            return
        if not self.judge.finished:
            self.judge.applied(host.name, machine)
        super()._applied(machine)

    @override
    def _expired(self, session: int, holder: str) -> None:
        timeout = self._kept.pop(session, 0) / 1000
        if self.world.now - self._cut_over_at < timeout * 0.999:
            self.violate(
                f"session {session:#x} of the source ends {self.world.now - self._cut_over_at:.3f} s after"
                f" the cut-over; its timeout is {timeout:.3f} s"
            )
        super()._expired(session, holder)

    # -- the run ---------------------------------------------------------------------------------------------

    @override
    def _run(self) -> None:
        world = self.world
        end = world.now + self._hours * 3600
        self.source.start()
        follower = self._service("follower", self._follow)
        for _ in range(self._rng.choice((0, 1, 3))):
            world.run(world.now + self._rng.expovariate(1 / 0.05))
            follower.kill()
        self.recover("the start")
        until = world.now + _SHARE * (end - world.now)
        while world.now < until and not self.broken:
            world.run(min(until, world.now + self._rng.expovariate(1 / 10)))
            self._episode()
        if not self.broken:
            self._cut_over()
        if not self.broken:
            self._serve(end)

    def _cut_over(self) -> None:
        """The source is stopped, and an operator asks for the cut-over, during faults."""
        self.world.trace("operator", "the source is stopped")
        self.source.stop()
        self._stopped = True
        self._service("finisher", self._finish)
        self._episode()

    def _serve(self, end: float) -> None:
        """As any stormy world."""
        self._services.clear()
        mirror = self._service("mirror", self._mirror, may_overlap=False)
        self._kinds = tuple(kind for kind in self._all_kinds if "two" not in kind) or ("compact",)
        self._make_spare()
        self._live(end)
        if not self.broken:
            self._settle()
        if not self.broken:
            self.answers.judge(self.history, self._writes(), self.expiry)
        if not self.broken:
            self._judge_files()
        mirror.kill()

    @override
    def recover(self, after: str) -> None:
        if not self._is_served():
            self._level_again(after)
        if self._is_served():
            super().recover(after)
            self._read_files()

    def _is_served(self) -> bool:
        """Whether proxies may serve the tree."""
        return self.judge.finished

    def _level_again(self, after: str) -> None:
        """Wait until the tree is level with the source, or complete if that is stopped."""
        world, zxid = self.world, self.source.zxid
        begun = world.now
        while (lacks := self._lacks(zxid)) and not self.broken and not self._is_served():
            if world.now - begun > _LIMIT:
                self.violate(f"not level within {_LIMIT:.0f} s after {after}: {lacks}")
                return
            if self.judge.follows:
                self.start_ended()
            world.run(world.now + _POLL)
        self.recoveries.append(world.now - begun)

    def _lacks(self, zxid: int) -> str:
        """What is not as it has to be while the tree follows, and there is no fault."""
        if self._stopped:
            return "the tree is not complete"
        if self.judge.zxid < zxid or not self.judge.follows:
            return f"the tree is at {self.judge.zxid:#x}, and the source was at {zxid:#x}"
        if len(self._services[0].living) != 1:
            return f"{len(self._services[0].living)} followers run"
        for proxy in self.proxies:
            if not proxy.alive or self.judge.reached.get(proxy.name, 0) < zxid:
                return f"{proxy.name} does not stand by"
        return ""

    def _read_files(self) -> zk_format.Tree | None:
        """What the data directory holds now, as another reader of such files finds it."""
        try:
            return zk_format.read(self._folder / "back" / "version-2")
        except zk_format.Broken as error:
            self.violate(f"the data directory: {error}")
            return None

    def _judge_files(self) -> None:
        """At rest the data directory must hold the tree."""
        world, machine = self.world, self.oracle.machine
        deadline = world.now + _LIMIT
        found = None
        while found is None or found.zxid != machine.zxid:
            if world.now > deadline or self.broken:
                self.violate(f"the data directory is not at {machine.zxid:#x}, where the tree is")
                return
            world.run(world.now + _POLL)
            found = self._read_files()
        expected = {path: Node(*node.fields()) for path, node in machine.tree.nodes.items()}
        for path, node in expected.items():
            if path.endswith(zk_format.COUNTED) and path in found.nodes:
                found.nodes[path] = found.nodes[path]._replace(data=node.data)
        for difference in zk_format.differences("the data directory", found.nodes, expected):
            self.violate(difference)
        sessions = {session.id: session.timeout_ms for session in machine.sessions.values()}
        if found.sessions != sessions:
            self.violate(f"the data directory has the sessions {found.sessions}, and not {sessions}")

    @override
    def _end(self) -> None:
        for service in self._services:
            service.is_wanted = False
            service.kill()
        self.source.host.kill()
        super()._end()


def simulate_follow(seed: int, hours: float, kinds: tuple[str, ...] = ()) -> Outcome:
    """One such world of a seed."""
    with tempfile.TemporaryDirectory(prefix="follow-") as folder:
        path = Path(folder) / ("x" * max(1, _PATH - len(folder)))
        path.mkdir()
        world = Follow(seed, hours, kinds, path)
        rng: Random = world.world.random("settings of followers")
        checkpoint, piece = rng.choice((4_000, 40_000, 64 << 20)), rng.choice((1, 10, 1000))
        with seams.installed(world.said, checkpoint, piece):
            return world.run()
