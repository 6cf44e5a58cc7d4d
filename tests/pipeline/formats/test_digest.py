"""The tree's digest; the samples hold it against real servers."""

from pipeline.formats import digest


def test_the_root_and_what_is_below_zookeeper() -> None:
    # A new server's tree: the root and /zookeeper; its children count nothing (FileSnap of 3.9, snapshot.0).
    fields = (0, 0, 0, 0, 0, 0, -1, 0, 0)
    assert digest.of_node(b"", b"", *fields) != 0
    assert digest.of_node(b"/zookeeper", b"", *fields) != 0
    assert digest.of_node(b"/zookeeper/quota", b"", *fields) == 0
    assert digest.of_node(b"/zookeeperx", b"", *fields) != 0


def test_null_and_empty_data_sum_alike_but_every_field_counts() -> None:
    plain = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    base = digest.of_node(b"/a", b"", *plain)
    assert digest.of_node(b"/a", None, *plain) == base
    assert digest.of_node(b"/a", b"x", *plain) != base
    for position in range(9):
        other = [*plain[:position], plain[position] + 1, *plain[position + 1 :]]
        assert digest.of_node(b"/a", b"", *other) != base


def test_sums_are_signed_longs() -> None:
    assert digest.signed((1 << 63) - 1) == (1 << 63) - 1
    assert digest.signed(1 << 63) == -(1 << 63)
    assert digest.signed((1 << 64) + 5) == 5
