"""The engine finds planted defects that lie three comparisons deep."""

import random

import pytest

from proof.fuzzing import coverage
from proof.fuzzing.engine import Fuzzer, distill
from tests.proof.fuzzing.defects import GOOD, TARGET, decode

MOST = 200_000


@pytest.fixture(autouse=True)
def _fewer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "MOST_STEPS", 5000)


@pytest.fixture(scope="module")
def fuzzed() -> Fuzzer:
    """A run that has found all four."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coverage, "MOST_STEPS", 5000)
        fuzzer = Fuzzer(TARGET, [GOOD], seed=1)
        fuzzer.run(lambda executions: len(fuzzer.found) == 4 or executions >= MOST)
    return fuzzer


def test_planted_defects_are_found(fuzzed: Fuzzer) -> None:
    kinds = {signature.partition(" ")[0] for signature in fuzzed.found}
    assert kinds == {"IndexError", "Wrong", "memory", "endless"}


def test_chance_alone_does_not_find_them() -> None:
    """Else the test above would not show that coverage leads anywhere."""
    chance = random.Random(1)
    for _ in range(20_000):
        data = bytearray(GOOD)
        for _ in range(3):
            data[chance.randrange(len(data))] = chance.randrange(256)
        assert decode(bytes(data)) == 1 or bytes(data[:3]) != b"\x15\x25\x35"


def test_the_same_seed_is_the_same_run() -> None:
    runs = [Fuzzer(TARGET, [GOOD], seed=5) for _ in range(2)]
    for fuzzer in runs:
        fuzzer.run(lambda executions: executions >= 30_000)
    assert runs[0].new == runs[1].new
    assert runs[0].new


def test_a_distilled_corpus_reaches_what_all_inputs_reach(fuzzed: Fuzzer) -> None:
    small = distill(TARGET, [*fuzzed.kept, *fuzzed.kept, bytes(1000)], most=40)
    assert len(small) <= len(fuzzed.kept)
    again = Fuzzer(TARGET, small, seed=1)
    again.run(lambda _executions: True)
    everything = Fuzzer(TARGET, fuzzed.kept, seed=1)
    everything.run(lambda _executions: True)
    assert again.lines == everything.lines
    assert len(distill(TARGET, fuzzed.kept, most=1)) == 1
