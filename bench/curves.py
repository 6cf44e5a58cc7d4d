"""What `python -m bench --curves` measures: throughput against connections, latency against load. Pure.

Raw etcd is not in it: from a few connections on, its figures would be those of grpc.aio.
"""

from collections.abc import Sequence

from bench.workloads import Cell

SERVERS = ("zookeeper", "zketcd")
WORKLOADS = ("get", "create", "mixed")
CONNECTIONS = (1, 4, 16, 64, 256, 1000)
DEPTHS = (1, 32)

OFFERED = {
    "get": (1_000, 5_000, 20_000, 40_000, 60_000, 100_000, 200_000, 400_000),
    "create": (300, 1_000, 3_000, 10_000, 20_000, 30_000, 40_000, 60_000),
}
"""Requests a second, up to more than either server does on two cores."""
OFFERED_CONNECTIONS = 64
OFFERED_DEPTH = 256
"""Requests in flight on a connection at most: 16,384 in all. Who needs more has lost the race."""

QUICK = 3
"""With --quick every third point."""


def cells(
    workloads: Sequence[str], connections: Sequence[int] | None, depths: Sequence[int] | None, quick: bool
) -> list[Cell]:
    """The points of the curves, of these workloads, connections and depths where any are given."""
    step = QUICK if quick else 1
    closed = [
        Cell(workload, number, depth)
        for workload in WORKLOADS
        if workload in workloads
        for depth in depths or DEPTHS
        for number in connections or CONNECTIONS[::step]
    ]
    offered = [
        Cell(workload, OFFERED_CONNECTIONS, OFFERED_DEPTH, rate)
        for workload, rates in OFFERED.items()
        if workload in workloads
        for rate in rates[::step]
    ]
    return [*closed, *offered]
