"""What budgets would have refused: the rows of a log, judged by the state machine's own rules."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from codec.constants import ErrorCode
from pipeline.traffic import names
from pipeline.traffic.table import TrafficRow
from pipeline.traffic.views import View
from proxy.state.budgets import COUNTED, Budgets, written_below
from proxy.support.rates import rates_text
from schema.budgets import Rule

VIEW = View("traffic_budgets", "What budgets would have refused", "", "")
_COUNTED = names.with_effect(*COUNTED)
_OK = names.result(ErrorCode.OK)


class Counts:
    """Of one budget."""

    __slots__ = ("bytes", "first", "last", "refused", "requests", "seconds")

    def __init__(self) -> None:
        self.requests = self.refused = self.bytes = 0
        self.seconds: set[int] = set()  # in which requests were refused


class Request(NamedTuple):
    """The columns of traffic that budgets need."""

    time: int
    proxy: str | None
    operation: str
    path: str | None
    bytes: int
    mode: str | None
    parts: Any  # each an Operation, or the same as a row of Spark; None if it is no multi
    result: str | None


class Trial:
    """Budgets on trial. The rows have to come in the order of the log."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        self._budgets = Budgets()
        self._counts = {rule.path: Counts() for rule in self._rules}

    def passing(self, rows: Iterable[TrafficRow]) -> Iterator[TrafficRow]:
        """The same rows, each counted."""
        for row in rows:
            self.count(row)
            yield row

    def count(self, row: TrafficRow | Request) -> None:
        """Take a request's costs from the budgets."""
        sender = row.proxy or ""
        if not self._budgets:
            for rule in self._rules:
                self._budgets.set(rule, sender, row.time)
        else:
            self._budgets.enter(sender, row.time)
        operations = [row] if row.parts is None else row.parts
        written = [
            (written_below(each.path, sequential=names.is_sequential(each.mode)), each.bytes)
            for each in operations
            if each.operation in _COUNTED and each.path
        ]
        costs = self._budgets.costs(written)
        if not costs:
            return
        spent = self._budgets.spent(costs)
        if spent is None and row.result in (None, _OK):  # unknown ones count
            self._budgets.take(costs)
        for path, (_, size) in costs.items():
            counts = self._counts[path]
            counts.requests += 1
            counts.bytes += size
        if spent is not None:
            self._counts[spent].refused += 1
            self._counts[spent].seconds.add(row.time // 1000)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each budget."""
        return [
            {
                "path": rule.path,
                "budget": rates_text(rule),
                "requests": counts.requests,
                "bytes": counts.bytes,
                "refused": counts.refused,
                "refused_percent": round(100 * counts.refused / counts.requests, 1)
                if counts.requests
                else 0.0,
                "seconds_with_refusals": len(counts.seconds),
            }
            for rule, counts in ((rule, self._counts[rule.path]) for rule in self._rules)
        ]
