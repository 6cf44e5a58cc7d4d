"""Random scripts on real ZooKeeper and zketcd: no difference may show.

ZKETCD_DIFF_SEED (a first seed), ZKETCD_DIFF_SCRIPTS and ZKETCD_DIFF_STEPS reproduce or widen a run.
"""

import os

import pytest

from tests.compat.generate import Generator
from tests.compat.runner import describe, run
from tests.compat.script import Script
from tests.compat.shrink import shrink
from tests.compat.side import Server

pytestmark = pytest.mark.real

FIRST_SEED = int(os.environ.get("ZKETCD_DIFF_SEED", "1"))
SCRIPTS = int(os.environ.get("ZKETCD_DIFF_SCRIPTS", "2"))
STEPS = int(os.environ.get("ZKETCD_DIFF_STEPS", "250"))


SEEDS = range(FIRST_SEED, FIRST_SEED + SCRIPTS)


def check(seed: int, script: Script, oracle: Server, subject: Server) -> None:
    found = run(script, oracle, subject)
    if found is None:
        return

    def differs(candidate: Script) -> bool:
        return run(candidate, oracle, subject) is not None

    shrunk = shrink(script[: found.place + 1], differs)
    again = run(shrunk, oracle, subject) or found
    pytest.fail(f"seed {seed}: {describe(again, shrunk, oracle, subject)}", pytrace=False)


@pytest.mark.parametrize("bursts", [False, True], ids=["lockstep", "pipelined"])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_difference(oracle: Server, subject: Server, seed: int, bursts: bool) -> None:
    check(seed, Generator(seed, bursts).script(STEPS), oracle, subject)


@pytest.mark.parametrize("bursts", [False, True], ids=["lockstep", "pipelined"])
@pytest.mark.parametrize("seed", SEEDS[: SCRIPTS // 2])
def test_no_difference_over_two_proxies(pair_oracle: Server, pair: Server, seed: int, bursts: bool) -> None:
    check(seed, Generator(seed + 1_000_000, bursts).script(STEPS), pair_oracle, pair)


@pytest.mark.parametrize("bursts", [False, True], ids=["lockstep", "pipelined"])
@pytest.mark.parametrize("seed", SEEDS[: (SCRIPTS + 3) // 4])
def test_no_difference_in_what_quotas_count(oracle: Server, subject: Server, seed: int, bursts: bool) -> None:
    check(seed, Generator(seed + 2_000_000, bursts, quotas=True).script(STEPS), oracle, subject)


@pytest.mark.parametrize("seed", SEEDS[: SCRIPTS // 2])
def test_no_difference_where_writes_go_ahead_of_reads(oracle: Server, subject: Server, seed: int) -> None:
    check(seed, Generator(seed + 3_000_000, bursts=True, plain=True).script(STEPS), oracle, subject)
