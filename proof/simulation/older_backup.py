"""The end of some worlds: etcd is restored, as a new cluster, from a backup that lacks the newest writes.

What is lost is lost, so nothing of it may come back, and zxids have to continue above all that clients may
have seen: a client that has seen a lost zxid must not see another state under it. What clients saw before is
judged before; the restored tree is judged here.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from proof.history import History
from proof.simulation.clients import Client
from proof.simulation.etcd import Cluster
from proof.simulation.fresh_start import fresh_start
from proof.simulation.oracle import pages_of
from proof.simulation.proxies import Proxy
from proof.simulation.world import Host
from proxy.state.machine import Machine

_LIMIT = 120.0  # seconds until all proxies serve the restored tree, and clients have written to it
_POLL = 0.5
_CLIENTS = 3
_TIMEOUT_MS = 4_000


class OlderBackup:
    """One backup, and the restore from it."""

    def __init__(self, cluster: Cluster, machine: Machine) -> None:
        """Make the backup now. `machine`: the state that the log gives."""
        self._cluster = cluster
        self._data: Any = cluster.store.backup()
        self.zxid = machine.zxid

    def restore(self, proxies: Sequence[Proxy], clients_host: Host, seen: int) -> list[str]:
        """Restore it, and let new clients write; returns what is wrong. `seen`: the newest zxid so far."""
        cluster, world = self._cluster, self._cluster.world
        world.trace("operator", f"restores a backup of zxid {self.zxid:#x}; the newest is {seen:#x}")
        cluster.restore()
        cluster.store.restore(self._data)
        for member in cluster.members:
            cluster.start(member)
        history = History()
        clients = [
            Client(world, clients_host, f"restored{number}", proxies, history, _TIMEOUT_MS)
            for number in range(_CLIENTS)
        ]
        for client in clients:
            clients_host.create_task(client.run(), name=client.name)
            client.urge()
        began = world.now
        if not self._until(lambda: not _what_lacks(proxies, clients, began)):
            lacks = _what_lacks(proxies, clients, began)
            return [f"within {_LIMIT:.0f} s after the restore of an older backup: {lacks}"]
        for client in clients:
            client.stopped = True
        loaded: list[Machine | None] = []

        def level() -> bool:
            """Sessions of the backup end meanwhile, so it may take several looks."""
            loaded[:] = [fresh_start(world, proxies[0])]
            return all(loaded[0] and _entries(proxy) == loaded[0].entries for proxy in proxies)

        if not self._until(level) or loaded[0] is None:
            return ["after the restore of an older backup proxies and a fresh start do not come to one state"]
        return [*self._judged(loaded[0], seen), *_differences(proxies, loaded[0])]

    def _judged(self, machine: Machine, seen: int) -> Iterator[str]:
        """What is wrong with the state of all proxies after the restore."""
        if machine.zxid >> 32 <= seen >> 32:
            yield f"after a restore zxids continue at {machine.zxid:#x}; clients may have seen {seen:#x}"
        for path, node in machine.tree.nodes.items():
            back = [zxid for zxid in (node.czxid, node.mzxid, node.pzxid) if self.zxid < zxid <= seen]
            if back:
                yield f"{path} has zxid {back[0]:#x}, which the backup lacks"

    def _until(self, probe: Callable[[], bool]) -> bool:
        world = self._cluster.world
        deadline = world.now + _LIMIT
        while not probe():
            if world.now > deadline:
                return False
            world.run(world.now + _POLL)
        return True


def _what_lacks(proxies: Sequence[Proxy], clients: Sequence[Client], since: float) -> str:
    for proxy in proxies:
        if not proxy.alive:
            return f"{proxy.name} has ended: {proxy.ended}"
        if not proxy.serving or proxy.server is None or not proxy.server.log.contact().in_touch:
            return f"{proxy.name} does not serve"
    for client in clients:
        if client.worked_at < since:
            return f"{client.name} has not written"
    return ""


def _entries(proxy: Proxy) -> int:
    """How many entries the proxy has applied; -1 while it sends some."""
    if proxy.server is None or proxy.server.log.outbox.outstanding:
        return -1
    return proxy.server.machine.entries


def _differences(proxies: Sequence[Proxy], machine: Machine) -> Iterator[str]:
    expected = pages_of(machine)
    for proxy in proxies:
        if proxy.server is not None and pages_of(proxy.server.machine) != expected:
            yield f"after a restore the state of {proxy.name} is not that of a fresh start"
