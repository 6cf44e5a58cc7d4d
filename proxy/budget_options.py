"""The budgets that a proxy sets at its start, as options name them."""

from argparse import ArgumentTypeError
from dataclasses import dataclass

from proxy.option_table import option
from proxy.support.rates import rules_of
from schema.budgets import Rule


def budgets(text: str) -> tuple[Rule, ...]:
    """Budgets such as /path=500/s,10MB/s, separated by commas; "" for none."""
    try:
        return rules_of(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


@dataclass(frozen=True, slots=True)
class BudgetOptions:
    """How much clients may write."""

    rules: tuple[Rule, ...] = option(
        "most writes, and bytes of data, that clients may make below a path each second, such as"
        " /app=500/s,10MB/s; several separated by commas. The proxy makes them the tree's budgets at its"
        " start, so give all proxies the same ones (docs/budgets.md)",
        name="--budget",
        type=budgets,
        metavar="BUDGETS",
    )
