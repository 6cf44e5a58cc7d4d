"""Each invariant is broken on purpose, and found; what is right passes."""

from collections.abc import Callable

import pytest

from examples.invariants import Violation
from examples.replicated_merge_tree.table import INVARIANTS, DdlJudge, Entry, Judge, leaked

A, B = "p_0_0_0", "p_1_1_0"
BOTH = {A: "p_a", B: "p_b"}
BLOCKS = {"p_a": A, "p_b": B}


def judge() -> Judge:
    """Two inserts, with all that belongs to them."""
    made = Judge()
    for number, (part, block) in enumerate(BOTH.items()):
        made.number_given("p", number, made.floor("p"))
        made.inserted(part, block)
    return made


def ddl() -> DdlJudge:
    """One host that has executed one query."""
    made = DdlJudge()
    made.executed("r0", "query-1")
    return made


def test_what_is_right_passes() -> None:
    made = judge()
    made.duplicate("p_a", A)
    made.copied("r0", 0, [0, 1])
    made.copied("r0", 2, [2])
    made.queue_found("r0", ["x"], ["x"])
    made.parts_found("r0", BOTH, list(BOTH))
    made.number_unknown("p")
    made.counter_is("p", 3)
    made.at_end({"r0": BOTH, "r1": BOTH}, BLOCKS)
    leaked([])
    queries = ddl()
    queries.reported("query-1", {"r0"}, {"r0"})
    queries.executed("r0", "query-2")
    queries.at_end({"query-2", "query-1"}, ["r0"])


def test_an_entry_is_read_as_it_was_written() -> None:
    entry = Entry(A, "r0", "p_a")
    assert Entry.decode(entry.encode()) == entry


def copied_twice() -> None:
    made = judge()
    made.copied("r0", 0, [0])
    made.copied("r0", 0, [0])


def duplicate_of_another() -> None:
    made = judge()
    made.duplicate("p_a", B)
    made.at_end({"r0": BOTH}, BLOCKS)


BROKEN: list[tuple[str, Callable[[], object]]] = [
    ("block-number", lambda: judge().number_given("p", 1, 0)),  # given before
    ("block-number", lambda: judge().number_given("p", 2, 2)),  # not above what was known
    ("block-number", lambda: judge().counter_is("p", 4)),  # two numbers for no insert
    ("block-number", lambda: judge().counter_is("p", 1)),  # it will give 1 again
    ("ddl-finished", lambda: ddl().reported("query-2", {"r0"}, {"r0"})),
    ("ddl-finished", lambda: ddl().reported("query-1", {"r0"}, set())),
    ("ddl-once", lambda: ddl().executed("r0", "query-1")),
    ("ddl-once", lambda: ddl().executed("r0", "query-0")),
    ("ddl-once", lambda: ddl().at_end({"query-1", "query-2"}, ["r0"])),
    ("deduplication", lambda: judge().inserted("p_2_2_0", "p_a")),
    ("deduplication", duplicate_of_another),
    ("deduplication", lambda: judge().at_end({"r0": BOTH}, {"p_a": A})),
    ("leaked", lambda: leaked(["/t/queue/left"])),
    ("parts", lambda: judge().parts_found("r0", BOTH, [A])),
    ("queue", lambda: judge().copied("r0", 0, [0, 2])),
    ("queue", lambda: judge().copied("r0", 0, [0, 0])),
    ("queue", copied_twice),
    ("queue", lambda: judge().queue_found("r0", [A], [A, B])),
    ("rows", lambda: judge().at_end({"r0": {A: "p_a"}}, BLOCKS)),  # lost
    ("rows", lambda: judge().at_end({"r0": {**BOTH, "p_7_7_0": "p_c"}}, BLOCKS)),  # from nowhere
    ("rows", lambda: judge().at_end({"r0": {A: "p_b", B: "p_b"}}, BLOCKS)),  # another one's
]


@pytest.mark.parametrize(("invariant", "breaks"), BROKEN)
def test_what_is_broken_is_found(invariant: str, breaks: Callable[[], object]) -> None:
    with pytest.raises(Violation) as found:
        breaks()
    assert found.value.invariant == invariant


def test_each_invariant_is_broken_above() -> None:
    """But `rest`, for which a whole run is needed."""
    assert {invariant for invariant, _ in BROKEN} | {"rest"} == INVARIANTS.keys()
