"""Clients spread evenly over several servers that show one tree, and what these servers are charged for."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from bench import costs, wire
from bench.load import Admin, Timing, connected, drive
from bench.workloads import Workload, prepare


class Servers(NamedTuple):
    """What answers the clients, and whom to charge."""

    label: str
    ports: Sequence[int]
    proxies: Sequence[int]
    """The pids of the proxies, or of ZooKeeper."""
    etcd: Sequence[int]
    """The pids of etcd's members; none for ZooKeeper."""
    admins: Sequence[int] = ()
    """The admin ports of proxies that may append together."""


class Charged(NamedTuple):
    """A run, and the CPU time that it took, in seconds."""

    timing: Timing
    proxies: float
    etcd: float


def charged(servers: Servers, measured: Callable[[], Timing]) -> Charged:
    """Run it."""
    before = costs.cpu_seconds(servers.proxies), costs.cpu_seconds(servers.etcd)
    timing = measured()
    return Charged(
        timing, costs.cpu_seconds(servers.proxies) - before[0], costs.cpu_seconds(servers.etcd) - before[1]
    )


def drive_all(ports: Sequence[int], workload: Workload, seconds: float, depth: int = 1) -> Timing:
    """All clients of the workload at once, in one thread; the first is at the first port, and so on."""
    clients = workload.connections
    with ExitStack() as stack:
        admin = stack.enter_context(Admin(ports[0]))
        prepare(workload, admin)
        for port in ports[1:]:
            with Admin(port) as other:
                _catch_up(other, workload)
                other.close_session()
        order = [i for place in range(len(ports)) for i in range(place, clients, len(ports))]
        connections = [
            connection
            for place, port in enumerate(ports)
            for connection in stack.enter_context(
                connected(port, [workload.stream(i) for i in range(place, clients, len(ports))])
            )
        ]
        timing = drive(connections, depth, seconds)
        counts = [0] * clients
        for place, client in enumerate(order):
            counts[client] = timing.counts[place]
        _catch_up(admin, workload)
        workload.verify(admin, counts)
        admin.close_session()
    return timing


def _catch_up(client: Admin, workload: Workload) -> None:
    """Wait until this client's server shows what clients of the others have been answered.

    By a write. A sync is too little: ZooKeeper's leader answers one before it has applied what its followers
    have answered already (its CommitProcessor does not match syncs).
    """
    client.call(wire.SET_DATA, wire.set_body(workload.root, b""))
