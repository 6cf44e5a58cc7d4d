"""Minimises a script that differs: fewer steps, requests and multi operations, by delta debugging."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from lab.oracle.requests import Multi
from tests.compat.script import Call, Script, Step

Item = TypeVar("Item")


def shrink(script: Script, differs: Callable[[Script], bool], seconds: float = 60.0) -> Script:
    """Return a small script that still differs; gives the best so far when `seconds` are over."""
    deadline = time.monotonic() + seconds

    def holds(candidate: Sequence[Step]) -> bool:
        return time.monotonic() < deadline and differs(list(candidate))

    best = list(_fewer(script, holds))
    place = 0
    while place < len(best):
        candidates = ([*best[:place], step, *best[place + 1 :]] for step in _smaller_steps(best[place]))
        smaller = next(filter(holds, candidates), None)
        if smaller is None:
            place += 1
        else:
            best = smaller
    return list(_fewer(best, holds))


def _fewer(items: Sequence[Item], holds: Callable[[Sequence[Item]], bool]) -> Sequence[Item]:
    """Leave out ever smaller chunks, the last first, as long as the rest still holds."""
    size = max(len(items) // 2, 1)
    while True:
        end = len(items)
        while end > 0:
            start = max(end - size, 0)
            candidate = [*items[:start], *items[end:]]
            if candidate and holds(candidate):
                items = candidate
            end = start
        if size == 1:
            return items
        size = max(size // 2, 1)


def _smaller_steps(step: Step) -> Iterator[Step]:
    """Yield versions of a call with less in it, the smallest first."""
    if not isinstance(step, Call):
        return
    if len(step.requests) > 1:
        for request in step.requests:
            yield Call(step.slot, (request,))
        for place in range(len(step.requests)):
            yield Call(step.slot, step.requests[:place] + step.requests[place + 1 :])
    for place, request in enumerate(step.requests):
        if isinstance(request, Multi) and len(request.ops) > 1:
            for size in range(1, len(request.ops)):
                for start in range(len(request.ops) - size + 1):
                    smaller = Multi(request.ops[start : start + size])
                    yield Call(step.slot, (*step.requests[:place], smaller, *step.requests[place + 1 :]))
