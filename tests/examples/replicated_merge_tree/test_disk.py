"""A replica's disk."""

from examples.replicated_merge_tree.disk import Disk
from examples.replicated_merge_tree.parts import Block, Part

A, B, AB = Part("p", 0, 0, 0), Part("p", 1, 1, 0), Part("p", 0, 1, 1)
ROWS = {0: Block("a", 1)}


def with_parts(*parts: Part) -> Disk:
    disk = Disk()
    for part in parts:
        disk.pending[part] = ROWS
        disk.commit(part, 0.0)
    return disk


def test_a_merge_makes_its_sources_outdated() -> None:
    disk = with_parts(A, B, AB)
    assert set(disk.active) == {AB}
    assert disk.outdated == {A: 0.0, B: 0.0}
    assert disk.parts() == {A, B, AB}
    disk.removed(A)
    assert disk.parts() == {B, AB}
    assert disk.had == {A, B, AB}


def test_what_is_committed_late_is_outdated_at_once() -> None:
    disk = with_parts(AB)
    disk.pending[A] = ROWS
    disk.commit(A, 3.0)
    assert disk.outdated == {A: 3.0}


def test_a_part_of_a_dropped_partition_does_not_come_back() -> None:
    disk = with_parts(A)
    assert disk.drop("p", 1, 5.0) == [A]
    disk.pending[B] = ROWS
    disk.commit(B, 6.0)
    assert not set(disk.active)
    assert disk.drop("p", 1, 7.0) == [A, B]


def test_files_that_disappear() -> None:
    disk = with_parts(A, B)
    disk.lose(A)
    assert (set(disk.active), disk.missing, disk.content(A)) == ({B}, {A}, None)
    assert disk.parts() == {A, B}, "its znode is there"
    assert disk.has_rows_of(A), "B has a block of this number here"
    assert not disk.has_rows_of(Part("p", 1, 1, 0))
    disk.missing.discard(A)
    disk.pending[A] = ROWS
    disk.commit(A, 1.0)
    assert set(disk.active) == {A, B}


def test_a_lost_disk_is_empty_and_what_is_pending_is_known() -> None:
    disk = with_parts(A, B)
    disk.lose(A)
    disk.drop("p", 1, 5.0)
    disk.pending[AB] = ROWS
    disk.wipe()
    assert (disk.parts(), list(disk.active), disk.pending) == (set(), [], {AB: ROWS})
    assert disk.had == {A, B}
    disk.commit(AB, 6.0)
    assert set(disk.active) == {AB}, "the drop is forgotten, too"
    disk.removed(AB)
    assert not list(disk.active)
