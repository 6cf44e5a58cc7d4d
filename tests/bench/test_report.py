"""The tables and the JSON."""

import json

from bench.report import as_json, from_json, tables
from bench.run import Outcome, Results
from bench.workloads import Cell


def figures(rate: float, generator: float = 0.2) -> dict[str, float]:
    return {
        "rate": rate,
        "p50_ms": 100 / rate,
        "p99_ms": 1.0,
        "generator": generator,
        "others": 0.1,
        "cpu_server": 0.010,
        "cpu_etcd": 0.020,
        "rss_server": 50e6,
        "etcd_txn": 0.5,
        "etcd_put": 2.0,
        "etcd_fsync": 0.25,
    }


CELL = Cell("get", 16, 32)


def results() -> Results:
    return {
        (CELL, "zookeeper"): Outcome([figures(10.0), figures(30.0), figures(20.0)], []),
        (CELL, "zketcd"): Outcome([figures(50.0), figures(70.0), figures(40.0)], []),
        (CELL, "etcd"): Outcome([figures(100.0, generator=0.95)] * 3, []),
    }


def test_speed_table() -> None:
    head, _, row = tables(results(), "").splitlines()[:3]
    named = dict(zip(head.split("|"), row.split("|"), strict=True))
    assert named[" zookeeper op/s "] == " 20 "
    assert named[" zketcd op/s "] == " 50 "
    assert named[" etcd op/s "] == " 100* "
    assert named[" zketcd / zookeeper: op/s (p50) "] == " **2.50** (0.40) "


def test_an_invalid_round_gives_no_figure() -> None:
    found = results()
    found[CELL, "zketcd"].errors.append("EffectsDiffer: 3 instead of 4")
    row = tables(found, "").splitlines()[2]
    assert "| 20 | invalid | 100* | – |" in row
    entry = as_json(found, {"cores": 2})["results"][1]
    assert entry["errors"] == ["EffectsDiffer: 3 instead of 4"]
    assert entry["median"] is None


def test_json_and_back() -> None:
    found = results()
    found[Cell("get", 64, 256), "zketcd"] = Outcome([], ["Stalled: no reply"])
    assert from_json(json.loads(json.dumps(as_json(found, {})))) == found
