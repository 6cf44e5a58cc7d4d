"""Every target on its corpus and on inputs that are made of it by chance."""

import itertools
import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from codec.client import framed
from codec.constants import OpCode
from proof.fuzzing.corpus import CORPUS, MOST_COMMITTED, committed
from proof.fuzzing.target import MOST_BYTES, finding_of, judge
from proof.fuzzing.targets import TARGETS, connection
from proxy.support.environment import HOST

#: Changed inputs for each target. They are the same in each run, so that no submission fails by chance for
#: what it has not changed; `make fuzz` runs more, with other seeds and led by coverage.
EXAMPLES = int(os.environ.get("ZKETCD_FUZZING_EXAMPLES", "100"))
# How many times fewer for targets that do more with an input.
SLOW = {"costs": 10, "machine": 8, "connection": 4, "http2-calls": 4}

ALL = pytest.mark.parametrize("name", TARGETS)


@some.composite
def changed(draw: some.DrawFn, inputs: list[bytes]) -> bytes:
    """The beginning of one input and the end of another, with some bytes of chance between."""
    one, other = draw(some.sampled_from(inputs)), draw(some.sampled_from(inputs))
    end, begin = draw(some.integers(0, len(one))), draw(some.integers(0, len(other)))
    return (one[:end] + draw(some.binary(max_size=8)) + other[begin:])[:MOST_BYTES]


@ALL
def test_nothing_but_values_and_documented_errors(name: str) -> None:
    @settings(derandomize=True, database=None, max_examples=EXAMPLES // SLOW.get(name, 1))
    @given(changed(committed(name)))
    def run(data: bytes) -> None:
        judge(TARGETS[name], data)

    run()


@ALL
def test_the_corpus_still_means_something(name: str) -> None:
    """A target that has changed so that its inputs mean nothing any more would pass everything."""
    corpus = committed(name)
    assert 0 < len(corpus) <= MOST_COMMITTED
    assert [finding for data in corpus if (finding := finding_of(TARGETS[name], data))] == []
    assert "value" in {judge(TARGETS[name], data) for data in corpus}


def test_a_connection_is_judged_without_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Atheris found it, once: a process that stands still for 10 ms puts an unknown request off.

    The bad length behind that ends the connection first, and the reply is lost, as it may be.
    """
    chance = random.Random(1)
    steps = itertools.accumulate(chance.choice((0, 1_000_000_000)) for _ in itertools.count())
    monkeypatch.setattr(HOST.clock, "perf_counter_ns", lambda: next(steps))
    refused, unknown = framed(1, OpCode.CREATE, b"\0"), framed(2, 999)
    for _ in range(10):
        TARGETS["connection"].run(bytes([connection.NOISE]) + refused + unknown + b"\x7f\0\0\0")


def test_there_is_no_corpus_without_a_target() -> None:
    assert {file.stem for file in CORPUS.iterdir()} == set(TARGETS)
    assert sum(file.stat().st_size for file in CORPUS.iterdir()) < 300_000
