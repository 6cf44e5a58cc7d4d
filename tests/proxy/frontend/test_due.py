"""Looks at what may be due, and what they cost."""

from proxy.frontend.due import DueQueue


class _Item:
    def __init__(self, number: int) -> None:
        self.id = number
        self.second = -1


def _ids(items: list[_Item]) -> list[int]:
    return [item.id for item in items]


def test_what_may_be_due_is_taken_once_in_the_order_of_seconds() -> None:
    queue: DueQueue[_Item] = DueQueue()
    items = [_Item(number) for number in range(6)]
    for item, due in zip(items, (12.9, 10.0, 12.1, 11.5, 10.9, 13.0), strict=True):
        queue.file(item, due)
    assert _ids(queue.take(9.9)) == []
    assert _ids(queue.take(10.0)) == [1, 4]  # 4 is not due yet: whoever takes it files it again
    queue.file(items[4], 10.9)
    assert _ids(queue.take(10.5)) == [4]
    assert _ids(queue.take(12.5)) == [3, 0, 2]
    assert _ids(queue.take(99.0)) == [5]
    assert _ids(queue.take(99.0)) == []


def test_what_is_filed_anew_or_removed_is_not_where_it_was() -> None:
    queue: DueQueue[_Item] = DueQueue()
    moved, removed, stays = (_Item(number) for number in range(3))
    for item in (moved, removed, stays):
        queue.file(item, 20.0)
    queue.file(moved, 15.0)
    queue.remove(removed)
    queue.remove(removed)
    assert _ids(queue.take(19.0)) == [0]
    queue.file(moved, 25.0)
    assert _ids(queue.take(24.0)) == [2]
    queue.file(removed, 3.0)  # its time is over
    assert _ids(queue.take(24.0)) == [1]
    assert _ids(queue.take(25.0)) == [0]
