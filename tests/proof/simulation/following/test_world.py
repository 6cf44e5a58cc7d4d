"""Worlds in which a tree follows are right, and a seed gives the same world each time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from proof.simulation.following.world import simulate_follow
from proof.simulation.kinds import run
from proof.simulation.record import World

REPOSITORY = Path(__file__).resolve().parents[4]
_HOURS = 0.015
_RUN = f"""
from proof.simulation.following.world import simulate_follow
print(simulate_follow(1, {_HOURS}).fingerprint)
"""


@pytest.mark.parametrize("seed", [2, 3])
def test_nothing_is_wrong(seed: int) -> None:
    """Both ways: the tree follows, is cut over, and is followed by the files, which are read at the end."""
    outcome = run(World("follow", seed, _HOURS))
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
    assert outcome.kind == "follow"
    assert outcome.faults
    assert outcome.operations > 50  # after the cut-over


def test_a_follower_that_is_killed_again_and_again_is_level_in_the_end() -> None:
    outcome = simulate_follow(4, _HOURS, ("kill a follower", "a follower sleeps, and another takes over"))
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
    assert outcome.faults.keys() <= {
        "kill a follower",
        "a follower sleeps, and another takes over",
        "compact",
    }


def test_a_seed_gives_the_same_world_in_every_process() -> None:
    """Whatever Python hashes by, and wherever the folder of temporary files is."""
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    found = subprocess.run(
        [sys.executable, "-c", _RUN],
        env=environment,
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert found.stdout.strip() == simulate_follow(1, _HOURS).fingerprint
