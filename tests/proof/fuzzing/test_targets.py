"""Every target on its corpus and a fixed number of inputs beyond it."""

import itertools
import os
import random
from collections.abc import Iterator

import pytest

from codec.constants import OpCode
from lab.client import packets
from proof.fuzzing import engine
from proof.fuzzing.__main__ import findings_of
from proof.fuzzing.corpus import CORPUS, committed
from proof.fuzzing.engine import Explorer
from proof.fuzzing.target import finding_of, judge
from proof.fuzzing.targets import TARGETS, connection
from proxy.support.environment import HOST

#: Changed inputs for each target, beyond its corpus. The number and the seed are fixed, so that no submission
#: fails by chance for what it has not changed; `make fuzz` goes on, with other seeds.
EXECUTIONS = int(os.environ.get("ZKETCD_FUZZING_EXECUTIONS", "1000"))
# How many times fewer for targets that do more with an input.
SLOW = {"machine": 8, "connection": 4, "http2-calls": 4}

ALL = pytest.mark.parametrize("name", TARGETS)


@pytest.fixture(scope="module")
def explorer() -> Iterator[Explorer]:
    if not engine.is_installed():
        pytest.skip("atheris has no wheel for this machine")
    with Explorer() as running:
        yield running


@ALL
def test_nothing_but_values_and_documented_errors(name: str, explorer: Explorer) -> None:
    executions = len(committed(name)) + EXECUTIONS // SLOW.get(name, 1)
    explored = explorer.explore(name, committed(name), 1, 100_000.0, executions)
    broken = [(finding.what, data.hex()) for data, finding in findings_of(TARGETS[name], explored).values()]
    assert broken == []
    assert explored.executions >= executions


@ALL
def test_the_corpus_still_means_something(name: str) -> None:
    """A target that has changed so that its inputs mean nothing any more would pass everything."""
    corpus = committed(name)
    assert 0 < len(corpus) <= 40
    assert [finding for data in corpus if (finding := finding_of(TARGETS[name], data))] == []
    assert "value" in {judge(TARGETS[name], data) for data in corpus}


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
