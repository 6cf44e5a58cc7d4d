"""Two checkouts compared."""

import pytest

from bench.stages import pairs


def test_ratios_are_those_of_the_rounds() -> None:
    found = pairs.compared(
        [({"get": 10.0}, {"get": 5.0}), ({"get": 20.0}, {"get": 18.0}), ({"get": 1.0}, {"get": 2.0})]
    )
    assert found == {"get": (10.0, 5.0, [0.5, 0.9, 2.0])}


@pytest.mark.parametrize(("most", "status"), [("1000", 0), ("0.001", 1)])
def test_a_checkout_is_compared_with_itself(
    most: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--workloads", "get", "--connections", "1", "--depth", "1", "--requests", "50", "--pairs", "1"]
    assert pairs.main([str(pairs.HERE), *small, "--most", most]) == status
    assert "| get |" in capsys.readouterr().out
