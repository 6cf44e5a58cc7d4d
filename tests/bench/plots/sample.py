"""Small results, as the bench makes them."""

from bench.run import Outcome, Results
from bench.scenarios import Table
from bench.workloads import Cell

SERVERS = ("zookeeper", "zketcd", "etcd")
ENVIRONMENT = {
    "arguments": "--quick",
    "time": "2026-11-21T15:31:45+00:00",
    "cores": 2,
    "python": "3.11.7",
    "zookeeper": "3.9.5",
    "etcd": "3.5.30",
    "rounds": 1,
    "seconds per run": 0.5,
}


def outcome(rate: float, **figures: float) -> Outcome:
    """One valid round."""
    found = {"rate": rate, "p50_ms": 2.0, "p99_ms": 9.0, "generator": 0.2, "others": 0.1, "cpu_server": 0.01}
    return Outcome([{**found, "rss_server": 50e6, **figures}], [])


def reference() -> Results:
    """Two workloads, one client and many, on all servers; one invalid."""
    found: Results = {}
    for number, (workload, place, server) in enumerate(
        (workload, place, server)
        for workload in ("get", "create")
        for place in ((1, 1), (64, 32))
        for server in SERVERS
    ):
        counted = {} if server == "zookeeper" else {"etcd_txn": 0.5, "etcd_put": number, "etcd_fsync": 0.25}
        found[Cell(workload, *place), server] = outcome(100.0 * (number + 1), p50_ms=1.0 + number, **counted)
    found[Cell("create", 64, 32), "zookeeper"].errors.append("Stalled: no reply")
    return found


def curves() -> Results:
    """One workload over connections and over offered rates; ZooKeeper fails at the second rate."""
    found: Results = {}
    for connections in (16, 1):
        for depth in (1, 32):
            found[Cell("get", connections, depth), "zookeeper"] = outcome(10.0 * connections * depth)
            found[Cell("get", connections, depth), "zketcd"] = outcome(20.0 * connections * depth)
    for offered, answered in ((1_000, 1_000), (5_000, 2_000), (9_000, 9_000)):
        found[Cell("get", 64, 256, offered), "zookeeper"] = outcome(answered, p99_ms=40.0)
        found[Cell("get", 64, 256, offered), "zketcd"] = outcome(offered * 0.99, p50_ms=offered / 1_000)
    return found


MEMORY = Table(
    "Memory",
    ["what", "znodes", "memory, MB", "start, s"],
    [
        ["zookeeper", 1_000, 20.0, ""],
        ["zookeeper", 10_000, 30.0, 3.0],
        ["zookeeper's live heap", 1_000, 12.0, ""],
        ["zookeeper's live heap", 10_000, 14.0, 3.0],
        ["zketcd", 1_000, 50.0, ""],
        ["zketcd", 10_000, 55.0, 2.0],
        ["zketcd's etcd", 1_000, 33.0, ""],
        ["zketcd's etcd", 10_000, 44.0, ""],
    ],
)

SIDECARS = Table(
    "Sidecars",
    ["server", "workload", "op/s", "p50, ms", "p99, ms"],
    [
        ["ZooKeeper", "multi", 900.0, 10.0, 20.0],
        ["ZooKeeper", "locks", 90.0, 100.0, 200.0],
        ["1 proxy", "multi", 1_000.0, 11.0, 21.0],
        ["1 proxy", "locks", 100.0, 101.0, 201.0],
        ["4 proxies", "multi", 800.0, 12.0, 22.0],
        ["4 proxies", "locks", 80.0, 102.0, 202.0],
    ],
)
