"""The same faults on three ZooKeepers. Each has the name of the fault of zketcd that it is compared with.

A follower stands for a proxy: it serves clients, and does not decide. The leader stands for etcd's.
"""

import random
from collections.abc import Sequence

from proof.torture.acts import Links, fill, kill, launch, pause, stop, stutter
from proof.torture.cluster import CLIENTS
from proof.torture.ensemble import Ensemble, Server
from proof.torture.maintenance import restart_in_turn
from proof.torture.system import Fault, Kind

# -- who -----------------------------------------------------------------------------------------------------


def _any(ensemble: Ensemble, chance: random.Random) -> Server:
    return chance.choice(ensemble.servers)


def _leader(ensemble: Ensemble) -> Server:
    """The first that lives if there is none."""
    alive = [server for server in ensemble.servers if server.alive]
    return ensemble.leader() or (alive or ensemble.servers)[0]


def _follower(ensemble: Ensemble, chance: random.Random) -> Server:
    return chance.choice(_others(ensemble, _leader(ensemble)))


def _others(ensemble: Ensemble, server: Server) -> list[Server]:
    return [other for other in ensemble.servers if other is not server]


# -- processes -----------------------------------------------------------------------------------------------


def _kill(servers: Sequence[Server]) -> Fault:
    kill(*servers)
    return Fault(", ".join(server.host for server in servers), lambda: launch(*servers))


def _pause(server: Server) -> Fault:
    return Fault(server.host, pause(server))


def _restart(ensemble: Ensemble, chance: random.Random) -> Fault:
    server = _follower(ensemble, chance)
    stop(server)
    return Fault(server.host, lambda: launch(server))


def _rolling_restart(ensemble: Ensemble, chance: random.Random) -> Fault:
    return restart_in_turn(chance.sample(ensemble.servers, len(ensemble.servers)))


def _slow_leader(ensemble: Ensemble, _chance: random.Random) -> Fault:
    leader = _leader(ensemble)
    return Fault(leader.host, stutter(leader))


# -- the network ---------------------------------------------------------------------------------------------


def _links(ensemble: Ensemble, chance: random.Random) -> Links:
    return Links(ensemble.relays, chance)


def _isolate(ensemble: Ensemble, chance: random.Random, server: Server) -> Fault:
    there, back = ensemble.between(server, _others(ensemble, server))
    return _links(ensemble, chance).cut([*there, *back], server.host)


def _one_way(ensemble: Ensemble, chance: random.Random, server: Server) -> Fault:
    return _links(ensemble, chance).one_way(*ensemble.between(server, _others(ensemble, server)), server.host)


def _cut_from_leader(ensemble: Ensemble, chance: random.Random) -> Fault:
    leader = _leader(ensemble)
    follower = chance.choice(_others(ensemble, leader))
    there, back = ensemble.between(follower, [leader])
    return _links(ensemble, chance).cut([*there, *back], f"{follower.host} and {leader.host}")


def _slow(ensemble: Ensemble, chance: random.Random, server: Server) -> Fault:
    there, back = ensemble.between(server, _others(ensemble, server))
    return _links(ensemble, chance).slow([*there, *back], server.host)


def _slow_clients(ensemble: Ensemble, chance: random.Random) -> Fault:
    host = _any(ensemble, chance).host
    return _links(ensemble, chance).slow([(CLIENTS, host), (host, CLIENTS)], host)


def _reset(ensemble: Ensemble, chance: random.Random) -> Fault:
    """Of clients only: zketcd's does not break those between members of etcd, either."""
    return _links(ensemble, chance).reset([(CLIENTS, server.host) for server in ensemble.servers])


# -- hosts ---------------------------------------------------------------------------------------------------


def _full_disk(ensemble: Ensemble, _chance: random.Random) -> Fault:
    leader = _leader(ensemble)
    ballast = fill(leader.data_dir)

    def end() -> None:
        ballast.unlink()
        launch(leader)

    return Fault(leader.host, end, last=True)


KINDS: dict[str, Kind[Ensemble]] = {
    "kill-proxy": Kind(
        "kill -9 of a follower, which is started again",
        lambda ensemble, chance: _kill([_follower(ensemble, chance)]),
    ),
    "pause-proxy": Kind(
        "SIGSTOP and SIGCONT of a follower", lambda ensemble, chance: _pause(_follower(ensemble, chance))
    ),
    "restart-proxy": Kind("SIGTERM of a follower, which is started again", _restart),
    "kill-all-proxies": Kind(
        "kill -9 of all servers at once", lambda ensemble, chance: _kill(ensemble.servers)
    ),
    "kill-leader": Kind("kill -9 of the leader", lambda ensemble, chance: _kill([_leader(ensemble)])),
    "pause-leader": Kind(
        "SIGSTOP and SIGCONT of the leader", lambda ensemble, chance: _pause(_leader(ensemble))
    ),
    "no-majority": Kind(
        "kill -9 of two of the three servers",
        lambda ensemble, chance: _kill(chance.sample(ensemble.servers, 2)),
    ),
    "kill-etcd": Kind("kill -9 of all servers at once", lambda ensemble, chance: _kill(ensemble.servers)),
    "isolate-leader": Kind(
        "the leader and the others do not hear each other",
        lambda ensemble, chance: _isolate(ensemble, chance, _leader(ensemble)),
    ),
    "leader-one-way": Kind(
        "the leader only sends to the others, or only hears them",
        lambda ensemble, chance: _one_way(ensemble, chance, _leader(ensemble)),
    ),
    "cut-etcd": Kind(
        "a follower and the others do not hear each other",
        lambda ensemble, chance: _isolate(ensemble, chance, _follower(ensemble, chance)),
    ),
    "cut-etcd-one-way": Kind(
        "a follower only sends to the others, or only hears them",
        lambda ensemble, chance: _one_way(ensemble, chance, _follower(ensemble, chance)),
    ),
    "cut-member": Kind("a follower and the leader do not hear each other", _cut_from_leader),
    "cut-clients": Kind(
        "clients and a server, one way or both ways",
        lambda ensemble, chance: _links(ensemble, chance).cut_clients(CLIENTS, _any(ensemble, chance).host),
    ),
    "reset-connections": Kind("all connections of clients break, again and again", _reset),
    "slow-etcd-link": Kind(
        "latency or little bandwidth between a follower and the others",
        lambda ensemble, chance: _slow(ensemble, chance, _follower(ensemble, chance)),
    ),
    "slow-peer-links": Kind(
        "latency or little bandwidth between the leader and the others",
        lambda ensemble, chance: _slow(ensemble, chance, _leader(ensemble)),
    ),
    "slow-client-links": Kind("latency or little bandwidth between clients and a server", _slow_clients),
    "slow-leader": Kind("the leader stands still for three quarters of the time", _slow_leader),
    "full-disk": Kind("no room on the disk of the leader", _full_disk),
    "rolling-restart": Kind(
        "SIGTERM of the servers, one after another; each serves again before the next one", _rolling_restart
    ),
    "upgrade": Kind("as rolling-restart: so a ZooKeeper is upgraded", _rolling_restart),
}
"""zketcd's kinds that have a counterpart, by their names, and what that is."""

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
