"""Each invariant is broken on purpose, and found; what is right passes."""

from collections.abc import Callable

import pytest

from examples.invariants import Violation
from examples.zero_copy.bucket import INVARIANTS, Bucket

ROWS = frozenset({"row"})
PARTS = {"r1": {"part": "x"}, "r2": {"part": "x"}}
MARKS = {"x": ["r1", "r2"]}


def bucket() -> Bucket:
    """Data that two replicas have marked."""
    made = Bucket()
    made.write("x", ROWS)
    made.marked("x", "r1")
    made.marked("x", "r2")
    return made


def test_what_is_right_passes() -> None:
    made = bucket()
    assert made.read("x", "r1") == ROWS
    made.write("y", ROWS)
    made.merged("other", "y", "r1")
    made.marked("y", "r1")
    made.unmarking("y", "r1")
    made.delete("y", "r1")
    made.write("z", ROWS)
    made.merged("other", "z", "r2")  # the first merge is gone
    made.delete("z", "r2")
    made.at_end(PARTS, MARKS, [], {"part": ROWS})
    assert (made.written, made.deleted) == (3, 2)


def deleted_while_marked(made: Bucket) -> None:
    made.unmarking("x", "r1")
    made.delete("x", "r1")


def deleted_twice(made: Bucket) -> None:
    made.unmarking("x", "r1")
    made.unmarking("x", "r2")
    made.delete("x", "r1")
    made.delete("x", "r2")


def marked_too_late(made: Bucket) -> None:
    made.write("y", ROWS)
    made.delete("y", "r1")
    made.marked("y", "r2")


def merged_twice(made: Bucket) -> None:
    made.merged("part", "x", "r1")
    made.write("y", ROWS)
    made.merged("part", "y", "r2")


def leaked(made: Bucket) -> None:
    made.write("y", ROWS)
    made.at_end(PARTS, MARKS, [], {"part": ROWS})


BROKEN: list[tuple[str, Callable[[Bucket], object]]] = [
    ("deleted-once", deleted_twice),
    ("deleted-once", lambda made: made.delete("never", "r1")),
    ("leaked", leaked),
    ("leaked", lambda made: made.at_end(PARTS, {**MARKS, "y": []}, [], {"part": ROWS})),
    ("leaked", lambda made: made.at_end(PARTS, {"x": ["r1", "r2", "r3"]}, [], {"part": ROWS})),
    ("leaked", lambda made: made.at_end(PARTS, MARKS, ["/table/zero_copy_s3/merged/part"], {"part": ROWS})),
    ("marked", deleted_while_marked),
    ("marked", marked_too_late),
    ("marked", lambda made: made.read("y", "r1")),
    ("marked", lambda made: made.at_end(PARTS, {"x": ["r1"]}, [], {"part": ROWS})),
    ("merged-once", merged_twice),
    ("parts", lambda made: made.at_end({"r1": {}}, {}, [], {"part": ROWS})),
    ("parts", lambda made: made.at_end(PARTS, MARKS, [], {"part": frozenset()})),
]


@pytest.mark.parametrize(("invariant", "breaks"), BROKEN)
def test_what_is_broken_is_found(invariant: str, breaks: Callable[[Bucket], object]) -> None:
    with pytest.raises(Violation) as found:
        breaks(bucket())
    assert found.value.invariant == invariant


def test_each_invariant_is_broken_above() -> None:
    """But `rest`, which is about waiting: see test_run.py."""
    assert {invariant for invariant, _ in BROKEN} | {"rest"} == INVARIANTS.keys()
