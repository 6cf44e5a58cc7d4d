"""Budgets: how many writes, and bytes of data, clients may make below a path each second.

A rule is the body of a request of kind BUDGET. What the state machine remembers of the rules is a member of a
snapshot's state. README.md has both layouts.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Any, NamedTuple

from schema.errors import BadValue
from schema.json_values import number, text
from schema.text import Fields, pack_texts

#: The highest rate, far above what etcd takes. JSON tools still read its thousandths exactly.
MOST_A_SECOND = 1 << 40

_RATES = Struct(">qq")


class Rule(NamedTuple):
    """Body of BUDGET. A rate of 0 is no limit; a rule without any limit removes the path's budget."""

    path: str
    writes: int  # a second
    bytes: int  # of data, a second


class BudgetValue(NamedTuple):
    """A budget as a snapshot keeps it. What is left may be below 0."""

    path: str
    writes: int  # a second; 0: no limit
    bytes: int  # a second; 0: no limit
    writes_left: int  # in thousandths
    bytes_left: int  # in thousandths
    filled: int  # when they were last filled up, by the clock of all budgets


class BudgetsValue(NamedTuple):
    """All budgets, and their clock, which the clocks of entries move."""

    clock: int  # milliseconds
    offsets: dict[str, int]  # of each incarnation: what its clock lacks to that clock
    budgets: tuple[BudgetValue, ...]  # sorted by path


NO_BUDGETS = BudgetsValue(0, {}, ())


def encode_rule(path: str, writes: int, size: int) -> bytes:
    """The arguments as in `Rule`."""
    return _RATES.pack(writes, size) + pack_texts((path,))


def decode_rule(body: bytes) -> Rule:
    """Raises BadValue."""
    fields = Fields(body, "a budget")
    writes, size = fields.unpack(_RATES)
    path = fields.text()
    fields.end()
    if writes < 0 or size < 0:
        raise BadValue(f"a budget has the rates {writes} and {size}")
    return Rule(path, writes, size)


def pack_budgets(value: BudgetsValue) -> dict[str, Any]:
    """As members of JSON."""
    return {
        "clock": value.clock,
        "offsets": dict(sorted(value.offsets.items())),
        "budgets": [list(budget) for budget in value.budgets],
    }


def unpack_budgets(members: Mapping[str, Any]) -> BudgetsValue:
    """The reverse of `pack_budgets`. Raises AttributeError, KeyError, TypeError, ValueError."""
    return BudgetsValue(
        number(members["clock"]),
        {incarnation: number(offset) for incarnation, offset in members["offsets"].items()},
        tuple([BudgetValue(text(path), *map(number, numbers)) for path, *numbers in members["budgets"]]),
    )
