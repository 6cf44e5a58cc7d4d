"""Our own engine: no library, and the same run for the same seed and number of executions."""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from proof.fuzzing.coverage import MOST_STEPS, Coverage, Endless
from proof.fuzzing.mutate import mutate
from proof.fuzzing.target import Finding, Target, judge, judge_memory


class Found(NamedTuple):
    """An input that breaks the invariant."""

    data: bytes
    finding: Finding


class Fuzzer:
    """Fuzzes one target."""

    def __init__(self, target: Target, inputs: Iterable[bytes], seed: int) -> None:
        """`inputs` are tried first, in this order."""
        self.target = target
        self.executions = 0
        self.steps: set[int] = set()
        #: Inputs that have reached something new, the given ones among them.
        self.kept: list[bytes] = []
        #: Those that were not given.
        self.new: list[bytes] = []
        #: One for each signature.
        self.found: dict[str, Found] = {}
        self._coverage = Coverage(target.modules)
        self._chance = random.Random(f"{seed} {target.name}")
        self._waiting = [*inputs, b""]
        self._waiting.reverse()

    @property
    def lines(self) -> int:
        """Lines reached so far."""
        return self._coverage.lines(self.steps)

    @property
    def total_lines(self) -> int:
        """Lines that there are."""
        return self._coverage.total

    def run(self, enough: Callable[[int], bool]) -> None:
        """Try inputs: first all that were given, then changed ones until `enough(executions)`."""
        while self._waiting:
            self._try(self._waiting.pop(), given=True)
        while not enough(self.executions):
            self._try(mutate(self._chance, self._chosen(), self.kept or [b""]), given=False)

    def _chosen(self) -> bytes:
        """Recent inputs more often: what is behind them has been tried least."""
        kept = self.kept or [b""]
        return kept[max(self._chance.randrange(len(kept)), self._chance.randrange(len(kept)))]

    def _try(self, data: bytes, *, given: bool) -> None:
        self.executions += 1
        finding = traced(self._coverage, self.target, data)
        fresh = not self._coverage.seen <= self.steps
        if fresh:
            self.steps |= self._coverage.seen
        if finding is None and (fresh or given):
            try:
                judge_memory(self.target, data)
            except Finding as too_much:
                finding = too_much
        if finding is not None:
            self.found.setdefault(finding.signature, Found(data, finding))
        elif fresh:
            self.kept.append(data)
            if not given:
                self.new.append(data)


def traced(coverage: Coverage, target: Target, data: bytes) -> Finding | None:
    """Judge an input under the tracer; what it reached is in `coverage.seen`."""
    try:
        coverage.trace(lambda: judge(target, data))
    except Finding as found:
        return found
    except Endless:
        return Finding(f"{len(data)} bytes keep it busy for more than {MOST_STEPS} lines", "endless")
    return None


def until(seconds: float) -> Callable[[int], bool]:
    """Enough after so many seconds from now."""
    end = time.monotonic() + seconds
    return lambda _executions: time.monotonic() >= end


def distill(target: Target, inputs: Sequence[bytes], most: int) -> list[bytes]:
    """The inputs that together reach what all reach, or up to `most` that reach the most for their size."""
    coverage = Coverage(target.modules)
    reached = [
        (data, coverage.seen)
        for data in sorted(set(inputs), key=lambda data: (len(data), data))
        if traced(coverage, target, data) is None
    ]
    chosen: list[bytes] = []
    so_far: set[int] = set()
    while reached and len(chosen) < most:
        # Per byte, or one long input would be taken for what a few short ones reach.
        data, steps = max(reached, key=lambda one: len(one[1] - so_far) / (32 + len(one[0])))
        if steps <= so_far:
            break
        chosen.append(data)
        so_far |= steps
    return chosen
