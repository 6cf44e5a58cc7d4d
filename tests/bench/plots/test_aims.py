"""Aims beside what was reached."""

from bench.plots import aims
from bench.plots.results import Found, Run, Scenario
from bench.run import Cell
from bench.scenarios import Table
from tests.bench.plots.sample import ENVIRONMENT, outcome


def reached(found: Found) -> dict[str, str]:
    """What -> what was reached."""
    rows = (line.strip("| ").split(" | ") for line in aims.table(found).splitlines()[2:])
    return {what: found_there for what, _, found_there in rows}


def test_what_was_not_measured_is_named() -> None:
    assert set(reached(Found(None, None, {})).values()) == {aims.MISSING}


def test_ratios_of_the_reference_run() -> None:
    results = {
        (Cell(workload, *place), server): outcome(rate, p50_ms=p50)
        for workload in ("create", "set", "delete", "sequential", "multi", "get", "exists", "children")
        for place in ((1, 1), (64, 32))
        for server, rate, p50 in (("zookeeper", 100.0, 4.0), ("zketcd", 150.0, 1.0))
    }
    results[Cell("append", 1, 1), "etcd"] = outcome(1.0, p50_ms=0.8)
    found = reached(Found(Run(ENVIRONMENT, results), None, {}))
    assert found["ClickHouse's multi, 64 x 32"] == "multi 1.50"
    assert found["reads one at a time, p50"] == "get 0.25, exists 0.25, children 0.25"
    of_an_append = found["one write at a time: p50 to that of a raw etcd Txn with one put"]
    assert of_an_append.startswith("create 1.25, sequential 1.25")
    results[Cell("multi", 64, 32), "zketcd"].errors.append("Stalled")
    found = reached(Found(Run(ENVIRONMENT, results), None, {}))
    assert found["ClickHouse's multi, 64 x 32"] == aims.MISSING


def scenarios(**tables: Table) -> Found:
    return Found(
        None, None, {name.replace("_", "-"): Scenario(ENVIRONMENT, table) for name, table in tables.items()}
    )


def test_scenarios() -> None:
    sidecars = Table(
        "Sidecars",
        ["server", "workload", "op/s", "longest, ms", "p99 / p50"],
        [
            [server, workload, rate, longest, 3.0]
            for server, rate, longest in (
                ("ZooKeeper", 100.0, 9.0),
                ("1 proxy", 90.0, 10.0),
                ("4 proxies", 81.0, 20.0),
                ("8 proxies", 80.0, 30.0),
                ("16 proxies", 1_000.0, 40.0),
            )
            for workload in (
                "multi on one table",
                "sequential creates in one directory",
                "creates in directories of their own",
            )
        ],
    )
    memory = Table(
        "Memory",
        ["what", "znodes", "memory, MB", "start, s", "etcd's file, MB"],
        [
            ["zookeeper", 10, 500.0, 4.0, ""],
            ["zketcd", 10, 300.0, 3.0, ""],
            ["etcd, with snapshots", 10, 100.0, "", 50.0],
        ],
    )
    delay = Table(
        "Far",
        ["round trip added, ms", "p50 ms 1 x 1", "op/s 64 x 32"],
        [[0, 1.0, 1000.0], [5, 6.0, 900.0], [20, 22.0, 800.0]],
    )
    mix = Table("Mix", ["what", "zketcd / ZooKeeper"], [["sets", 2.0], ["multis", 1.25]])
    found = reached(scenarios(sidecars=sidecars, memory=memory, delay=delay, session_mix=mix))
    assert found["16 clients, one write at a time, 1 proxy"] == "create 0.90, sequential 0.90, multi 0.90"
    assert found["4 proxies to 1 proxy, shared directories"] == "sequential 0.90, multi 0.90"
    assert found["8 and 16 proxies: p99 / p50, longest wait"] == (
        "8 proxies: 3.0 x, 30 ms, 80 multis/s; 16 proxies: 3.0 x, 40 ms, 1,000 multis/s"
    )
    assert "400 MB to 500; etcd's file 50 MB; start 3.0 s to 4.0" in found.values()
    assert "5 ms: 1.20 round trips, 0.90; 20 ms: 1.10 round trips, 0.80" in found.values()
    assert "1.25 to 2.00" in found.values()


def test_the_aims_are_of_scenarios_as_they_are() -> None:
    """An old table without a column that is needed counts as not measured."""
    old = Table("Memory", ["what", "znodes", "memory, MB"], [["zookeeper", 10, 500.0]])
    assert aims.MISSING in reached(scenarios(memory=old)).values()
