"""The end of worlds whose tree has not moved: the source is lost, and the copy is served without it.

The operator's command completes the copy, amid faults, while clients may still write to the source. When the
source is back, the command seals it. Nothing of both trees is common any more, so each has an oracle. What
`lost` lists, replayed on the tree that the copy had then, has to give the source's last tree.
"""

import json
from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple, Protocol

from pipeline.errors import Failure
from pipeline.follow.from_etcd import InEtcd
from pipeline.follow.lost import list_lost
from pipeline.follow.options import Options
from pipeline.follow.retrying import retrying
from proof.history import History
from proof.history.records import Create, Delete, Multi, Reply, Request, SetData
from proof.simulation import seams
from proof.simulation.clients import Client
from proof.simulation.copies import QUOTAS, CopyJudge, Znode
from proof.simulation.etcd import Cluster
from proof.simulation.exactly_once import settled
from proof.simulation.followers import SOURCE, Follower, Promoter
from proof.simulation.fresh_start import fresh_start
from proof.simulation.nemesis import Fault
from proof.simulation.network import Network
from proof.simulation.oracle import Oracle, Step
from proof.simulation.proxies import PREFIX, Proxy, client_of
from proof.simulation.sealing import has_seen_seal
from proof.simulation.world import Host, World
from proxy.etcd.model import EtcdError, Get
from proxy.state.feed import WORDS
from proxy.state.recording import What
from schema.keys import Keyspace

LIMIT = 120.0  # seconds
_POLL = 0.5
_CLIENTS = 3
_TIMEOUT_MS = 6_000
_ON_ITS_WAY = 0.05  # seconds, of an answer
_THINK = 0.1  # seconds: something is being written whenever something happens
#: Faults of the source; those of the copy and of followers come besides.
_FAULTS = (
    "kill a proxy",
    "pause a proxy",
    "hot restart",
    "kill all proxies",
    "cut a proxy from etcd",
    "reset connections",
    "kill a member",
    "no majority",
    "new leader",
    "lose answers",
    "lose requests",
    "double requests",
    "end a lease early",
    "break streams",
    "stall a watch",
    "lag",
)
_CREATED, _DELETED, _SET, _ACL = (WORDS[what] for what in (What.CREATED, What.DELETED, What.DATA, What.ACL))


class Sides(Protocol):
    """The world: proxies and clients at the source, and the copy."""

    world: World
    network: Network
    cluster: Cluster
    copy_cluster: Cluster
    oracle: Oracle
    proxies: list[Proxy]
    others: list[Proxy]
    clients_host: Host
    copy: CopyJudge
    commands: list[Follower]
    dead_clients: list[Client]

    def violate(self, what: str) -> None:
        """Record a mistake that no fault explains."""

    def source_client(self) -> Client:
        """A new client that knows only the source's servers."""

    def begin_fault_of(self, name: str) -> Fault | None:
        """Begin a fault of the source, the copy or a follower."""


class _Written(NamedTuple):
    """An acknowledged write to the source."""

    zxid: int
    request: Request


