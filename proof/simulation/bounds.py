"""What is left at the end of a calm world: servers and etcd keep what they need, and nothing besides.

After hours with hundreds of sessions, thousands of requests and dozens of faults, each container in a server
has a size that the clients and nodes of now explain, and etcd has the keys and leases of living proxies, two
snapshots, and the log since the older one.
"""

from collections.abc import Iterator, Sequence

from proof.simulation.census import census
from proof.simulation.etcd import Cluster
from proof.simulation.proxies import PREFIX, Proxy
from proxy.state.machine import Machine
from schema.keys import Keyspace

_MOST = 50  # items of one kind in a server, besides
_EACH_SESSION = 3  # as many for each session that lives
_FIXED = {
    "Histogram.buckets": 20_000,  # there are so many from the start
    "Latency.by_opcode": 200,
    "Latency.updates": 200,
    "FourLetterWords._words": 100,
    "Keyspace._senders": 4096,  # a cache, emptied when it is full
    "Expiry._times": 8192,  # thinned out each 4,096 rows
    "Expiry._zxids": 8192,
}
_OF_THE_TREE = {"Transaction.nodes", "Transaction.deleted_ephemerals"}
_CALLS = 8  # of one server that are open at a time, streams among them
_SNAPSHOTS = 3  # the current one, the previous one, and one that is being written or was given up
_ENTRIES = 300  # beyond three times what makes a snapshot due


def too_much(proxies: Sequence[Proxy], cluster: Cluster, machine: Machine) -> Iterator[str]:
    """Which containers are larger than `machine`, the right state, explains."""
    for proxy in proxies:
        yield from _in_server(proxy, machine)
    yield from _in_etcd(proxies, cluster, machine)


def _in_server(proxy: Proxy, machine: Machine) -> Iterator[str]:
    nodes, sessions = len(machine.tree.nodes), len(machine.sessions)
    for name, count in sorted(census(proxy.server).items()):
        of_now = nodes if name in _OF_THE_TREE else _EACH_SESSION * sessions
        most = _FIXED.get(name, _MOST + of_now)
        if count > most:
            yield (
                f"{proxy.name} keeps {count} items in {name} at the end; {most} are the most that"
                f" {sessions} sessions and {nodes} nodes explain"
            )


def _in_etcd(proxies: Sequence[Proxy], cluster: Cluster, machine: Machine) -> Iterator[str]:
    keys = Keyspace(PREFIX)
    names = [kv.key for kv in cluster.store.snapshot()]
    living = sum(proxy.alive for proxy in proxies)
    entries = sum(name.startswith(keys.log) for name in names)
    incarnations = sum(name.startswith(keys.proxies) for name in names)
    pages = len({name.split(b"/")[3] for name in names if name.split(b"/")[2] == b"snapshot"})
    hosts = [proxy.host for proxy in proxies]  # a process that was killed leaves its calls behind
    calls = [call for member in cluster.members for call in member.calls]
    due = max(proxies[0].snapshot_requests, len(machine.tree.nodes))
    for what, count, most in (
        ("leases", len(cluster.store.lease_ids), living),
        ("keys of proxies", incarnations, living),
        ("entries of the log", entries, 3 * due + _ENTRIES),
        ("snapshots", pages, _SNAPSHOTS),
        ("watches", len(cluster.watches), living),
        ("open calls", sum(call.host in hosts for call in calls), _CALLS * living),
    ):
        if count > most:
            yield f"etcd has {count} {what} at the end; {most} are the most that {living} proxies explain"
