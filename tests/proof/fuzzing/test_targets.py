"""Every target on its corpus and a fixed number of inputs beyond it."""

import itertools
import os
import random

import pytest

from codec.constants import OpCode
from lab.client import packets
from proof.fuzzing.corpus import CORPUS, committed
from proof.fuzzing.engine import Fuzzer
from proof.fuzzing.seeds import seeds_of
from proof.fuzzing.targets import TARGETS, connection
from proxy.support.environment import HOST

#: Changed inputs for each target, beyond its corpus. The number and the seed are fixed, so that no submission
#: fails by chance for what it has not changed; `make fuzz` goes on, with other seeds.
EXECUTIONS = int(os.environ.get("ZKETCD_FUZZING_EXECUTIONS", "1000"))
# How many times fewer for targets that do more with an input.
SLOW = {"machine": 8, "connection": 4, "http2-calls": 4}

ALL = pytest.mark.parametrize("name", TARGETS)


@ALL
def test_nothing_but_values_and_documented_errors(name: str) -> None:
    target = TARGETS[name]
    fuzzer = Fuzzer(target, committed(name), seed=1)
    enough = len(committed(name)) + EXECUTIONS // SLOW.get(name, 1)
    fuzzer.run(lambda executions: executions >= enough)
    assert {
        signature: (found.finding.what, found.data.hex()) for signature, found in fuzzer.found.items()
    } == {}
    assert fuzzer.executions >= enough


@ALL
def test_the_corpus_brings_what_the_seeds_bring(name: str) -> None:
    """A target that has changed so that its inputs mean nothing any more would pass everything."""
    corpus = committed(name)
    assert 0 < len(corpus) <= 40
    with_corpus, with_seeds = (Fuzzer(TARGETS[name], given, 0) for given in (corpus, seeds_of(name)[:20]))
    for fuzzer in (with_corpus, with_seeds):
        fuzzer.run(lambda _executions: True)
    assert with_corpus.lines >= with_seeds.lines


def test_a_connection_is_judged_without_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Atheris found it, once: a process that stands still for 10 ms puts an unknown request off.

    The bad length behind that ends the connection first, and the reply is lost, as it may be.
    """
    chance = random.Random(1)
    steps = itertools.accumulate(chance.choice((0, 1_000_000_000)) for _ in itertools.count())
    monkeypatch.setattr(HOST.clock, "perf_counter_ns", lambda: next(steps))
    refused, unknown = packets.request(1, OpCode.CREATE, b"\0"), packets.request(2, 999)
    for _ in range(10):
        TARGETS["connection"].run(bytes([connection.NOISE]) + refused + unknown + b"\x7f\0\0\0")


def test_there_is_no_corpus_without_a_target() -> None:
    assert {file.stem for file in CORPUS.iterdir()} == set(TARGETS)
    assert sum(file.stat().st_size for file in CORPUS.iterdir()) < 300_000
