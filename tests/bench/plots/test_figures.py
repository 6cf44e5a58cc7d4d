"""That each figure shows the values it was given."""

import numpy as np
from matplotlib.axes import Axes

from bench.plots import figures
from bench.report import all_medians
from bench.run import Cell
from tests.bench.plots.sample import MEMORY, SIDECARS, curves, outcome, reference


def lines(axes: Axes) -> dict[str, tuple[list[float], ...]]:
    """Label -> x and y of each line."""
    return {
        str(line.get_label()): tuple(np.asarray(values, float).tolist() for values in line.get_data())
        for line in axes.get_lines()
    }


def test_speed() -> None:
    rate, latency = figures.speed(all_medians(reference())).axes
    # Workloads downwards; create is invalid on ZooKeeper with many clients.
    assert lines(rate) == {
        "ZooKeeper": ([400.0], [0.0]),
        "zketcd": ([500.0, 1_100.0], [0.0, 1.0]),
        "raw etcd": ([600.0, 1_200.0], [0.0, 1.0]),
    }
    assert lines(latency)["zketcd"] == ([2.0, 8.0], [0.0, 1.0])
    assert [label.get_text() for label in rate.get_yticklabels()] == ["get", "create"]
    assert "64 connections, 32" in rate.get_title()


def test_costs_are_of_those_counters_that_there_are() -> None:
    txns, puts, fsyncs = figures.costs(all_medians(reference())).axes
    assert lines(txns)["zketcd, 64 x 32"] == ([0.5, 0.5], [0.0, 1.0])
    assert lines(puts) == {
        "zketcd, 1 x 1": ([1.0, 7.0], [0.0, 1.0]),
        "zketcd, 64 x 32": ([4.0, 10.0], [0.0, 1.0]),
        "raw etcd, 1 x 1": ([2.0, 8.0], [0.0, 1.0]),
        "raw etcd, 64 x 32": ([5.0, 11.0], [0.0, 1.0]),
    }
    assert fsyncs.get_xlabel() == "fsyncs an operation"
    logged = reference()
    logged[Cell("get", 1, 1), "zketcd"] = outcome(
        1.0, etcd_txn=1.0, etcd_put=2.0, etcd_fsync=1.0, etcd_wal_bytes=600.0
    )
    logged = {key: value for key, value in logged.items() if key == (Cell("get", 1, 1), "zketcd")}
    assert lines(figures.costs(all_medians(logged)).axes[3])["zketcd, 1 x 1"] == ([600.0], [0.0])


def test_throughput_against_connections() -> None:
    (axes,) = figures.throughput(all_medians(curves())).axes
    assert lines(axes) == {
        "ZooKeeper, 32 in flight each": ([1.0, 16.0], [320.0, 5_120.0]),
        "ZooKeeper, 1 in flight each": ([1.0, 16.0], [10.0, 160.0]),
        "zketcd, 32 in flight each": ([1.0, 16.0], [640.0, 10_240.0]),
        "zketcd, 1 in flight each": ([1.0, 16.0], [20.0, 320.0]),
    }
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_latency_against_load_ends_where_a_server_does_not_keep_up() -> None:
    (axes,) = figures.latency(all_medians(curves())).axes
    assert lines(axes) == {
        "ZooKeeper, median": ([1_000.0], [2.0]),
        "ZooKeeper, p99": ([1_000.0], [40.0]),
        "zketcd, median": ([1_000.0, 5_000.0, 9_000.0], [1.0, 5.0, 9.0]),
        "zketcd, p99": ([1_000.0, 5_000.0, 9_000.0], [9.0, 9.0, 9.0]),
    }
    assert axes.get_xlabel() == "requests offered a second"


def test_memory_against_znodes() -> None:
    (axes,) = figures.memory(MEMORY).axes
    assert lines(axes) == {
        "ZooKeeper's JVM": ([1_000.0, 10_000.0], [20.0, 30.0]),
        "of that, live heap": ([1_000.0, 10_000.0], [12.0, 14.0]),
        "zketcd's proxy": ([1_000.0, 10_000.0], [50.0, 55.0]),
        "its etcd": ([1_000.0, 10_000.0], [33.0, 44.0]),
    }


def test_sidecars_against_the_number_of_proxies() -> None:
    rate, p99 = figures.sidecars(SIDECARS).axes
    assert {name: line for name, line in lines(rate).items() if not name.startswith("_")} == {
        "multi": ([1.0, 4.0], [1_000.0, 800.0]),
        "locks": ([1.0, 4.0], [100.0, 80.0]),
    }
    assert lines(p99)["multi"] == ([1.0, 4.0], [21.0, 22.0])
    # ZooKeeper's, level.
    levels = [line for line in p99.get_lines() if str(line.get_label()).startswith("_")]
    assert [np.asarray(line.get_ydata(), float).tolist() for line in levels] == [[20.0, 20.0], [200.0, 200.0]]
