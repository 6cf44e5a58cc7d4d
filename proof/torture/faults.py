"""The faults: what each does to real processes and links, and how it is undone.

A fault's function runs in a thread, since it may wait for a process; it draws from the seed's randomness
only, and returns what undoes it. KINDS has them all.
"""

import http.client
import json
import random
import subprocess
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from lab.servers.operator import compact, etcdctl
from lab.servers.relay import Way
from proof.torture import maintenance
from proof.torture.acts import Fault, Links, every, fill, kill, launch, pause, stop, stutter
from proof.torture.cluster import CLIENTS, Cluster, Member, TorturedProxy
from proof.torture.host import Abilities
from proof.torture.maintenance import Kind

_JUNK = "x" * (1 << 20)  # bytes of one value that fills etcd's database, or a disk
_JUNK_KEY = "/junk"
_FILLING = 60.0  # seconds within which etcd, or a disk, must be full; 15 on a busy machine
_TRIES = 60  # seconds for an operator's command while etcd elects


# -- helpers -------------------------------------------------------------------------------------------------


def _leader(cluster: Cluster) -> Member:
    """etcd's leader; the first that lives if there is none."""
    alive = [member for member in cluster.members if member.alive]
    return cluster.leader() or (alive or cluster.members)[0]


def _others(cluster: Cluster, member: Member) -> list[Member]:
    return [other for other in cluster.members if other is not member]


def _to_etcd(cluster: Cluster) -> set[Way]:
    return {way for proxy in cluster.proxies for way in cluster.between(proxy, cluster.members)[0]}


# -- proxies -------------------------------------------------------------------------------------------------


def _kill_proxy(cluster: Cluster, chance: random.Random) -> Fault:
    proxy = chance.choice(cluster.proxies)
    kill(proxy)
    return Fault(proxy.host, lambda: launch(proxy))


def _kill_all_proxies(cluster: Cluster, _chance: random.Random) -> Fault:
    kill(*cluster.proxies)
    return Fault("all", lambda: launch(*cluster.proxies))


def _pause_proxy(cluster: Cluster, chance: random.Random) -> Fault:
    proxy = chance.choice(cluster.proxies)
    return Fault(proxy.host, pause(proxy))


def _restart_proxy(cluster: Cluster, chance: random.Random) -> Fault:
    proxy = chance.choice(cluster.proxies)
    stop(proxy)
    return Fault(proxy.host, lambda: launch(proxy))


# -- members of etcd -----------------------------------------------------------------------------------------


def _kill_leader(cluster: Cluster, _chance: random.Random) -> Fault:
    leader = _leader(cluster)
    kill(leader)
    return Fault(leader.host, lambda: launch(leader))


def _pause_leader(cluster: Cluster, _chance: random.Random) -> Fault:
    leader = _leader(cluster)
    return Fault(leader.host, pause(leader))


def _no_majority(cluster: Cluster, chance: random.Random) -> Fault:
    two = chance.sample(cluster.members, 2)
    kill(*two)
    return Fault(", ".join(m.host for m in two), lambda: launch(*two))


def _kill_etcd(cluster: Cluster, _chance: random.Random) -> Fault:
    kill(*cluster.members)
    return Fault("all", lambda: launch(*cluster.members))


def _slow_leader(cluster: Cluster, _chance: random.Random) -> Fault:
    leader = _leader(cluster)
    return Fault(leader.host, stutter(leader))


# -- the network ---------------------------------------------------------------------------------------------


def _links(cluster: Cluster, chance: random.Random) -> Links:
    return Links(cluster.relays, chance)


def _isolate_leader(cluster: Cluster, chance: random.Random) -> Fault:
    leader = _leader(cluster)
    there, back = cluster.peers(leader, _others(cluster, leader))
    return _links(cluster, chance).cut([*there, *back], leader.host)


def _leader_one_way(cluster: Cluster, chance: random.Random) -> Fault:
    leader = _leader(cluster)
    return _links(cluster, chance).one_way(*cluster.peers(leader, _others(cluster, leader)), leader.host)


