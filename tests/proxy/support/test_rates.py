"""Budgets as people write them."""

import pytest

from proxy.support.rates import rates_text, rule_of, rules_of
from schema.budgets import Rule
from tests.table import one_by_one


@one_by_one(
    ("text", "rule"),
    [
        ("/a=500/s", Rule("/a", 500, 0)),
        ("/a=500/s,10MB/s", Rule("/a", 500, 10_000_000)),
        ("/a/b=1KiB/s", Rule("/a/b", 0, 1024)),
        ("/a=b=7B/s,2/s", Rule("/a=b", 2, 7)),
        ("/=1GB/s", Rule("/", 0, 10**9)),
        ("/a,b=3/s", Rule("/a,b", 3, 0)),
    ],
)
def test_a_rule_and_its_text(text: str, rule: Rule) -> None:
    assert rule_of(text) == rule
    assert rule_of(f"{rule.path}={rates_text(rule)}") == rule


def test_several_rules() -> None:
    assert rules_of("") == ()
    assert rules_of("/a=5/s,1MB/s,/b=2kB/s") == (Rule("/a", 5, 10**6), Rule("/b", 0, 2000))
    with pytest.raises(ValueError, match="two budgets of one path"):
        rules_of("/a=1/s,/a=2/s")


@one_by_one(
    ("text", "words"),
    [
        ("/a", "is no path"),
        ("a=1/s", "'a' is no path"),
        ("/a/=1/s", "'/a/' is no path"),
        ("/a=", "'' is no number of writes or bytes a second"),
        ("/a=5", "'5' is no number"),
        ("/a=5/m", "'5/m' is no number"),
        ("/a=1.5MB/s", "'1.5MB/s' is no number"),
        ("/a=5/s,6/s", "the number of writes is given twice"),
        ("/a=0/s", "the number of writes is not between 1 and"),
        ("/a=9999999GB/s", "the number of bytes is not between 1 and"),
    ],
)
def test_what_is_no_budget(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        rule_of(text)
