"""Worlds without a planted fault are right, and a seed gives the same world each time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codec.jute import Acl
from proof.simulation.simulation import simulate
from proxy.state.rights import rights_of
from tests.proof.simulation.worlds import small

REPOSITORY = Path(__file__).resolve().parents[3]
SEEDS = [int(word) for word in os.environ.get("SIMULATION_SEEDS", "1").split()]
HOURS = float(os.environ.get("SIMULATION_HOURS", "0.01"))
_RUN = "from proof.simulation.simulation import simulate; print(simulate(5, 0.005).fingerprint)"


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_wrong(seed: int) -> None:
    outcome = simulate(seed, HOURS)
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
    assert outcome.faults
    assert outcome.operations > 100


def test_exceptions_at_any_line_leave_no_server_deaf() -> None:
    world = small(2, 0.015, ("an exception", "out of memory"))
    outcome = world.run()
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
    assert outcome.faults["out of memory"] > 1
    assert outcome.faults["an exception"] > 1
    assert world.spoiled > 1


def test_clients_of_a_storm_read_and_are_refused() -> None:
    """The naive ZooKeeper judges reads under ACLs, at the zxids of their answers."""
    world = small(2, 0.01, ("hot restart", "kill a proxy"))
    outcome = world.run()
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
    assert world.naive.acl_reads.judged > world.naive.acl_reads.refused > 0


def test_a_seed_gives_the_same_run_to_the_byte_in_every_process() -> None:
    # The other process hashes strings with another seed than this one.
    other = subprocess.run(
        [sys.executable, "-c", _RUN],
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        cwd=REPOSITORY,
        check=False,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert other.returncode == 0, other.stderr
    # What this process has done before does not count: ACLs of this world are compiled already.
    readable = Acl(1, "world", "anyone")
    kept = [
        rights_of((readable,)),
        *(rights_of((Acl(31, "sasl", name), readable)) for name in ("ann", "bob")),
        rights_of((Acl(31, "ip", "10.0.0.0/8"), readable)),
    ]
    assert other.stdout.strip() == simulate(5, 0.005).fingerprint
    assert kept
