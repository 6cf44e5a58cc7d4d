"""The faults: what each does to real processes and links, and how it is undone.

A fault's function runs in a thread, since it may wait for a process; it draws from the seed's randomness
only, and returns what undoes it.
"""

import http.client
import json
import random
import subprocess
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

from lab.servers.operator import compact, etcdctl
from lab.servers.relay import Way
from proof.torture import maintenance
from proof.torture.acts import Links, each, every, fill, kill, launch, pause, stop, stutter
from proof.torture.cluster import CLIENTS, Cluster, Member, TorturedProxy
from proof.torture.host import Abilities
from proof.torture.system import Fault

_JUNK = "x" * (1 << 20)  # bytes of one value that fills etcd's database, or a disk
_JUNK_KEY = "/junk"
_FILLING = 20.0  # seconds within which etcd, or a disk, must be full
_TRIES = 60  # seconds for an operator's command while etcd elects


FAULTS = {
    "kill-proxy": "kill -9 of a proxy, which is started again",
    "pause-proxy": "SIGSTOP and SIGCONT of a proxy",
    "restart-proxy": "SIGTERM of a proxy, which is started again",
    "kill-all-proxies": "kill -9 of all proxies at once",
    "kill-leader": "kill -9 of etcd's leader",
    "pause-leader": "SIGSTOP and SIGCONT of etcd's leader",
    "no-majority": "kill -9 of two of etcd's three members",
    "kill-etcd": "kill -9 of all members of etcd",
    "isolate-leader": "etcd's leader and the others do not hear each other",
    "leader-one-way": "etcd's leader only sends, or only hears",
    "cut-etcd": "a proxy and all members of etcd do not hear each other",
    "cut-etcd-one-way": "a proxy only sends to etcd, or only hears it",
    "cut-member": "a proxy and the leader of etcd do not hear each other",
    "cut-clients": "clients and a proxy, one way or both ways",
    "reset-connections": "all connections break, again and again",
    "slow-etcd-link": "latency or little bandwidth between a proxy and etcd",
    "slow-peer-links": "latency or little bandwidth between members of etcd",
    "slow-client-links": "latency or little bandwidth to clients",
    "slow-leader": "etcd's leader stands still for three quarters of the time",
    "no-space": "etcd's quota is used up; an operator makes space at the end",
    "full-disk": "no room on the disk of etcd's leader",
    "compaction": "compaction of etcd at its newest revision, each second",
    "clock-jumps": "the dates of the proxies' hosts jump by up to an hour",
    "certificates": "the certificates of etcd, or those that proxies show to it, run out and are renewed",
    **maintenance.KINDS,
}
"""All kinds of faults, and what each is."""


def impossible(abilities: Abilities) -> dict[str, str]:
    """The kinds that cannot be made here, and why."""
    reasons = {"clock-jumps": abilities.clocks, "full-disk": abilities.disks}
    return {name: reason for name, reason in reasons.items() if reason}


