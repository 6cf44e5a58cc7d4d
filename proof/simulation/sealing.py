"""The end of some worlds: the tree moves away, while clients write and things go wrong; then the move is off.

An operator seals the tree. What clients were acknowledged has to be in the log before the seal, and nothing
may be appended behind it: the oracle sees that. Every proxy has to end, also one that was away meanwhile, and
none serves the tree at a start. Then the seal is removed, and the clients continue with their sessions.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol, TypeVar

from cli.output import CommandFailed
from ctl.unseal import unseal
from proof.simulation import seams
from proof.simulation.clients import Client
from proof.simulation.etcd import Cluster
from proof.simulation.fresh_start import fresh_start
from proof.simulation.nemesis import Fault, Nemesis
from proof.simulation.oracle import Oracle
from proof.simulation.proxies import PREFIX, Proxy
from proof.simulation.world import Host, World
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import EtcdError
from proxy.log.record import TreeSealed
from proxy.log.seal import seal
from schema.keys import Keyspace
from schema.record import Seal

T = TypeVar("T")

# Those after which a proxy, or an operator's command, may miss the seal, or be too late for it.
_FAULTS = (
    "kill a proxy",
    "pause a proxy",
    "stop a proxy",
    "hot restart",
    "kill all proxies",
    "cut a proxy from etcd",
    "reset connections",
    "kill a member",
    "new leader",
    "lose answers",
    "lose requests",
    "double requests",
    "end a lease early",
    "compact",
    "break streams",
    "stall a watch",
    "want snapshots",
    "slow network",
    "lag",
)
_WHERE = Seal("http://elsewhere:2379", "/moved", 77, 0)
_KEYS = Keyspace(PREFIX)
LIMIT = 120.0
"""Simulated seconds within which each step has its effect."""
_POLL = 0.5


class Subject(Protocol):
    """The system, as far as a seal needs it."""

    world: World
    cluster: Cluster
    oracle: Oracle
    nemesis: Nemesis
    proxies: list[Proxy]

    def violate(self, what: str) -> None:
        """Record a mistake that no fault explains."""


class Sealing:
    """One seal of the tree, and its end."""

    def __init__(self, subject: Subject, clients: Sequence[Client], faults: Collection[str]) -> None:
        """`clients`: those that write. `faults`: names of those that the world has."""
        self._subject = subject
        self._world = subject.world
        self._clients = clients
        self._fault_names = [name for name in _FAULTS if name in faults]

    def run(self) -> None:
        """Seal, look, and remove the seal."""
        if not self._until(self._all_have_written):
            return self._wrong("clients do not write before the seal")
        rng, world, nemesis = self._world.random("seal"), self._world, self._subject.nemesis
        faults: list[Fault] = []
        for _ in range(rng.choice((0, 1, 1, 2, 3)) if self._fault_names else 0):
            fault = nemesis.begin(rng.choice(self._fault_names))
            faults += [fault] if fault is not None else []
            world.run(world.now + rng.choice((0.01, 0.5, 6.0)) * rng.random())
        operated = self._operate(lambda etcd: seal(etcd, _KEYS, _WHERE))
        world.run(world.now + rng.choice((0.01, 0.5, 6.0, 15.0)) * rng.random())
        for fault in faults:
            world.trace("nemesis", f"end of: {fault.name}")
            fault.end()
        if not self._until(lambda: bool(operated)):
            return self._wrong("the tree is not sealed")
        (position,) = operated
        if isinstance(position, Exception):
            return self._wrong(f"to seal the tree answers {position!r}")
        world.trace("operator", f"the tree is sealed at {position}")
        if not self._until(self._all_have_seen_it):
            for proxy in self._subject.proxies:
                if not has_seen_seal(proxy):
                    self._wrong(f"{proxy.name} has not ended at the seal: {proxy.ended!r}")
            return None
        self._look(position)
        return self._open_again()

    def _look(self, position: int) -> None:
        """A sealed tree: sealed once, and read as of its seal."""
        again = self._operate(lambda etcd: seal(etcd, _KEYS, _WHERE))
        other = self._operate(lambda etcd: seal(etcd, _KEYS, _WHERE._replace(prefix="/other")))
        self._until(lambda: bool(again and other))
        if again != [position]:
            self._wrong(f"sealed at {position}; to seal it again answers {again}")
        if not other or not isinstance(other[0], TreeSealed):
            self._wrong(f"to seal it for another place answers {other}")
        fresh = fresh_start(self._world, self._subject.proxies[0], even_sealed=True)
        if fresh is None:
            self._wrong("a sealed tree cannot be read")
        else:
            self._subject.oracle.compare_bytes("a sealed tree", fresh)
        for proxy in self._subject.proxies:
            for transport in proxy.transports:
                self._wrong(f"{proxy.name} still serves session {transport.session:#x}")

    def _open_again(self) -> None:
        """The move is off."""
        opened = self._operate(lambda etcd: unseal(etcd, _KEYS, None))
        self._until(lambda: bool(opened))
        self._world.trace("operator", "the seal is removed")
        for proxy in self._subject.proxies:
            proxy.start()
        since = self._world.now
        for client in self._clients:
            client.urge()
        if not self._until(lambda: all(client.worked_at > since for client in self._clients)):
            self._wrong("clients do not write after the seal is removed")

    def _operate(self, command: Callable[[EtcdClient], Awaitable[T]]) -> "list[T | Exception]":
        """Run an operator's command until it does not fail by etcd; its result comes into the list."""
        result: list[T | Exception] = []
        operator = Host(self._world, "operator")
        operator.levels = seams.NEXT_LEVELS

        async def run() -> None:
            etcd = self._subject.proxies[0].client(operator)
            while not result:
                try:
                    result.append(await command(etcd))
                except EtcdError as error:
                    self._world.trace("operator", f"tries again: {error}")
                except (TreeSealed, CommandFailed) as error:
                    result.append(error)
            await etcd.close()

        operator.call_soon(lambda: operator.create_task(run()))
        return result

    def _all_have_written(self) -> bool:
        return all(client.worked_at > 0 for client in self._clients)

    def _all_have_seen_it(self) -> bool:
        for proxy in self._subject.proxies:
            if not proxy.alive and not has_seen_seal(proxy):
                proxy.start()
        return all(map(has_seen_seal, self._subject.proxies))

    def _until(self, probe: Callable[[], bool]) -> bool:
        world = self._world
        deadline = world.now + LIMIT
        while not probe():
            if world.now > deadline:
                return False
            if self._subject.cluster.store.full:
                self._subject.cluster.make_space()
            world.run(world.now + _POLL)
        return True

    def _wrong(self, what: str) -> None:
        self._subject.violate(f"seal: {what}")


def has_seen_seal(proxy: Proxy) -> bool:
    """Whether it has ended, or not begun, because of the seal."""
    return not proxy.alive and proxy.ended.startswith(TreeSealed.__name__)
