"""The same faults on three ZooKeepers. Each has the name of the fault of zketcd that it is compared with.

A follower stands for a proxy: it serves clients, and does not decide. The leader stands for etcd's.
"""

import random
from collections.abc import Callable

from proof.torture.acts import Links, fill, kill, launch, pause, stop, stutter
from proof.torture.cluster import CLIENTS
from proof.torture.ensemble import Ensemble, Server
from proof.torture.maintenance import restart_in_turn
from proof.torture.system import Fault

KINDS = {
    "kill-proxy": "kill -9 of a follower, which is started again",
    "pause-proxy": "SIGSTOP and SIGCONT of a follower",
    "restart-proxy": "SIGTERM of a follower, which is started again",
    "kill-all-proxies": "kill -9 of all servers at once",
    "kill-leader": "kill -9 of the leader",
    "pause-leader": "SIGSTOP and SIGCONT of the leader",
    "no-majority": "kill -9 of two of the three servers",
    "kill-etcd": "kill -9 of all servers at once",
    "isolate-leader": "the leader and the others do not hear each other",
    "leader-one-way": "the leader only sends to the others, or only hears them",
    "cut-etcd": "a follower and the others do not hear each other",
    "cut-etcd-one-way": "a follower only sends to the others, or only hears them",
    "cut-member": "a follower and the leader do not hear each other",
    "cut-clients": "clients and a server, one way or both ways",
    "reset-connections": "all connections of clients break, again and again",
    "slow-etcd-link": "latency or little bandwidth between a follower and the others",
    "slow-peer-links": "latency or little bandwidth between the leader and the others",
    "slow-client-links": "latency or little bandwidth between clients and a server",
    "slow-leader": "the leader stands still for three quarters of the time",
    "full-disk": "no room on the disk of the leader",
    "rolling-restart": "SIGTERM of the servers, one after another; each serves again before the next one",
    "upgrade": "as rolling-restart: so a ZooKeeper is upgraded",
}
"""zketcd's kinds that have a counterpart, and what that is."""

NONE = {
    "no-space": "ZooKeeper has no quota of its storage",
    "compaction": "ZooKeeper has no history that is compacted",
    "clock-jumps": "the waits of a JVM under libfaketime are wrong: servers do not find a leader",
    "certificates": "the servers run without TLS",
    "password": "the servers do not ask each other for passwords",
    "defrag": "ZooKeeper has nothing to defragment",
    "move-leader": "ZooKeeper 3.9 has no command for it",
    "replace-member": "it would be a reconfiguration, which the run does not make",
    "add-member": "it would be a reconfiguration, which the run does not make",
    "restore": "an ensemble is not restored while clients keep their sessions",
    "failed-upgrade": "a ZooKeeper does not hand its connections over to a new process",
}
"""zketcd's kinds without a counterpart, and why."""


class EnsembleFaults:
    """All kinds of faults, on one ensemble."""

    def __init__(self, ensemble: Ensemble, chance: random.Random) -> None:
        self._ensemble = ensemble
        self._random = chance
        self._links = Links(ensemble.relays, chance)
        self._begin: dict[str, Callable[[], Fault]] = {
            "kill-proxy": lambda: self._kill([self._follower()]),
            "pause-proxy": lambda: self._pause(self._follower()),
            "restart-proxy": self._restart,
            "kill-all-proxies": lambda: self._kill(self._servers),
            "kill-leader": lambda: self._kill([self._leader()]),
            "pause-leader": lambda: self._pause(self._leader()),
            "no-majority": lambda: self._kill(self._random.sample(self._servers, 2)),
            "kill-etcd": lambda: self._kill(self._servers),
            "isolate-leader": lambda: self._isolate(self._leader()),
            "leader-one-way": lambda: self._one_way(self._leader()),
            "cut-etcd": lambda: self._isolate(self._follower()),
            "cut-etcd-one-way": lambda: self._one_way(self._follower()),
            "cut-member": self._cut_from_leader,
            "cut-clients": lambda: self._links.cut_clients(CLIENTS, self._any().host),
            "reset-connections": self._reset,
            "slow-etcd-link": lambda: self._slow(self._follower()),
            "slow-peer-links": lambda: self._slow(self._leader()),
            "slow-client-links": self._slow_clients,
            "slow-leader": self._slow_leader,
            "full-disk": self._full_disk,
            "rolling-restart": self._rolling_restart,
            "upgrade": self._rolling_restart,
        }

    def begin(self, name: str) -> Fault:
        """Make one fault, by the name of zketcd's."""
        return self._begin[name]()

    # -- who -------------------------------------------------------------------------------------------------

    @property
    def _servers(self) -> list[Server]:
        return self._ensemble.servers

    def _any(self) -> Server:
        return self._random.choice(self._servers)

    def _leader(self) -> Server:
        """The first that lives if there is none."""
        alive = [server for server in self._servers if server.alive]
        return self._ensemble.leader() or (alive or self._servers)[0]

    def _follower(self) -> Server:
        return self._random.choice(self._others(self._leader()))

    def _others(self, server: Server) -> list[Server]:
        return [other for other in self._servers if other is not server]

    # -- processes -------------------------------------------------------------------------------------------

    def _kill(self, servers: list[Server]) -> Fault:
        kill(*servers)
        return Fault(", ".join(server.host for server in servers), lambda: launch(*servers))

    def _pause(self, server: Server) -> Fault:
        return Fault(server.host, pause(server))

    def _restart(self) -> Fault:
        server = self._follower()
        stop(server)
        return Fault(server.host, lambda: launch(server))

    def _rolling_restart(self) -> Fault:
        servers = list(self._servers)
        self._random.shuffle(servers)
        what, end = restart_in_turn(servers)
        return Fault(what, end, last=True)

    def _slow_leader(self) -> Fault:
        leader = self._leader()
        return Fault(leader.host, stutter(leader))

    # -- the network -----------------------------------------------------------------------------------------

    def _isolate(self, server: Server) -> Fault:
        there, back = self._ensemble.between(server, self._others(server))
        return self._links.cut([*there, *back], server.host)

    def _one_way(self, server: Server) -> Fault:
        return self._links.one_way(*self._ensemble.between(server, self._others(server)), server.host)

    def _cut_from_leader(self) -> Fault:
        leader = self._leader()
        follower = self._random.choice(self._others(leader))
        there, back = self._ensemble.between(follower, [leader])
        return self._links.cut([*there, *back], f"{follower.host} and {leader.host}")

    def _slow(self, server: Server) -> Fault:
        there, back = self._ensemble.between(server, self._others(server))
        return self._links.slow([*there, *back], server.host)

    def _slow_clients(self) -> Fault:
        host = self._any().host
        return self._links.slow([(CLIENTS, host), (host, CLIENTS)], host)

    def _reset(self) -> Fault:
        """Of clients only: zketcd's does not break those between members of etcd, either."""
        return self._links.reset([(CLIENTS, server.host) for server in self._servers])

    # -- hosts -----------------------------------------------------------------------------------------------

    def _full_disk(self) -> Fault:
        leader = self._leader()
        ballast = fill(leader.data_dir)

        def end() -> None:
            ballast.unlink()
            launch(leader)

        return Fault(leader.host, end, last=True)
