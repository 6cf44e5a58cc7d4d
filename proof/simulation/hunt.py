"""`python -m proof.simulation.hunt`: simulate seeds until something is wrong; `campaign.find` runs it.

The arguments are the fields of `Hunt` as JSON. It prints a `Violation` as JSON, or null.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from proof.simulation.calm import simulate_calm
from proof.simulation.following.world import simulate_follow
from proof.simulation.simulation import simulate


class Hunt(NamedTuple):
    """Which seeds to simulate."""

    world: str  # a key of _SIMULATED
    seed: int
    tries: int
    hours: float  # simulated, of each seed
    faults: Sequence[str]  # the only ones there are


class Violation(NamedTuple):
    """What was wrong first."""

    seed: int
    what: str


_SIMULATED = {"stormy": simulate, "calm": simulate_calm, "follow": simulate_follow}


def hunt(wanted: Hunt) -> Violation | None:
    """Simulate one seed after the other until something is wrong."""
    simulated = _SIMULATED[wanted.world]
    for seed in range(wanted.seed, wanted.seed + wanted.tries):
        violations = simulated(seed, wanted.hours, tuple(wanted.faults)).violations
        if violations:
            return Violation(seed, violations[0])
    return None


def hunt_in(source: Path, wanted: Hunt) -> Violation | None:
    """The same by a process that imports the code from a folder."""
    run = subprocess.run(
        [sys.executable, "-m", "proof.simulation.hunt", json.dumps(wanted)],
        cwd=source,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(run.stdout)
    return None if found is None else Violation(*found)


if __name__ == "__main__":
    print(json.dumps(hunt(Hunt(*json.loads(sys.argv[1])))))
