"""Budgets: how many writes, and bytes of data, clients may make below a path each second.

Part of the state, so that all servers decide alike. Each budget is a token bucket that holds one second of
its rate. A request is applied as long as something is left in the buckets of all budgets that it falls under.
If it changes anything, it takes what it costs, so what is left may fall below 0. A client that may not write
takes nothing from the others. Integers only: buckets count thousandths, and time is in milliseconds. Without
budgets a request costs one look at an empty dict.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, assert_never
from zlib import crc32

from codec.constants import SEQUENTIAL_MODES, ErrorCode
from proxy.state.by_path import ByPath
from proxy.state.effect import Effect
from proxy.state.outcome import Refusal
from proxy.state.pause import NO_PAUSE, Pause
from schema.budgets import MOST_A_SECOND, BudgetsValue, BudgetValue, Rule
from schema.paths import is_valid

#: More budgets would make each digest slow.
MOST_BUDGETS = 256

_MILLI = 1000
_SKEW = 1000  # milliseconds by which a clock may be behind the others before it is set to them


class Budget:
    """One budget, and what is left of it."""

    __slots__ = ("bytes", "bytes_left", "filled", "path", "writes", "writes_left")

    def __init__(self, value: BudgetValue) -> None:
        self.path, self.writes, self.bytes, self.writes_left, self.bytes_left, self.filled = value

    def left_at(self, clock: int) -> tuple[int, int]:
        """The writes and bytes that are left at a moment, in thousandths."""
        passed = clock - self.filled
        return (
            min(self.writes * _MILLI, self.writes_left + self.writes * passed),
            min(self.bytes * _MILLI, self.bytes_left + self.bytes * passed),
        )

    def is_spent(self, clock: int) -> bool:
        """Whether nothing is left at a moment."""
        writes, size = self.left_at(clock)
        return (self.writes > 0 and writes <= 0) or (self.bytes > 0 and size <= 0)

    def take(self, clock: int, writes: int, size: int) -> None:
        """Spend writes and bytes."""
        writes_left, bytes_left = self.left_at(clock)
        self.writes_left = writes_left - writes * _MILLI if self.writes else 0
        self.bytes_left = bytes_left - size * _MILLI if self.bytes else 0
        self.filled = clock

    @property
    def value(self) -> BudgetValue:
        """The form in which a snapshot has the budget."""
        return BudgetValue(self.path, self.writes, self.bytes, self.writes_left, self.bytes_left, self.filled)


#: Writes and bytes of data, by the path of the budget.
Costs: TypeAlias = dict[str, tuple[int, int]]


class Budgets(ByPath[Budget]):
    """All budgets of a tree, by path."""

    __slots__ = ("_clock", "_offsets")

    def __init__(self) -> None:
        super().__init__()
        # Hosts' clocks differ. Each incarnation's clock moves this one by as much as it moves itself.
        self._clock = 0
        self._offsets: dict[str, int] = {}

    # -- rules -----------------------------------------------------------------------------------------------

    @property
    def rules(self) -> list[Rule]:
        """All rules, sorted by path."""
        return [Rule(*self[path].value[:3]) for path in sorted(self)]

    def set(self, rule: Rule, incarnation: str, clock: int) -> None:
        """Set or remove a budget. Its bucket is full then. Raises Refusal for what no budget can be."""
        path, writes, size = rule
        if not is_valid(path) or writes > MOST_A_SECOND or size > MOST_A_SECOND:
            raise Refusal(ErrorCode.BAD_ARGUMENTS)
        if not writes and not size:
            if path in self:
                del self[path]
            if not self:
                self._clock = 0
                self._offsets.clear()
            return
        if len(self) >= MOST_BUDGETS and path not in self:
            raise Refusal(ErrorCode.BAD_ARGUMENTS)
        if not self:
            self._clock = clock
            self._offsets[incarnation] = 0
        full = BudgetValue(path, writes, size, writes * _MILLI, size * _MILLI, self._clock)
        self[path] = Budget(full)

    def under(self, path: str, pause: Pause = NO_PAUSE) -> list[Budget]:
        """The budgets of a path and of all paths above it. A client may have sent any text as the path."""
        return [self[above] for above in self.upwards(path, pause)]

    # -- time ------------------------------------------------------------------------------------------------

    def enter(self, incarnation: str, clock: int) -> None:
        """An entry begins; `clock` is its sender's.

        The first entry of an incarnation moves no time. A sender that falls behind the others by more than a
        second continues from their time, so a clock that jumps does not stop the time when its host is gone.
        """
        offset = self._offsets.get(incarnation)
        if offset is None:
            self._offsets[incarnation] = self._clock - clock
            return
        now = clock + offset
        if now > self._clock:
            self._clock = now
        elif now < self._clock - _SKEW:
            self._offsets[incarnation] = self._clock - clock

    def forget(self, incarnation: str) -> None:
        """No entry of an incarnation will follow."""
        self._offsets.pop(incarnation, None)

    # -- requests --------------------------------------------------------------------------------------------

    def costs_of(self, effect: Effect, fields: Any, pause: Pause = NO_PAUSE) -> Costs:
        """What a request costs."""
        return self.costs(_written(effect, fields, pause), pause)

    def refuses(self, incarnation: str, clock: int, effect: Effect, fields: Any) -> str | None:
        """The path of a budget that has nothing left for a request that would be sent now.

        Changes nothing: a proxy asks before it appends, and a request that is not appended needs no order. A
        sender whose time is not known is not refused: its entry makes the time known.
        """
        now = self._time_of(incarnation, clock)
        if now is None:
            return None
        asked: set[str] = set()
        for path, _ in _written(effect, fields, NO_PAUSE):
            if path not in asked:
                asked.add(path)
                for budget in self.under(path):
                    if budget.is_spent(now):
                        return budget.path
        return None

    def is_any_spent(self, incarnation: str, clock: int) -> bool:
        """Whether `refuses` may refuse anything."""
        now = self._time_of(incarnation, clock)
        return now is not None and any(budget.is_spent(now) for budget in self.values())

    def _time_of(self, incarnation: str, clock: int) -> int | None:
        offset = self._offsets.get(incarnation)
        if offset is None or clock + offset < self._clock - _SKEW:
            return None
        return max(clock + offset, self._clock)

    def costs(self, written: Iterable[tuple[str, int]], pause: Pause = NO_PAUSE) -> Costs:
        """Writes and bytes of a request, by the path of the budget, of its operations: path and bytes."""
        by_path: Costs = {}
        for path, size in written:
            _add(by_path, path, 1, size)
        costs: Costs = {}
        for path, (writes, size) in pause.each(by_path.items()):
            for budget in pause.each(self.under(path, pause)):
                _add(costs, budget.path, writes, size)
        return costs

    def spent(self, costs: Costs) -> str | None:
        """The path of a budget that refuses a request with these costs."""
        return next((path for path in costs if self[path].is_spent(self._clock)), None)

    def take(self, costs: Costs) -> None:
        """Take the costs of a request that has changed something."""
        for path, (writes, size) in costs.items():
            self[path].take(self._clock, writes, size)

    # -- the whole -------------------------------------------------------------------------------------------

    @property
    def value(self) -> BudgetsValue:
        """The form in which a snapshot has all budgets."""
        budgets = tuple([self[path].value for path in sorted(self)])
        return BudgetsValue(self._clock, dict(self._offsets), budgets)

    def load(self, value: BudgetsValue) -> None:
        """The reverse of `value`."""
        self._clock = value.clock
        self._offsets = dict(value.offsets)
        for path in list(self):
            del self[path]
        for budget in value.budgets:
            self[budget.path] = Budget(budget)

    def hash(self) -> int:
        """A hash of all of them for the digest; 0 without any."""
        if not self:
            return 0
        total = crc32(b"%d" % self._clock)
        for budget in self.values():
            # Not repr(): what is printable in it, versions of Python disagree about.
            total += crc32(ascii(tuple(budget.value)).encode())
        return total + _offsets_hash(self._offsets)

    def left(self) -> Mapping[str, tuple[int, int]]:
        """The writes and bytes that are left now, by path, in thousandths."""
        return {path: self[path].left_at(self._clock) for path in sorted(self)}


def _counts(effect: Effect) -> bool:
    match effect:
        case Effect.CREATES | Effect.SETS_DATA | Effect.SETS_ACL:
            return True
        case Effect.NOTHING | Effect.DELETES | Effect.OF_PARTS:
            return False
        case _:
            assert_never(effect)


#: What budgets count.
COUNTED = tuple(filter(_counts, Effect))


def _written(effect: Effect, fields: Any, pause: Pause) -> Iterator[tuple[str, int]]:
    """The paths and bytes of a request's operations that budgets count."""
    if effect is not Effect.OF_PARTS:
        if effect in COUNTED and fields[0]:
            yield _path_and_size(effect, fields)
        return
    for kind, part in pause.each(fields):
        if kind.effect in COUNTED and part[0]:
            yield _path_and_size(kind.effect, part)


def _add(costs: Costs, path: str, writes: int, size: int) -> None:
    more, larger = costs.get(path, (0, 0))
    costs[path] = more + writes, larger + size


def _path_and_size(effect: Effect, fields: Any) -> tuple[str, int]:
    path = fields[0]
    if effect is Effect.CREATES:
        path = written_below(path, sequential=fields[3] in SEQUENTIAL_MODES)
    return path, 0 if effect is Effect.SETS_ACL else len(fields[1] or b"")


def written_below(path: str, *, sequential: bool) -> str:
    """The path whose budgets count: that of a sequential node is another one with each number."""
    return path + "0" * 10 if sequential else path


def _offsets_hash(offsets: Mapping[str, int]) -> int:
    return sum(crc32(f"{incarnation} {offset}".encode()) for incarnation, offset in offsets.items())
