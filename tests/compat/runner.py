"""Runs a script on two servers in lock-step and stops at the first step that they answer differently."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from typing import NamedTuple

import pytest

from lab.oracle.requests import Ping, Request, SetWatches, SetWatches2, Sync
from lab.servers import zookeeper_jar_version
from tests.compat.compare import Matcher, Mismatch, Outcome
from tests.compat.script import Call, Close, Expire, Open, Script, Step
from tests.compat.side import Server, Side

_runs = itertools.count(1)


class Difference(NamedTuple):
    """The first step that the two sides answered differently, and how."""

    place: int
    step: Step
    reason: str
    left: Outcome
    right: Outcome


def run(script: Script, left: Server, right: Server) -> Difference | None:
    """Return the first difference between the two servers' answers to the script, None if there is none."""
    root = f"/run-{os.getpid()}-{next(_runs)}"
    if not is_3_9_6():
        # It still tells by setWatches of nodes that the client may not read.
        script = [step for step in script if not _sets_watches_again(step)]
    strict = not any(isinstance(step, Call) and len(step.requests) > 1 for step in script)
    matcher = Matcher(left.name, right.name, strict)
    # Where several servers serve one tree, only sync makes the others' changes visible.
    barrier = Ping() if len(left.ports) == len(right.ports) == 1 else Sync("")
    with contextlib.ExitStack() as stack:
        sides = [Side(server, root) for server in (left, right)]
        for side in sides:
            stack.callback(side.close)
        for index, step in enumerate(script):
            outcomes = _play(step, sides, barrier)
            unordered = isinstance(step, Close | Expire | Open)
            try:
                matcher.compare(*outcomes, unordered=unordered, positions=not isinstance(step, Expire))
            except Mismatch as mismatch:
                return Difference(index, step, str(mismatch), *outcomes)
    return None


@functools.cache
def is_3_9_6() -> bool:
    """Whether the oracle is ZooKeeper 3.9.6 or newer."""
    return tuple(map(int, zookeeper_jar_version().split("."))) >= (3, 9, 6)


def _sets_watches_again(step: Step) -> bool:
    return isinstance(step, Call) and any(isinstance(one, SetWatches | SetWatches2) for one in step.requests)


def _play(step: Step, sides: list[Side], barrier: Request) -> list[Outcome]:
    for side in sides:
        side.begin(step)
    outcomes = [side.complete(step) for side in sides]
    for side in sides:
        side.begin_barrier(barrier)
    for side, outcome in zip(sides, outcomes, strict=True):
        side.complete_barrier(outcome)
    return outcomes


def demand_equal(script: Script, left: Server, right: Server) -> None:
    """Fail the test with a report unless both servers answer the script alike."""
    found = run(script, left, right)
    if found is not None:
        pytest.fail(describe(found, script[: found.place + 1], left, right), pytrace=False)


def describe(difference: Difference, script: Script, left: Server, right: Server) -> str:
    """Return a report that ends with the script as Python to paste into `cases`."""
    lines = [
        f"step {difference.place}: {difference.step!r}",
        f"differs: {difference.reason}",
        *_transcript(left.name, difference.left),
        *_transcript(right.name, difference.right),
        "script:",
        "    [",
        *(f"        {step!r}," for step in script),
        "    ]",
    ]
    return "\n".join(lines)


def _transcript(name: str, outcome: Outcome) -> list[str]:
    lines = [f"{name}:"]
    for slot, seen in sorted(outcome.items()):
        lines += [f"    slot {slot}: {item!r}" for item in seen]
    return lines