class Faults:
    """All kinds of faults, on one cluster."""

    def __init__(self, cluster: Cluster, chance: random.Random) -> None:
        self._cluster = cluster
        self._random = chance
        self._links = Links(cluster.relays, chance)
        self._begin: dict[str, Callable[[], Fault]] = {
            "kill-proxy": self._kill_proxy,
            "pause-proxy": self._pause_proxy,
            "restart-proxy": self._restart_proxy,
            "kill-all-proxies": self._kill_all_proxies,
            "kill-leader": self._kill_leader,
            "pause-leader": self._pause_leader,
            "no-majority": self._no_majority,
            "kill-etcd": self._kill_etcd,
            "isolate-leader": self._isolate_leader,
            "leader-one-way": self._leader_one_way,
            "cut-etcd": self._cut_etcd,
            "cut-etcd-one-way": self._cut_etcd_one_way,
            "cut-member": self._cut_member,
            "cut-clients": self._cut_clients,
            "reset-connections": self._reset,
            "slow-etcd-link": self._slow_etcd,
            "slow-peer-links": self._slow_peers,
            "slow-client-links": self._slow_clients,
            "slow-leader": self._slow_leader,
            "no-space": self._no_space,
            "full-disk": self._full_disk,
            "compaction": self._compaction,
            "clock-jumps": self._clock_jumps,
            "certificates": self._certificates,
        }
        operator = maintenance.Maintenance(cluster, chance)
        for kind in maintenance.KINDS:
            self._begin[kind] = partial(_maintained, operator, kind)

    def begin(self, name: str) -> Fault:
        """Make one fault. Where another fault has left nothing to do, it does nothing."""
        return self._begin[name]()

    # -- helpers ---------------------------------------------------------------------------------------------

    def _proxy(self) -> TorturedProxy:
        return self._random.choice(self._cluster.proxies)

    def _leader(self) -> Member:
        """etcd's leader; the first that lives if there is none."""
        alive = [member for member in self._cluster.members if member.alive]
        return self._cluster.leader() or (alive or self._cluster.members)[0]

    def _others(self, member: Member) -> list[Member]:
        return [other for other in self._cluster.members if other is not member]

    def _to_etcd(self) -> set[Way]:
        cluster = self._cluster
        return {way for proxy in cluster.proxies for way in cluster.between(proxy, cluster.members)[0]}

    # -- proxies ---------------------------------------------------------------------------------------------

    def _kill_proxy(self) -> Fault:
        proxy = self._proxy()
        kill(proxy)
        return Fault(proxy.host, lambda: launch(proxy))

    def _kill_all_proxies(self) -> Fault:
        kill(*self._cluster.proxies)
        return Fault("all", lambda: launch(*self._cluster.proxies))

    def _pause_proxy(self) -> Fault:
        proxy = self._proxy()
        return Fault(proxy.host, pause(proxy))

    def _restart_proxy(self) -> Fault:
        proxy = self._proxy()
        stop(proxy)
        return Fault(proxy.host, lambda: launch(proxy))

    # -- members of etcd -------------------------------------------------------------------------------------

    def _kill_leader(self) -> Fault:
        leader = self._leader()
        kill(leader)
        return Fault(leader.host, lambda: launch(leader))

    def _pause_leader(self) -> Fault:
        leader = self._leader()
        return Fault(leader.host, pause(leader))

    def _no_majority(self) -> Fault:
        two = self._random.sample(self._cluster.members, 2)
        kill(*two)
        return Fault(", ".join(m.host for m in two), lambda: launch(*two))

    def _kill_etcd(self) -> Fault:
        kill(*self._cluster.members)
        return Fault("all", lambda: launch(*self._cluster.members))

    def _slow_leader(self) -> Fault:
        leader = self._leader()
        return Fault(leader.host, stutter(leader))

    # -- the network -----------------------------------------------------------------------------------------

    def _isolate_leader(self) -> Fault:
        leader = self._leader()
        there, back = self._cluster.peers(leader, self._others(leader))
        return self._links.cut([*there, *back], leader.host)

    def _leader_one_way(self) -> Fault:
        leader = self._leader()
        return self._links.one_way(*self._cluster.peers(leader, self._others(leader)), leader.host)

    def _cut_etcd(self) -> Fault:
        proxy = self._proxy()
        there, back = self._cluster.between(proxy, self._cluster.members)
        return self._links.cut([*there, *back], proxy.host)

    def _cut_etcd_one_way(self) -> Fault:
        proxy = self._proxy()
        return self._links.one_way(*self._cluster.between(proxy, self._cluster.members), proxy.host)

    def _cut_member(self) -> Fault:
        proxy, leader = self._proxy(), self._leader()
        there, back = self._cluster.between(proxy, [leader])
        return self._links.cut([*there, *back], f"{proxy.host} and {leader.host}")

    def _cut_clients(self) -> Fault:
        return self._links.cut_clients(CLIENTS, self._proxy().host)

    def _reset(self) -> Fault:
        ways = {(CLIENTS, proxy.host) for proxy in self._cluster.proxies}
        return self._links.reset(ways | self._to_etcd())

    def _slow_etcd(self) -> Fault:
        proxy = self._proxy()
        there, back = self._cluster.between(proxy, self._cluster.members)
        return self._links.slow([*there, *back], proxy.host)

    def _slow_peers(self) -> Fault:
        leader = self._leader()
        there, back = self._cluster.peers(leader, self._others(leader))
        return self._links.slow([*there, *back], leader.host)

    def _slow_clients(self) -> Fault:
        host = self._proxy().host
        return self._links.slow([(CLIENTS, host), (host, CLIENTS)], host)

    # -- space, compaction, clocks, certificates -------------------------------------------------------------

    def _fill(self, until: Callable[[], bool], member: Member) -> None:
        """Write junk until etcd is full, or down."""
        deadline = time.monotonic() + _FILLING
        for number in range(300):
            if until() or time.monotonic() > deadline:
                return
            if not _put(member, f"{_JUNK_KEY}/{number}", _JUNK):
                return

    def _no_space(self) -> Fault:
        self._fill(lambda: False, self._leader())
        return Fault("", lambda: make_space(self._cluster), last=True)

    def _full_disk(self) -> Fault:
        leader = self._leader()
        ballast = fill(leader.data_dir)
        # etcd notices when its database grows.
        self._fill(lambda: not leader.alive, leader)
        noticed = not leader.alive

        def end() -> None:
            ballast.unlink()
            launch(leader)
            make_space(self._cluster)

        return Fault(f"{leader.host}, which {'ended' if noticed else 'did not notice'}", end, last=True)

    def _compaction(self) -> Fault:
        return Fault("", every(1.0, lambda: compact(self._leader())))

    def _clock_jumps(self) -> Fault:
        jumps = {
            proxy: self._random.choice((-3600, -5, 5, 60, 3600))
            for proxy in self._cluster.proxies
            if self._random.random() < 0.7
        }
        for proxy, seconds in jumps.items():
            proxy.clock.set(seconds)
        said = ", ".join(f"{proxy.host} {seconds:+d} s" for proxy, seconds in jumps.items())
        return Fault(said, lambda: each(_setting(proxy) for proxy in jumps))

    def _certificates(self) -> Fault:
        """Connections that are up stay so in TLS, so they are broken as well."""
        cluster = self._cluster
        over = datetime.now(UTC) - timedelta(minutes=1)
        servers = self._random.random() < 0.5
        cluster.issue(**{"servers_end" if servers else "proxies_end": over})
        cluster.relays.reset(self._to_etcd())
        return Fault("etcd's" if servers else "the proxies'", cluster.issue)


def _maintained(operator: maintenance.Maintenance, kind: str) -> Fault:
    what, end = operator.begin(kind)
    return Fault(what, end, last=True)


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
    """What docs/operating.md has an operator do: delete, compact, defragment, disarm."""
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


def _setting(proxy: TorturedProxy) -> Callable[[], None]:
    return lambda: proxy.clock.set(0)
