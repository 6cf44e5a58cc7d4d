"""What a znode takes."""

from bench.stages.memory import of_a_znode

# As `python -m bench.stages --znodes 20000` says; there is little room. They may rise with a reason only: a
# million znodes have to fit where ZooKeeper's JVM holds them, at no more than 600 bytes each beyond path and
# data.
_BYTES = 487
_BLOCKS = 7.98


def test_a_znode_takes_no_more_than_it_did() -> None:
    znode = of_a_znode(20_000)
    assert znode.bytes <= _BYTES * 1.01 < 600
    assert znode.blocks <= _BLOCKS + 0.1
