"""Each invariant of distributed DDL is broken on purpose, and found; what is right passes."""

from collections.abc import Callable

import pytest

from examples.invariants import Violation
from examples.replicated_merge_tree.ddl_judge import INVARIANTS, DdlJudge


def test_what_is_right_passes() -> None:
    made = DdlJudge()
    made.executed("r0", "query-1")
    made.told("query-1", {"r0"}, {"r0"})
    made.executed("r0", "query-2")
    made.at_end({"query-2", "query-1"}, ["r0"])


def finished_by_nobody(made: DdlJudge) -> None:
    made.executed("r0", "query")
    made.told("query", {"r0"}, set())


def executed_twice(made: DdlJudge) -> None:
    made.executed("r0", "query")
    made.executed("r0", "query")


def executed_in_disorder(made: DdlJudge) -> None:
    made.executed("r0", "query-2")
    made.executed("r0", "query-1")


BROKEN: list[tuple[str, Callable[[DdlJudge], None]]] = [
    ("ddl-finished", lambda made: made.told("query", {"r0"}, {"r0"})),
    ("ddl-finished", finished_by_nobody),
    ("ddl-once", executed_twice),
    ("ddl-once", executed_in_disorder),
    ("ddl-once", lambda made: made.at_end({"query"}, ["r0"])),
]


@pytest.mark.parametrize(("invariant", "breaks"), BROKEN)
def test_what_is_broken_is_found(invariant: str, breaks: Callable[[DdlJudge], None]) -> None:
    with pytest.raises(Violation) as found:
        breaks(DdlJudge())
    assert found.value.invariant == invariant


def test_each_invariant_is_broken_above() -> None:
    assert {invariant for invariant, _ in BROKEN} == INVARIANTS.keys()