def _cut_etcd(cluster: Cluster, chance: random.Random) -> Fault:
    proxy = chance.choice(cluster.proxies)
    there, back = cluster.between(proxy, cluster.members)
    return _links(cluster, chance).cut([*there, *back], proxy.host)


def _cut_etcd_one_way(cluster: Cluster, chance: random.Random) -> Fault:
    proxy = chance.choice(cluster.proxies)
    return _links(cluster, chance).one_way(*cluster.between(proxy, cluster.members), proxy.host)


def _cut_member(cluster: Cluster, chance: random.Random) -> Fault:
    proxy, leader = chance.choice(cluster.proxies), _leader(cluster)
    there, back = cluster.between(proxy, [leader])
    return _links(cluster, chance).cut([*there, *back], f"{proxy.host} and {leader.host}")


def _cut_clients(cluster: Cluster, chance: random.Random) -> Fault:
    return _links(cluster, chance).cut_clients(CLIENTS, chance.choice(cluster.proxies).host)


def _reset(cluster: Cluster, chance: random.Random) -> Fault:
    ways = {(CLIENTS, proxy.host) for proxy in cluster.proxies}
    return _links(cluster, chance).reset(ways | _to_etcd(cluster))


def _slow_etcd(cluster: Cluster, chance: random.Random) -> Fault:
    proxy = chance.choice(cluster.proxies)
    there, back = cluster.between(proxy, cluster.members)
    return _links(cluster, chance).slow([*there, *back], proxy.host)


def _slow_peers(cluster: Cluster, chance: random.Random) -> Fault:
    leader = _leader(cluster)
    there, back = cluster.peers(leader, _others(cluster, leader))
    return _links(cluster, chance).slow([*there, *back], leader.host)


def _slow_clients(cluster: Cluster, chance: random.Random) -> Fault:
    host = chance.choice(cluster.proxies).host
    return _links(cluster, chance).slow([(CLIENTS, host), (host, CLIENTS)], host)


# -- space, compaction, clocks, certificates -----------------------------------------------------------------


def _fill(until: Callable[[], bool], member: Member) -> None:
    """Write junk until etcd is full, or down."""
    deadline = time.monotonic() + _FILLING
    for number in range(300):
        if until() or time.monotonic() > deadline:
            return
        if not _put(member, f"{_JUNK_KEY}/{number}", _JUNK):
            return


def _no_space(cluster: Cluster, _chance: random.Random) -> Fault:
    _fill(lambda: False, _leader(cluster))
    return Fault("", lambda: make_space(cluster), last=True)


def _full_disk(cluster: Cluster, _chance: random.Random) -> Fault:
    leader = _leader(cluster)
    ballast = fill(leader.data_dir)
    # etcd notices when its database grows.
    _fill(lambda: not leader.alive, leader)
    noticed = not leader.alive

    def end() -> None:
        ballast.unlink()
        launch(leader)
        make_space(cluster)

    return Fault(f"{leader.host}, which {'ended' if noticed else 'did not notice'}", end, last=True)


def _compaction(cluster: Cluster, _chance: random.Random) -> Fault:
    return Fault("", every(1.0, lambda: compact(_leader(cluster))))


def _clock_jumps(cluster: Cluster, chance: random.Random) -> Fault:
    jumps = {
        proxy: chance.choice((-3600, -5, 5, 60, 3600)) for proxy in cluster.proxies if chance.random() < 0.7
    }
    _set_clocks(jumps)
    said = ", ".join(f"{proxy.host} {seconds:+d} s" for proxy, seconds in jumps.items())
    return Fault(said, lambda: _set_clocks(dict.fromkeys(jumps, 0)))


def _certificates(cluster: Cluster, chance: random.Random) -> Fault:
    """Connections that are up stay so in TLS, so they are broken as well."""
    over = datetime.now(UTC) - timedelta(minutes=1)
    servers = chance.random() < 0.5
    cluster.issue(**{"servers_end" if servers else "proxies_end": over})
    cluster.relays.reset(_to_etcd(cluster))
    return Fault("etcd's" if servers else "the proxies'", cluster.issue)


