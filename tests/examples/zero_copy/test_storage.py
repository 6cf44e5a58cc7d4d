"""Each invariant is broken on purpose, and found; what is right passes."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.zero_copy.storage import INVARIANTS, Storage, Violation

ROWS = frozenset({"row"})
PARTS = {"r1": {"part": "x"}, "r2": {"part": "x"}}
MARKS = {"x": ["r1", "r2"]}


def storage() -> Storage:
    """Data that two replicas have marked."""
    made = Storage({"r1": 0, "r2": 0, "far": 1})
    made.write("x", ROWS, "r1")
    made.marked("x", "r1")
    made.marked("x", "r2")
    return made


def test_what_is_right_passes() -> None:
    made = storage()
    assert made.read("x", "r1") == ROWS
    made.write("y", ROWS, "r1")
    made.made("merged", "other", "y", "r1")
    made.marked("y", "r1")
    made.unmarking("y", "r1")
    made.delete("y", "r1")
    made.write("z", ROWS, "r2")
    made.made("merged", "other", "z", "r2")  # the first merge is gone
    made.delete("z", "r2")
    for identity, replica in (("x", "r1"), ("copy", "far")):  # each bucket gets the part once
        made.write("copy", ROWS, "far")
        made.made("moved", "part", identity, replica)
    assert [made.reaches(identity, "far") for identity in ("x", "copy", "y", "never")] == [
        False,
        True,
        False,
        False,
    ]
    made.delete("copy", "far")
    made.at_end(PARTS, MARKS, [], {"part": ROWS})
    assert (made.written, made.deleted) == (5, 3)


def deleted_while_marked(made: Storage) -> None:
    made.unmarking("x", "r1")
    made.delete("x", "r1")


def deleted_twice(made: Storage) -> None:
    made.unmarking("x", "r1")
    made.unmarking("x", "r2")
    made.delete("x", "r1")
    made.delete("x", "r2")


def marked_too_late(made: Storage) -> None:
    made.write("y", ROWS, "r1")
    made.delete("y", "r1")
    made.marked("y", "r2")


def made_twice(made: Storage, how: str) -> None:
    made.made(how, "part", "x", "r1")
    made.write("y", ROWS, "r1")
    made.made(how, "part", "y", "r2")


def fetched_too_late(made: Storage) -> None:
    made.marked("x", "r2", "tmp_fetch")
    made.unmarking("x", "r1")
    made.unmarking("x", "r2")
    made.delete("x", "r1")


def leaked(made: Storage) -> None:
    made.write("y", ROWS, "r1")
    made.at_end(PARTS, MARKS, [], {"part": ROWS})


BROKEN: list[tuple[str, Callable[[Storage], object]]] = [
    ("deleted-once", deleted_twice),
    ("deleted-once", lambda made: made.delete("never", "r1")),
    ("leaked", leaked),
    ("leaked", lambda made: made.at_end(PARTS, {**MARKS, "y": []}, [], {"part": ROWS})),
    ("leaked", lambda made: made.at_end(PARTS, {"x": ["r1", "r2", "r3"]}, [], {"part": ROWS})),
    ("leaked", lambda made: made.at_end(PARTS, MARKS, ["/table/zero_copy_s3/deleting/x"], {"part": ROWS})),
    ("marked", deleted_while_marked),
    ("marked", marked_too_late),
    ("marked", fetched_too_late),
    ("marked", lambda made: made.at_end(PARTS, {"x": ["r1"]}, [], {"part": ROWS})),
    ("merged-once", lambda made: made_twice(made, "merged")),
    ("moved-once", lambda made: made_twice(made, "moved")),
    ("parts", lambda made: made.at_end({"r1": {}}, {}, [], {"part": ROWS})),
    ("parts", lambda made: made.at_end(PARTS, MARKS, [], {"part": frozenset()})),
    ("same-bucket", lambda made: made.marked("x", "far")),
    ("same-bucket", lambda made: made.read("never", "r1")),
]


@pytest.mark.parametrize(("invariant", "breaks"), BROKEN)
def test_what_is_broken_is_found(invariant: str, breaks: Callable[[Storage], object]) -> None:
    with pytest.raises(Violation) as found:
        breaks(storage())
    assert found.value.invariant == invariant


def test_each_invariant_is_broken_above() -> None:
    """But three that are about what hosts do."""
    assert {invariant for invariant, _ in BROKEN} | {"lost-node", "rest", "tmp-fetch"} == INVARIANTS.keys()


def test_every_violation_has_its_meaning() -> None:
    program = Path(__file__).resolve().parents[3] / "examples" / "zero_copy"
    sources = "\n".join(path.read_text() for path in program.glob("*.py"))
    raised = set(re.findall(r"""Violation\(\s*"([a-z-]+)\"""", sources))
    assert len(raised) > 3
    assert raised <= INVARIANTS.keys()
