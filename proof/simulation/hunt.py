"""`python -m proof.simulation.hunt`: simulate seeds until something is wrong; `campaign.find` runs it.

The arguments are the fields of `Hunt` as JSON. It prints a `Violation` as JSON, or null.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from proof.simulation.kinds import run
from proof.simulation.planted import ROOT
from proof.simulation.record import WorldSpec


class Hunt(NamedTuple):
    """Which seeds to simulate."""

    world: str  # its kind, as of an Outcome
    seed: int
    tries: int
    hours: float  # simulated, of each seed
    faults: Sequence[str]  # the only ones there are


class Violation(NamedTuple):
    """What was wrong first."""

    seed: int
    what: str


def hunt(wanted: Hunt) -> Violation | None:
    """Simulate one seed after the other until something is wrong."""
    for seed in range(wanted.seed, wanted.seed + wanted.tries):
        violations = run(WorldSpec(wanted.world, seed, wanted.hours), tuple(wanted.faults)).violations
        if violations:
            return Violation(seed, violations[0])
    return None


def hunt_in(source: Path, wanted: Hunt) -> Violation | None:
    """The same by a process that imports the code from a folder."""
    process = subprocess.run(
        [sys.executable, "-m", "proof.simulation.hunt", json.dumps(wanted)],
        cwd=source,
        env=_importing_from(source),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(process.stdout)
    return None if found is None else Violation(*found)


def tests_fail_in(source: Path, file: str) -> Violation | None:
    """Run a file of tests on the code in a folder, until one fails: that one, if there is one."""
    places = [f"--config-file={ROOT}/pyproject.toml", f"--rootdir={source}", f"{source / file}"]
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", *places],
        cwd=source,
        env=_importing_from(source),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    failed = [line for line in process.stdout.splitlines() if line.startswith("FAILED")]
    return Violation(1, failed[0].replace(f"{source}/", "")) if failed else None


def _importing_from(source: Path) -> dict[str, str]:
    """The environment in which modules are found there first, whatever this process has (as Spark's does)."""
    return {**os.environ, "PYTHONPATH": str(source), "PYTHONSAFEPATH": "1"}


if __name__ == "__main__":
    print(json.dumps(hunt(Hunt(*json.loads(sys.argv[1])))))
