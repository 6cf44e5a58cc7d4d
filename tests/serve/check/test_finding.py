"""How findings are printed, and what they make the exit code."""

from serve.check.finding import Finding, document, doubtful, exit_code, good, page, wrong
from tests.table import one_by_one

GOOD, DOUBTFUL, WRONG = good("a", "fine"), doubtful("b", "hm"), wrong("c", "no")


@one_by_one(
    ("findings", "code"),
    [([], 0), ([GOOD], 0), ([GOOD, DOUBTFUL], 1), ([WRONG, GOOD], 2), ([DOUBTFUL, WRONG], 2)],
)
def test_the_worst_is_the_exit_code(findings: list[Finding], code: int) -> None:
    assert exit_code(findings) == code
    assert document(findings)["exit_code"] == code


def test_the_worst_is_printed_first() -> None:
    lines = ["wrong (1)", "  c: no", "doubtful (1)", "  b: hm", "good (1)", "  a: fine"]
    assert page([GOOD, DOUBTFUL, WRONG]).splitlines() == lines
    assert document([WRONG])["findings"] == [{"grade": "wrong", "about": "c", "text": "no"}]
