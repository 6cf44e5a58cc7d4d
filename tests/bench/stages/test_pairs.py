"""Two checkouts compared."""

from pathlib import Path

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


def test_a_checkout_that_cannot_run_a_workload_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "bench" / "stages" / "__main__.py"
    program.parent.mkdir(parents=True)
    program.write_text("raise SystemExit('no such workload')\n")
    assert pairs.main([str(tmp_path), "--workloads", "get", "--pairs", "1"]) == 1
    assert capsys.readouterr().err == f"bench: bench.stages of {tmp_path}: no such workload\n"
