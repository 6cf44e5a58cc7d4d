"""Paths and entries."""

import pytest

from examples.zero_copy.paths import Change, ZeroCopyPaths


def test_parents_come_first() -> None:
    paths = ZeroCopyPaths("/t").every()
    assert all(path.rpartition("/")[0] in paths for path in paths[1:])


@pytest.mark.parametrize("change", [Change("a", ()), Change("abc", ("a", "b", "c")), Change("", ("a",))])
def test_a_change_is_read_as_it_was_written(change: Change) -> None:
    assert Change.decode(change.encode()) == change