class Losing:
    """One loss of the source."""

    def __init__(self, sides: Sides, faults: tuple[str, ...]) -> None:
        """`faults`: names of those that the world has."""
        self._sides = sides
        self._world = sides.world
        self._random = sides.world.random("the source is lost")
        self._fault_names = [name for name in faults if name in _FAULTS or ":" in name or "follower" in name]
        self._promoter = Promoter("promoter", sides.cluster, sides.copy_cluster, Options())
        self._within = self._random.choice((0, 5, 8, 12))  # --standby-within of the source
        self._served_at = inf  # the copy
        self._acknowledged: list[_Written] = []  # at the source
        self._history = History()  # of the copy's clients
        self._copys: list[Client] = []
        #: Of the copy, once it is served.
        self.oracle: Oracle | None = None

    def run(self) -> None:
        """Lose the source, and take it back."""
        sides, rng, world = self._sides, self._random, self._world
        clients = [sides.source_client() for _ in range(_CLIENTS)]
        for client in clients:
            client.think = _THINK
        if self._within:
            self._need_the_standby()
        if not self._until(lambda: all(client.worked_at > 0 for client in clients)):
            return self._wrong("clients do not write to the source")
        if not self._until(self._is_in_force):
            return self._wrong("no follower signs")
        self._begin_copys()
        snapshot = self._newest_snapshot()
        link = self._cut_link() if rng.random() < 0.7 else None
        faults = self._some_faults()
        sides.commands.append(self._promoter)
        self._promoter.start()
        world.run(world.now + rng.choice((0.01, 0.5, 6.0, 30.0)) * rng.random())
        faults += self._some_faults()
        world.run(world.now + rng.choice((0.01, 0.5, 6.0)) * rng.random())
        rng.shuffle(faults)
        for fault in faults:
            world.trace("nemesis", f"end of: {fault.name}")
            fault.end()
            world.run(world.now + rng.choice((0.0, 0.1, 1.0)) * rng.random())
        if link is not None:
            world.run(world.now + rng.choice((0.1, 6.0, 40.0)) * rng.random())
            world.trace("nemesis", "mends the link")
            link.end()
        if not self._until(lambda: self._promoter.is_done):
            return self._wrong(f"the source is not sealed: {self._promoter.ended or 'the command runs'}")
        if not self._until(lambda: all(map(has_seen_seal, sides.proxies))):
            return self._wrong(f"servers of the source live on: {[each.ended for each in sides.proxies]}")
        since = world.now
        for client in self._copys:
            client.urge()
        if not self._until(lambda: all(client.worked_at > since for client in self._copys)):
            return self._wrong("clients do not write to the copy")
        for client in (*clients, *self._copys):
            client.stopped = True
        self._sides.dead_clients += clients
        self._judge_copy()
        return self._judge_lost(truncated=self._newest_snapshot() != snapshot)

    # -- what goes on ----------------------------------------------------------------------------------------

    def _begin_copys(self) -> None:
        """Servers and clients of the copy, which wait until it is complete."""
        sides = self._sides
        for proxy in sides.others:
            proxy.start()
        for number in range(_CLIENTS):
            name = f"south{number}"
            client = Client(self._world, sides.clients_host, name, sides.others, self._history, _TIMEOUT_MS)
            client.think = _THINK
            client.on_reply = self._replied
            sides.clients_host.create_task(client.run(), name=name)
            self._copys.append(client)

    def _need_the_standby(self) -> None:
        """From now on the source's servers serve only while a follower lives."""
        for follower in self._sides.commands:
            follower.options = follower.options._replace(standby_within=self._within)
            follower.kill()  # the supervisor starts one
        for proxy in self._sides.proxies:
            proxy.restart_with(standby_within=self._within)

    def _is_in_force(self) -> bool:
        """Whether a follower has signed, and whoever gives the source up waits. Until then all serve."""
        return not self._within or bool(
            self._sides.copy_cluster.store.range(Get(Keyspace(PREFIX).within)).kvs
        )

    def _some_faults(self) -> list[Fault]:
        rng, world = self._random, self._world
        faults = []
        for _ in range(rng.choice((0, 1, 1, 2, 3)) if self._fault_names else 0):
            fault = self._sides.begin_fault_of(rng.choice(self._fault_names))
            faults += [fault] if fault is not None else []
            world.run(world.now + rng.choice((0.01, 0.5, 6.0)) * rng.random())
        return faults

    def _cut_link(self) -> Fault:
        """Nothing gets from one region to the other."""
        network = self._sides.network
        members = [member.name for member in self._sides.cluster.members]
        here = [follower.name for follower in (*self._sides.commands, self._promoter)]
        pairs = [pair for a in here for b in members for pair in ((a, b), (b, a))]
        network.cut(pairs)
        self._world.trace("nemesis", "cuts the link between the regions")
        return Fault("the link", "", lambda: network.mend(pairs))

    def _until(self, probe: Callable[[], bool]) -> bool:
        """Wait for something, while whatever has ended is started again."""
        world = self._world
        deadline = world.now + LIMIT
        while not probe():
            if world.now > deadline:
                return False
            for proxy in self._sides.proxies:
                if not proxy.alive and not has_seen_seal(proxy):
                    proxy.start()
            for proxy in self._sides.others:
                if not proxy.alive:
                    proxy.start()
            if self._promoter in self._sides.commands and not (
                self._promoter.alive or self._promoter.is_done
            ):
                self._promoter.start()
            world.run(world.now + _POLL)
        return True

    # -- what is seen ----------------------------------------------------------------------------------------

    def acknowledged(self, client: Client, request: Request, answer: Reply) -> None:
        """A client of the source got an answer."""
        failed = answer.error or any(part.error for part in answer.parts or ())
        if not failed and isinstance(request, Create | Delete | SetData | Multi):
            self._acknowledged.append(_Written(answer.zxid or 0, request))
            if self._within and client.came_at > self._served_at + _ON_ITS_WAY:
                self._wrong(
                    f"{request!r} is acknowledged {client.came_at - self._served_at:.2f} s after the copy is"
                    f" served, with --standby-within {self._within}"
                )

    def promoted(self) -> None:
        """The copy is complete."""
        copy = self._sides.copy
        assert copy.machine is not None
        self._served_at = self._world.now
        self._world.trace("world", f"the copy is served from zxid {copy.machine.zxid:#x} on")
        self.oracle = oracle = Oracle(self._world, copy.machine.cluster_id, self._wrong)
        nothing = Step("", 0, 0, 0)
        oracle.steps = [copy.steps.get(count + 1, nothing) for count in range(copy.machine.entries)]
        oracle.begin(copy.machine)

    def _replied(self, session: int, request: Request, answer: Reply) -> None:
        """A client of the copy got an answer: an acknowledged write is in the copy's log."""
        failed = answer.error or any(part.error for part in answer.parts or ())
        if failed or not isinstance(request, Create | Delete | SetData | Multi):
            return
        done = None if self.oracle is None else self.oracle.done.get(answer.zxid or 0)
        if done is None or done.session != session or done.error:
            self._wrong(
                f"the copy has acknowledged {request!r} at zxid {answer.zxid or 0:#x}; its log has {done}"
            )

    # -- the judgement ---------------------------------------------------------------------------------------

    def _judge_copy(self) -> None:
        """All servers of the copy, and one that starts now, have what the copy's log says."""
        oracle, others = self.oracle, self._sides.others
        assert oracle is not None

        def level() -> bool:
            return all(
                proxy.server is not None
                and proxy.server.machine.entries == oracle.machine.entries
                and proxy.server.log.applier.worker.done
                and not proxy.server.log.outbox.outstanding
                for proxy in others
            )

        if not self._until(level):
            return self._wrong("the copy's servers do not come to one state")
        for proxy in others:
            assert proxy.server is not None
            oracle.compare_bytes(proxy.name, proxy.server.machine)
        fresh = fresh_start(self._world, others[0])
        if fresh is None:
            return self._wrong("the copy cannot be loaded")
        if fresh.entries == oracle.machine.entries:  # sessions may end between the two looks
            oracle.compare_bytes("a fresh start of the copy", fresh)
        settled(self._history, oracle.writes, self._wrong, oracle.ends)
        return None

    def _judge_lost(self, *, truncated: bool) -> None:
        """The list, applied to the tree that the copy had, gives the source's."""
        listed = self._listed()
        if isinstance(listed, str):
            if not truncated:
                self._wrong(f"what is lost is not listed: {listed}")
            return None
        at = self._sides.copy.lost_at
        assert at is not None
        zxids = {line["zxid"] for line in listed}
        for written in self._acknowledged:
            if written.zxid > at.zxid and written.zxid not in zxids and _writes(written.request):
                return self._wrong(f"{written} was acknowledged, is not in the copy, and is not listed")
        tree = dict(at.nodes)
        before = at.zxid
        for line in listed:
            if line["zxid"] < before or line["zxid"] <= at.zxid:
                return self._wrong(f"{line} is listed after zxid {before:#x}; the copy has {at.zxid:#x}")
            before = line["zxid"]
            if not _apply(tree, line):
                return self._wrong(f"{line} is listed, and does not follow from what is before it")
        right = {path: Znode.of(node) for path, node in self._sides.oracle.machine.tree.nodes.items()}
        paths = [path for path in sorted({*tree, *right}) if tree.get(path) != right.get(path)]
        if any(not path.startswith(QUOTAS) for path in paths):  # what these count is no client's change
            return self._wrong(f"with what is listed as lost the tree is not the source's: {paths[:5]}")
        self._world.trace("world", f"{len(listed)} changes are listed as lost")
        return None

    def _listed(self) -> list[dict[str, Any]] | str:
        """What the command lists; or why it does not."""
        sides, lines = self._sides, list[str]()
        ended: list[str] = []
        operator = Host(self._world, "operator")
        operator.levels = seams.NEXT_LEVELS

        async def run() -> None:
            source, etcd = (client_of(each, operator) for each in (sides.cluster, sides.copy_cluster))
            keys = Keyspace(PREFIX)
            try:
                await list_lost(InEtcd(SOURCE, retrying(source), keys), retrying(etcd), keys, lines.append)
                ended.append("")
            except (Failure, EtcdError) as error:
                ended.append(str(error))

        operator.call_soon(lambda: operator.create_task(run()))
        done = self._until(lambda: bool(ended))
        operator.kill()
        if not done or ended[0]:
            return ended[0] if done else "the command does not end"
        return [json.loads(line) for line in lines]

    def _newest_snapshot(self) -> str:
        record = next((p.server.log.status().record for p in self._sides.proxies if p.server), None)
        return "" if record is None or record.current is None else record.current.name

    def _wrong(self, what: str) -> None:
        self._sides.violate(f"a lost source: {what}")


def _writes(request: Request) -> bool:
    """Whether it changes anything: a multi may only check."""
    return not isinstance(request, Multi) or any(
        isinstance(p, Create | Delete | SetData) for p in request.parts
    )


def _apply(tree: dict[str, Znode], line: dict[str, Any]) -> bool:
    """Whether a line follows from the tree, to which it is applied."""
    path, change = line["path"], line["change"]
    before, after = line["version_before"], line["version_after"]
    node = tree.get(path)
    if change == _CREATED:
        tree[path] = Znode(line["data"], line["data_base64"], after, line["acl"], 0, line["ephemeral"])
        return (node, before) == (None, None)
    if node is None:
        return False
    if change == _DELETED:
        del tree[path]
        return bool(node.version == before)
    if change == _SET:
        tree[path] = node._replace(text=line["data"], data=line["data_base64"], version=after)
        return bool(node.version == before)
    tree[path] = node._replace(acl=line["acl"], aversion=after)
    return (change, before) == (_ACL, node.aversion)
