"""The figures of several worlds."""

from proof.simulation.campaign import report
from proof.simulation.outcome import Outcome

_WORLD = Outcome("stormy", 1, 1800.0, 0, 0, {}, [], 0, 0, 0, 0, "", [], [])


def test_faults_by_kind_and_recoveries_from_each_alone() -> None:
    first = _WORLD._replace(faults={"a": 2, "b": 1}, recoveries=[9.0, 1.0], alone={"a": [1.0]}, cpu=30.0)
    second = _WORLD._replace(seed=2, faults={"a": 1}, recoveries=[3.0], alone={"a": [3.0]}, cpu=15.0)
    lines = report([first, second])
    assert "  3 recoveries: median 3.0 s, longest 9.0 s of simulated time" in lines
    assert lines[-6:-1] == [
        "  4 faults of 2 kinds:",
        "| fault | times | alone | recoveries, median | longest |",
        "|---|--:|--:|--:|--:|",
        "| a | 3 | 2 | 3.0 s | 3.0 s |",
        "| b | 1 | 0 |  |  |",
    ]
    assert lines[-1] == "in all 1.00 simulated hours in 45 s of CPU time (80 times as fast)"


def test_what_was_set_aside_is_counted() -> None:
    lines = report([_WORLD._replace(set_aside={"x": 2}), _WORLD._replace(set_aside={"x": 1, "y": 1})])
    assert "  4 findings set aside: x 3, y 1" in lines
    assert "  0 findings set aside" in report([_WORLD])
