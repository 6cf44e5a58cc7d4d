"""The engine finds planted defects that lie three comparisons deep."""

from collections.abc import Iterator

import pytest

from proof.fuzzing import engine
from proof.fuzzing.__main__ import findings_of
from proof.fuzzing.engine import EngineFailed, Explorer
from proof.fuzzing.target import finding_of
from tests.proof.fuzzing import defects

pytestmark = pytest.mark.skipif(not engine.is_installed(), reason="atheris has no wheel for this machine")


@pytest.fixture(scope="module")
def explorer() -> Iterator[Explorer]:
    with Explorer(defects.__name__, (defects.__name__,), slow_s=2) as running:
        yield running


@pytest.mark.parametrize("kind", defects.KINDS)
def test_planted_defects_are_found(explorer: Explorer, kind: str) -> None:
    # No end by time: a busy machine fails nothing.
    explored = explorer.explore(kind, [defects.GOOD], 1, 100_000.0, 200_000)
    target = defects.TARGETS[kind]
    if kind == "endless":
        assert "timeout" in explored.why
        (data,) = explored.broken
        finding = finding_of(target, data, 0.1)
        assert finding is not None
        assert finding.signature == kind
    else:
        assert [signature.partition(" ")[0] for signature in findings_of(target, explored)] == [kind]


def test_distilled_inputs_reach_what_all_reach(explorer: Explorer) -> None:
    inputs = [b"", defects.GOOD, b"\x15" + bytes(7), b"\x15" + bytes(9), b"\x15\x25" + bytes(6), bytes(100)]
    assert len(explorer.distill("Wrong", inputs)) < len(inputs)
    assert {data[:2] for data in explorer.distill("Wrong", inputs)} >= {b"\x15\0", b"\x15\x25"}


def test_an_engine_that_does_not_start_says_so() -> None:
    with Explorer("no.such.table") as broken, pytest.raises(EngineFailed, match="does not start"):
        broken.explore("any", [], 1, 1.0)
