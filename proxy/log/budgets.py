"""Budgets at one proxy: what its operator wants them to be, and which requests are not worth an append."""

import logging
from collections.abc import Callable, Iterable

from proxy.log.append.outbox import Outbox
from proxy.log.append.pending import CallbackRequest, Pending
from proxy.state.budgets import LEVEL
from proxy.state.machine import Machine
from proxy.support.rates import rates_text
from schema.budgets import Rule, encode_rule
from schema.entry import Kind

log = logging.getLogger(__name__)


class SpentBudgets:
    """Refuses requests of this proxy's clients while a budget is spent, before they take room in the log.

    The state machine decides about all others. As with the space in etcd, proxies need not agree about a
    request that is not appended.
    """

    def __init__(
        self, machine: Machine, incarnation: Callable[[], str], report: Callable[[str], None]
    ) -> None:
        """`report`: takes the path of the budget of each request that was refused."""
        self._machine = machine
        self._incarnation = incarnation
        self.report = report

    def __bool__(self) -> bool:
        return bool(self._machine.budgets)

    def refusing(self, pending: Pending, clock: int) -> str | None:
        """The path of the budget that a request would fail by now. `clock`: milliseconds since 1970."""
        if pending.kind != Kind.CLIENT or pending.fields is None:  # not decoded: it is long
            return None
        budgets = self._machine.budgets
        return budgets.refuses(self._incarnation(), clock, pending.opcode, pending.fields)


def propose(outbox: Outbox, machine: Machine, rules: Iterable[Rule]) -> None:
    """Make a proxy's rules those of the tree, where they differ. Budgets of other paths stay."""
    there = set(machine.budgets.rules)
    wanted = [rule for rule in rules if rule not in there]
    if wanted and machine.level < LEVEL:
        log.error(
            "--budget has no effect: the tree has level %d, and budgets need level %d. When all proxies are"
            " upgraded, run `zketcd raise-level %d`, and restart this proxy or run `zketcd budget set`",
            machine.level,
            LEVEL,
            LEVEL,
        )
        return
    for rule in wanted:
        outbox.submit(CallbackRequest(Kind.BUDGET, 0, 0, (), encode_rule(*rule), _reporting(rule)))


def _reporting(rule: Rule) -> Callable[[Pending, int, int, bytes], None]:
    def done(_pending: Pending, _zxid: int, error: int, _body: bytes) -> None:
        if error:
            log.error("the budget %s=%s was refused (error %d)", rule.path, rates_text(rule), error)
        else:
            log.info("the budget of %s is %s now", rule.path, rates_text(rule))

    return done
