"""Paths of tables and queries."""

import pytest

from examples.replicated_merge_tree.paths import TablePaths, sequence_number


def test_parents_come_first() -> None:
    table = TablePaths("/t")
    for paths in (table.every(), list(table.replica("r").every())):
        assert all(path.rpartition("/")[0] in paths for path in paths[1:])


def test_numbers_of_sequential_nodes() -> None:
    assert sequence_number("/t/log/log-0000000012") == 12
    with pytest.raises(ValueError, match="invalid literal"):
        sequence_number("/t/log/other")


def test_nodes_that_a_table_does_not_have() -> None:
    table = TablePaths("/t")
    replica = table.replica("r")
    known = [*table.every(), *replica.every(), replica.is_active, replica.part("p_0_0_0"), table.block("p_1")]
    left = [
        "/t/temp/x",
        "/t/block_numbers/p/block-1",
        "/t/replicas/s",
        f"{replica.queue}/queue-1",
        "/t/quorum/status",
    ]
    assert table.unknown([*known, *left], ["r"]) == left
