"""An offered rate: when requests are due, and that they are sent."""

import pytest

from bench import paced
from bench.load import Admin, connected
from bench.paced import Schedule
from bench.workloads import WORKLOADS, clean_up, prepare
from lab.servers import ZooKeeperServer

MS = 1_000_000


def test_many_requests_are_due_each_millisecond() -> None:
    schedule = Schedule(0, 2_500)
    assert schedule.until(0) == [(0, 2)]
    assert schedule.next == MS
    assert schedule.until(MS - 1) == []
    assert schedule.until(3 * MS) == [(MS, 3), (2 * MS, 3), (3 * MS, 2)]


def test_few_requests_have_moments_of_their_own() -> None:
    schedule = Schedule(7, 300)
    found = schedule.until(7 + 1_000 * MS)
    assert found[:2] == [(7, 1), (7 + 3_333_333, 1)]
    # The one at the start and 300 after it.
    assert sum(count for _, count in found) == 301


@pytest.mark.parametrize("rate", [1, 999, 1_000, 1_001, 123_457])
def test_no_request_is_lost_in_rounding(rate: int) -> None:
    schedule = Schedule(0, rate)
    total = sum(count for now in range(0, 1_000 * MS, 7 * MS) for _, count in schedule.until(now))
    total += sum(count for _, count in schedule.until(1_000 * MS - 100))
    assert total == rate


@pytest.mark.parametrize(("rate", "depth"), [(200, 8), (20_000, 8), (2_000_000, 2)])
def test_what_was_counted_is_what_happened(rate: int, depth: int, zookeeper_server: ZooKeeperServer) -> None:
    workload = WORKLOADS["create"](b"/paced", 3, 0)
    with Admin(zookeeper_server.port) as admin:
        prepare(workload, admin)
        with connected(zookeeper_server.port, [workload.stream(i) for i in range(3)]) as connections:
            timing = paced.drive(connections, depth, rate, 0.1)
        assert 0 < sum(timing.counts) <= rate * 0.1 + 1
        assert sum(count for _, count in timing.samples) == sum(timing.counts)
        assert timing.seconds >= 0.1
        workload.verify(admin, timing.counts)
        clean_up(workload, admin, timing.counts)
        admin.close_session()
