"""Violations, and that examples/workloads.md names what is checked."""

import re
from pathlib import Path

from examples.database_replicated import ledger
from examples.invariants import Violation, leading
from examples.zero_copy import storage

REPOSITORY = Path(__file__).resolve().parents[2]
_PAGE = (REPOSITORY / "examples" / "workloads.md").read_text()


def test_the_first_violation_of_many_errors() -> None:
    one, two = Violation("one", "is broken"), Violation("two", "is broken too")
    assert str(one) == "one: is broken"
    assert leading(ExceptionGroup("", [OSError(), ExceptionGroup("", [OSError(), one]), two])) is one
    other = OSError()
    assert leading(ExceptionGroup("", [ExceptionGroup("", [other]), OSError()])) is other


def test_every_invariant_is_in_the_page() -> None:
    names = set(re.findall(r"^\* `([a-z]+)`", str(ledger.__doc__), re.MULTILINE))
    assert len(names) == 11
    names |= storage.INVARIANTS.keys()
    assert [name for name in names if f"| `{name}` |" not in _PAGE] == []


def test_every_program_is_in_the_list() -> None:
    listed = (REPOSITORY / "examples" / "README.md").read_text()
    programs = [path.parent.name for path in (REPOSITORY / "examples").glob("*/__main__.py")]
    assert [name for name in programs if f"| `{name}` |" not in listed] == []
