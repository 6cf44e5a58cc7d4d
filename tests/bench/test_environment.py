"""What stands below a table of figures."""

import pytest

from bench.environment import described, here_and_now


@pytest.mark.real
def test_the_machine_is_measured_before_anything_else() -> None:
    found = here_and_now(places=1000)
    speeds = [found[name] for name in ("loop ns", "gather ns", "fsync us", "txn us")]
    assert all(isinstance(speed, int) and speed > 0 for speed in speeds)
    assert described(found).endswith(f", an fsync {speeds[2]} us, a Txn of etcd {speeds[3]} us")


def test_results_of_older_runs_say_nothing_of_speeds() -> None:
    found = {"cores": 2, "zookeeper": "3.9.6", "etcd": "3.5.30", "python": "3.11.2", "time": "2026-11-27T01"}
    assert described(found) == "2 cores, ZooKeeper 3.9.6, etcd 3.5.30, Python 3.11.2, 2026-11-27"
    assert described({**found, "loop ns": 31}).endswith("2026-11-27; a step of an empty loop of Python 31 ns")