def _put(member: Member, key: str, value: str) -> bool:
    """Put one key over etcd's JSON gateway, which takes more than a command line; whether it has room."""
    pair = {"key": b64encode(key.encode()).decode(), "value": b64encode(value.encode()).decode()}
    request = urllib.request.Request(f"{member.endpoint}/v3/kv/put", json.dumps(pair).encode())
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return b"space exceeded" not in error.read()
    except (OSError, http.client.HTTPException):
        return member.alive
    return True


def make_space(cluster: Cluster) -> None:
    """What docs/etcd.md has an operator do: delete, compact, defragment, disarm."""
    deadline = time.monotonic() + _TRIES
    while True:
        try:
            member = cluster.leader()
            if member is None:
                raise RuntimeError("etcd has no leader")
            etcdctl(member, "del", "--prefix", _JUNK_KEY)
            compact(member)
            for each in cluster.members:
                if each.alive:
                    etcdctl(each, "defrag")
            etcdctl(member, "alarm", "disarm")
            return
        except (RuntimeError, OSError, subprocess.SubprocessError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def mend(cluster: Cluster) -> None:
    """Start what does not run: a fault may have ended more than it meant to."""
    launch(*cluster.members, *cluster.proxies)


def _set_clocks(seconds: Mapping[TorturedProxy, int]) -> None:
    for proxy, ahead in seconds.items():
        proxy.clock.set(ahead)


KINDS: dict[str, Kind] = {
    "kill-proxy": Kind("kill -9 of a proxy, which is started again", _kill_proxy),
    "pause-proxy": Kind("SIGSTOP and SIGCONT of a proxy", _pause_proxy),
    "restart-proxy": Kind("SIGTERM of a proxy, which is started again", _restart_proxy),
    "kill-all-proxies": Kind("kill -9 of all proxies at once", _kill_all_proxies),
    "kill-leader": Kind("kill -9 of etcd's leader", _kill_leader),
    "pause-leader": Kind("SIGSTOP and SIGCONT of etcd's leader", _pause_leader),
    "no-majority": Kind("kill -9 of two of etcd's three members", _no_majority),
    "kill-etcd": Kind("kill -9 of all members of etcd", _kill_etcd),
    "isolate-leader": Kind("etcd's leader and the others do not hear each other", _isolate_leader),
    "leader-one-way": Kind("etcd's leader only sends, or only hears", _leader_one_way),
    "cut-etcd": Kind("a proxy and all members of etcd do not hear each other", _cut_etcd),
    "cut-etcd-one-way": Kind("a proxy only sends to etcd, or only hears it", _cut_etcd_one_way),
    "cut-member": Kind("a proxy and the leader of etcd do not hear each other", _cut_member),
    "cut-clients": Kind("clients and a proxy, one way or both ways", _cut_clients),
    "reset-connections": Kind("all connections break, again and again", _reset),
    "slow-etcd-link": Kind("latency or little bandwidth between a proxy and etcd", _slow_etcd),
    "slow-peer-links": Kind("latency or little bandwidth between members of etcd", _slow_peers),
    "slow-client-links": Kind("latency or little bandwidth to clients", _slow_clients),
    "slow-leader": Kind("etcd's leader stands still for three quarters of the time", _slow_leader),
    "no-space": Kind("etcd's quota is used up; an operator makes space at the end", _no_space),
    "full-disk": Kind("no room on the disk of etcd's leader", _full_disk),
    "compaction": Kind("compaction of etcd at its newest revision, each second", _compaction),
    "clock-jumps": Kind("the dates of the proxies' hosts jump by up to an hour", _clock_jumps),
    "certificates": Kind(
        "the certificates of etcd, or those that proxies show to it, run out and are renewed", _certificates
    ),
    **maintenance.KINDS,
}
"""All kinds of faults, in the order in which they are listed."""


def impossible(abilities: Abilities) -> dict[str, str]:
    """The kinds that cannot be made here, and why."""
    reasons = {"clock-jumps": abilities.clocks, "full-disk": abilities.disks}
    return {name: reason for name, reason in reasons.items() if reason}
