"""Violations, and that each invariant of a program is described."""

import re
from pathlib import Path

from examples.invariants import Violation, leading
from examples.zero_copy import storage

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_first_violation_of_many_errors() -> None:
    one, two = Violation("one", "is broken"), Violation("two", "is broken too")
    assert str(one) == "one: is broken"
    assert leading(ExceptionGroup("", [OSError(), ExceptionGroup("", [OSError(), one]), two])) is one
    other = OSError()
    assert leading(ExceptionGroup("", [ExceptionGroup("", [other]), OSError()])) is other


def _raised(program: str) -> set[str]:
    """The invariants that a program can find violated."""
    sources = "\n".join(path.read_text() for path in (REPOSITORY / "examples" / program).glob("*.py"))
    return set(re.findall(r"""Violation\(\s*"([a-z-]+)\"""", sources))


def test_every_invariant_has_its_meaning() -> None:
    assert len(_raised("zero_copy")) > 3
    assert _raised("zero_copy") <= storage.INVARIANTS.keys()


def test_every_program_is_in_the_list() -> None:
    listed = (REPOSITORY / "examples" / "README.md").read_text()
    programs = [path.parent.name for path in (REPOSITORY / "examples").glob("*/__main__.py")]
    assert [name for name in programs if f"| `{name}` |" not in listed] == []
