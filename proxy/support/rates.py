"""Budgets as people write them: /path=500/s,10MB/s. Pure."""

import re

from schema.budgets import MOST_A_SECOND, Rule
from schema.paths import is_valid

_UNITS = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_UNITS |= {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_RATE = re.compile(rf"([0-9]{{1,13}})({'|'.join(_UNITS)})?/s")
_EXAMPLE = "such as /path=500/s,10MB/s"


def rule_of(text: str) -> Rule:
    """One budget: a path, and a number of writes, bytes or both a second. Raises ValueError."""
    path, _, rates = text.rpartition("=")
    if not is_valid(path):
        raise ValueError(f"{text!r} is no budget {_EXAMPLE}: {path!r} is no path of a node")
    found = {"writes": 0, "bytes": 0}
    for rate in rates.split(","):
        matched = _RATE.fullmatch(rate)
        if matched is None:
            raise ValueError(
                f"{text!r} is no budget {_EXAMPLE}: {rate!r} is no number of writes or bytes a second"
            )
        what = "bytes" if matched[2] else "writes"
        value = int(matched[1]) * _UNITS.get(matched[2] or "B", 1)
        if found[what] or not 1 <= value <= MOST_A_SECOND:
            why = "is given twice" if found[what] else f"is not between 1 and {MOST_A_SECOND} a second"
            raise ValueError(f"{text!r} is no budget {_EXAMPLE}: the number of {what} {why}")
        found[what] = value
    return Rule(path, found["writes"], found["bytes"])


def rules_of(text: str) -> tuple[Rule, ...]:
    """Budgets separated by commas; "" for none. A slash behind a comma begins the next. Raises ValueError."""
    rules = tuple(rule_of(each) for each in re.split(",(?=/)", text) if text)
    paths = [rule.path for rule in rules]
    if len(paths) != len(set(paths)):
        raise ValueError(f"{text!r} has two budgets of one path")
    return rules


def rates_text(rule: Rule) -> str:
    """The rates of a budget as `rule_of` reads them."""
    parts = [f"{rule.writes}/s"] if rule.writes else []
    if rule.bytes:
        number, unit = next(
            (rule.bytes // size, unit)
            for unit, size in sorted(_UNITS.items(), key=lambda each: -each[1])
            if rule.bytes % size == 0
        )
        parts.append(f"{number}{unit}/s")
    return ",".join(parts)
