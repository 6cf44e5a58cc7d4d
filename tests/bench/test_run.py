"""Short runs on the real servers: what was counted is what happened, and what is wrong gives no figure.

Each run verifies what it has left in the tree, so `make bench` checks every workload. Here are two.
"""

from collections.abc import Iterator

import pytest

from bench import wire
from bench.errors import EffectsDiffer
from bench.load import Admin, connected, drive
from bench.run import Plan, measure
from bench.servers import Target
from bench.worker import Spec, run
from bench.workloads import WORKLOADS, Cell, clean_up, prepare
from lab.servers import EtcdServer, ZooKeeperServer, free_port

GET, APPEND = Cell("get", 1, 1), Cell("append", 1, 1)


@pytest.fixture
def admin(zookeeper_server: ZooKeeperServer) -> Iterator[Admin]:
    with Admin(zookeeper_server.port) as session:
        yield session
        session.close_session()


def target_of(server: ZooKeeperServer | EtcdServer, name: str) -> Target:
    endpoint = server.endpoint if isinstance(server, EtcdServer) else None
    return Target(name, name, server.port, {"server": server.pid}, endpoint)


@pytest.mark.parametrize("name", ["mixed", "multi"])
def test_counts_equal_effects(name: str, zookeeper_server: ZooKeeperServer, admin: Admin) -> None:
    workload = WORKLOADS[name](b"/bench-test", 3, 300)
    prepare(workload, admin)
    with connected(zookeeper_server.port, [workload.stream(i) for i in range(3)]) as connections:
        timing = drive(connections, 32, 0.05)
    assert sum(count for _, count in timing.samples) == sum(timing.counts) > 0
    workload.verify(admin, timing.counts)
    # The check that the runs rely on must notice a single lost write (of mixed, one in ten is a set).
    with pytest.raises(EffectsDiffer):
        workload.verify(admin, [timing.counts[0] + 10, *timing.counts[1:]])
    clean_up(workload, admin, timing.counts)
    assert b"bench-test" not in wire.decode_names(admin.call(wire.GET_CHILDREN, wire.read_body(b"/")))


def test_a_run_has_all_its_figures(zookeeper_server: ZooKeeperServer) -> None:
    figures = run(Spec(target_of(zookeeper_server, "zookeeper"), Cell("create", 2, 8), 0.1), 77)
    assert figures["operations"] == pytest.approx(figures["rate"] * figures["seconds"])
    assert 0 < figures["p50_ms"] <= figures["p99_ms"] < 60_000
    assert figures["rss_server"] > 10e6
    assert figures["generator"] > 0


def test_raw_etcd_is_asked_for_what_a_workload_says(etcd_server: EtcdServer) -> None:
    target = target_of(etcd_server, "etcd")
    for depth, share in ((1, 1.0), (32, 1 / 64)):
        appended = run(Spec(target, Cell("append", 2, depth), 0.05), depth)
        assert (appended["etcd_put"], appended["etcd_txn"]) == (share, share)


def test_all_cells_are_measured_where_they_can_be(zookeeper_server: ZooKeeperServer) -> None:
    lines: list[str] = []
    plan = Plan([Cell("get", 2, 4), GET, APPEND], 2, 0.02, 0.02)
    results = measure(plan, [target_of(zookeeper_server, "zookeeper")], lines.append)
    assert list(results) == [(Cell("get", 2, 4), "zookeeper"), (GET, "zookeeper")]
    assert all(len(outcome.rounds) == 2 and not outcome.errors for outcome in results.values())
    assert lines[0] == "warm-up: get"  # depth 1 comes first


def test_an_invalid_run_is_reported(zookeeper_server: ZooKeeperServer, admin: Admin) -> None:
    admin.call(wire.CREATE, wire.create_body(b"/bench-000001", b""))
    target = target_of(zookeeper_server, "zookeeper")
    gone = target._replace(name="gone", port=free_port())
    results = measure(Plan([GET], 1, 0.02, 0), [target, gone], lambda line: None)
    admin.call(wire.DELETE, wire.delete_body(b"/bench-000001"))
    assert not any(outcome.rounds for outcome in results.values())
    assert "error -110" in results[GET, "zookeeper"].errors[0]
    assert "ConnectionRefusedError" in results[GET, "gone"].errors[0]
