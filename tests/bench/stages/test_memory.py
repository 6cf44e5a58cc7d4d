"""What a znode takes."""

from collections.abc import Callable

import pytest

from bench.stages.memory import Znode, applied, loaded

# As `python -m bench.stages --znodes 5000` says; there is little room. They may rise with a reason only: a
# million znodes have to fit, with etcd's share, where ZooKeeper's JVM holds them.


@pytest.mark.parametrize(("weigh", "most", "blocks"), [(loaded, 246, 2.01), (applied, 246, 2.01)])
def test_a_znode_takes_no_more_than_it_did(weigh: Callable[[int], Znode], most: float, blocks: float) -> None:
    znode = weigh(5_000)
    assert znode.bytes <= most * 1.01
    assert znode.blocks <= blocks + 0.1
