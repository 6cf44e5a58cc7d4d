"""What stands below a table of figures."""

import pytest

from bench.environment import described, here_and_now


@pytest.mark.real
def test_the_machine_is_measured_before_anything_else() -> None:
    found = here_and_now(places=1000)
    speeds = [found[name] for name in ("loop ns", "gather ns", "fsync us", "txn us")]
    assert all(isinstance(speed, int) and speed > 0 for speed in speeds)
    assert described(found).endswith(f", an fsync {speeds[2]} us, a Txn of etcd {speeds[3]} us")
