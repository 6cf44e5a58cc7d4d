"""A replica's queue."""

from examples.replicated_merge_tree.entries import DROP, GET, MERGE, Entry
from examples.replicated_merge_tree.parts import Part, dropped_range
from examples.replicated_merge_tree.queue import Queue, Queued

A, B, C, AB = Part("p", 0, 0, 0), Part("p", 1, 1, 0), Part("p", 3, 3, 0), Part("p", 0, 1, 1)


def queued(number: int, kind: str, part: Part, *sources: Part) -> Queued:
    return Queued(f"queue-{number:010d}", Entry(kind, part, "r", str(number), sources))


GET_B, MERGE_AB = queued(0, GET, B), queued(1, MERGE, AB, A, B)
DROP_2, GET_C = queued(2, DROP, dropped_range("p", 2)), queued(3, GET, C)


def test_the_future_is_what_is_there_when_all_is_done() -> None:
    queue = Queue([A], [GET_B, MERGE_AB])
    assert set(queue.future) == {AB}
    queue.add(DROP_2)
    queue.add(GET_C)
    assert set(queue.future) == {C}
    assert [each.node for each in queue] == [each.node for each in (GET_B, MERGE_AB, DROP_2, GET_C)]


def test_what_is_done_is_out() -> None:
    queue = Queue([A], [GET_B, MERGE_AB])
    queue.done(GET_B.node)
    assert len(queue) == 1
    assert not queue.holds(GET_B)
    assert queue.holds(MERGE_AB)
    assert not queue.holds(queued(1, GET, C)), "another entry under the same name"


def test_a_drop_makes_what_comes_before_it_needless() -> None:
    queue = Queue([A], [GET_B, MERGE_AB, DROP_2, GET_C])
    assert queue.obsolete_by(DROP_2) == [GET_B, MERGE_AB]


def test_a_part_that_comes_before_its_drop_has_no_future() -> None:
    """Else the leader would merge it, after the drop."""
    queue = Queue([A], [GET_B, DROP_2])
    queue.got(B)
    assert set(queue.future) == set()
    queue.got(C)
    assert set(queue.future) == {C}
