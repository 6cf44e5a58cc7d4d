"""Paths and entries."""

import pytest

from examples.zero_copy.paths import Change, ZeroCopyPaths


def test_parents_come_first() -> None:
    paths = ZeroCopyPaths("/t").every()
    assert all(path.rpartition("/")[0] in paths for path in paths[1:])


def test_the_names_of_the_design_note() -> None:
    paths = ZeroCopyPaths("/t")
    assert paths.mark("part", "id", "replica") == "/t/zero_copy_s3/shared/part/id/replica"
    assert paths.merge_lock("part") == "/t/zero_copy_s3/merged/part"


@pytest.mark.parametrize("change", [Change("a", ()), Change("abc", ("a", "b", "c")), Change("", ("a",))])
def test_a_change_is_read_as_it_was_written(change: Change) -> None:
    assert Change.decode(change.encode()) == change
