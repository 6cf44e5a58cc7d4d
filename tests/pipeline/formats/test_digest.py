"""The tree's digest; the samples hold it against real servers, with null data and each field."""

from pipeline.formats import digest


def test_what_is_below_zookeeper_counts_nothing() -> None:
    fields = (0, 0, 0, 0, 0, 0, -1, 0, 0)
    assert digest.of_node(b"/zookeeper", b"", *fields) != 0
    assert digest.of_node(b"/zookeeper/quota", b"", *fields) == 0
    assert digest.of_node(b"/zookeeperx", b"", *fields) != 0


def test_sums_are_signed_longs() -> None:
    assert digest.signed((1 << 63) - 1) == (1 << 63) - 1
    assert digest.signed(1 << 63) == -(1 << 63)
    assert digest.signed((1 << 64) + 5) == 5
