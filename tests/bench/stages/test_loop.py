"""Whose work it is, by the modules of callbacks and tasks."""

from bench.stages.cases import Case, run
from bench.stages.meter import OF_THE_PROXY, OTHER


def test_hardly_anything_is_left_over() -> None:
    # With watches that fire, and entries enough for a digest.
    figures = run(Case("fanout", 16, 1), 40, 1, counting=True)
    of_python, of_c = figures.calls()
    other = sum(figures.calls_in(OTHER))
    assert other < 0.05 * (of_python + of_c)
    assert all(sum(figures.calls_in(stage)) > 0 for stage in OF_THE_PROXY if stage != OTHER)
    assert set(figures.microseconds()) == set(OF_THE_PROXY)
