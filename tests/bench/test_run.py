"""Tiny runs on the real servers: what was counted is what happened."""

from collections.abc import Iterator

import pytest

from bench import wire
from bench.errors import BadReply, EffectsDiffer
from bench.etcd_load import BATCH, SHAPES
from bench.load import Admin, connected, drive
from bench.run import Plan, able, measure, rotated
from bench.servers import Target
from bench.worker import Spec, run
from bench.workloads import WORKLOADS, Cell, clean_up, prepare
from lab.servers import EtcdServer, ZooKeeperServer, free_port

LIMIT = 300


def children_of_root(admin: Admin) -> list[bytes]:
    return wire.decode_names(admin.call(wire.GET_CHILDREN, wire.read_body(b"/")))


@pytest.fixture
def admin(zookeeper_server: ZooKeeperServer) -> Iterator[Admin]:
    with Admin(zookeeper_server.port) as session:
        yield session
        session.close_session()


def zookeeper_target(server: ZooKeeperServer) -> Target:
    return Target("zookeeper", "zookeeper", server.port, {"server": server.pid}, None)


@pytest.mark.parametrize("depth", [1, 32])
@pytest.mark.parametrize("name", WORKLOADS)
def test_counts_equal_effects_on_zookeeper(
    name: str, depth: int, zookeeper_server: ZooKeeperServer, admin: Admin
) -> None:
    workload = WORKLOADS[name](b"/bench-test", 3, LIMIT)
    prepare(workload, admin)
    with connected(zookeeper_server.port, [workload.stream(i) for i in range(3)]) as connections:
        timing = drive(connections, depth, 0.05)
    assert sum(timing.counts) > 0
    assert sum(count for _, count in timing.samples) == sum(timing.counts)
    workload.verify(admin, timing.counts)
    if name not in {"get", "exists", "children"}:
        # The check that the runs rely on must notice a single lost write (of mixed, one in ten is a set).
        with pytest.raises(EffectsDiffer):
            workload.verify(admin, [timing.counts[0] + 10, *timing.counts[1:]])
    clean_up(workload, admin, timing.counts)
    assert b"bench-test" not in children_of_root(admin)


def test_errors_in_replies_are_noticed(zookeeper_server: ZooKeeperServer, admin: Admin) -> None:
    workload = WORKLOADS["create"](b"/bench-bad", 1, LIMIT)
    prepare(workload, admin)
    taken = workload.own_directory(0) + b"/0000000005"
    admin.call(wire.CREATE, wire.create_body(taken, b""))
    with (
        pytest.raises(BadReply, match=r"reply 5: .* error -110"),
        connected(zookeeper_server.port, [workload.stream(0)]) as connections,
    ):
        drive(connections, 4, 60.0)


def test_a_run_has_all_its_figures(zookeeper_server: ZooKeeperServer) -> None:
    figures = run(Spec(zookeeper_target(zookeeper_server), Cell("create", 2, 8), 0.05), 77)
    assert figures["operations"] == pytest.approx(figures["rate"] * figures["seconds"])
    assert 0 < figures["p50_ms"] <= figures["p99_ms"] < 60_000
    assert figures["rss_server"] > 10e6
    assert figures["cpu_server"] >= 0
    assert figures["generator"] > 0


@pytest.mark.parametrize("depth", [1, 32])
@pytest.mark.parametrize("name", SHAPES)
def test_raw_etcd_runs(name: str, depth: int, etcd_server: EtcdServer) -> None:
    target = Target("etcd", "etcd", etcd_server.port, {"server": etcd_server.pid}, etcd_server.endpoint)
    figures = run(Spec(target, Cell(name, 3, depth), 0.05), depth)
    assert figures["operations"] > 0
    if depth == 1 and name == "create":
        assert figures["etcd_put"] == 2.0
        assert figures["etcd_txn"] == 1.0
    if name == "append":
        assert figures["etcd_put"] == figures["etcd_txn"] == (1.0 if depth == 1 else 1 / BATCH)


def test_measure_goes_through_all_cells(zookeeper_server: ZooKeeperServer) -> None:
    cells = [Cell("get", 2, 4), Cell("create", 1, 1)]
    lines: list[str] = []
    target = zookeeper_target(zookeeper_server)
    results = measure(Plan(cells, 2, 0.02, 0.02), [target], lines.append)
    assert list(results) == [(cell, "zookeeper") for cell in cells]
    assert all(len(outcome.rounds) == 2 and not outcome.errors for outcome in results.values())
    assert lines[0] == "warm-up: create"  # depth 1 comes first


def test_measure_reports_an_invalid_run(zookeeper_server: ZooKeeperServer, admin: Admin) -> None:
    admin.call(wire.CREATE, wire.create_body(b"/bench-000001", b""))
    target = zookeeper_target(zookeeper_server)
    results = measure(Plan([Cell("get", 1, 1)], 1, 0.02, 0), [target], lambda line: None)
    ((outcome),) = results.values()
    assert outcome.rounds == []
    assert "error -110" in outcome.errors[0]
    admin.call(wire.DELETE, wire.delete_body(b"/bench-000001"))


def test_a_server_that_is_gone_makes_runs_invalid(zookeeper_server: ZooKeeperServer) -> None:
    gone = zookeeper_target(zookeeper_server)._replace(port=free_port())
    etcd = gone._replace(name="etcd", protocol="etcd")
    results = measure(Plan([Cell("get", 1, 1)], 1, 0.02, 0), [gone, etcd], lambda line: None)
    assert "ConnectionRefusedError" in results[Cell("get", 1, 1), "zookeeper"].errors[0]
    assert "UNAVAILABLE" in results[Cell("get", 1, 1), "etcd"].errors[0]


def test_targets_take_turns(zookeeper_server: ZooKeeperServer) -> None:
    one = zookeeper_target(zookeeper_server)
    two = one._replace(name="two")
    assert [target.name for target in rotated([one, two], 3)] == ["two", "zookeeper"]


def test_what_only_etcd_has_runs_there_alone(zookeeper_server: ZooKeeperServer) -> None:
    one = zookeeper_target(zookeeper_server)
    etcd = one._replace(name="etcd", protocol="etcd")
    assert able(Cell("append", 1, 1), [one, etcd]) == [etcd]
    assert able(Cell("get", 1, 1), [one, etcd]) == [one, etcd]
    assert measure(Plan([Cell("append", 1, 1)], 1, 0.02, 0), [one], lambda line: None) == {}
