"""What a check has found, and how all findings are printed. Pure."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple


class Grade(IntEnum):
    """How good a finding is. The worst of all is the exit code."""

    GOOD = 0
    DOUBTFUL = 1
    WRONG = 2


class Finding(NamedTuple):
    """One result."""

    grade: Grade
    about: str
    text: str


def good(about: str, text: str) -> Finding:
    """As it should be."""
    return Finding(Grade.GOOD, about, text)


def doubtful(about: str, text: str) -> Finding:
    """zketcd works, but an operator should look at it."""
    return Finding(Grade.DOUBTFUL, about, text)


def wrong(about: str, text: str) -> Finding:
    """zketcd does not work so, or can lose data."""
    return Finding(Grade.WRONG, about, text)


def exit_code(findings: Sequence[Finding]) -> int:
    """0 if all is good, 1 if something is doubtful, 2 if something is wrong."""
    return max((finding.grade for finding in findings), default=Grade.GOOD).value


def page(findings: Sequence[Finding]) -> str:
    """All findings for people, the worst first."""
    lines = []
    for grade in reversed(Grade):
        of_grade = [finding for finding in findings if finding.grade is grade]
        if of_grade:
            lines.append(f"{grade.name.lower()} ({len(of_grade)})")
            lines += [f"  {finding.about}: {finding.text}" for finding in of_grade]
    return "\n".join(lines)


def document(findings: Sequence[Finding]) -> dict[str, Any]:
    """All findings for programs."""
    return {
        "exit_code": exit_code(findings),
        "findings": [
            {"grade": finding.grade.name.lower(), "about": finding.about, "text": finding.text}
            for finding in findings
        ],
    }
