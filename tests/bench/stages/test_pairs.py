"""Two checkouts compared."""

from pathlib import Path

import pytest

from bench.stages import pairs

_SMALL = ["--workloads", "get", "--connections", "1", "--depth", "1", "--requests", "50", "--pairs", "1"]


def test_ratios_are_those_of_the_rounds() -> None:
    found = pairs.compared(
        [({"get": 10.0}, {"get": 5.0}), ({"get": 20.0}, {"get": 18.0}), ({"get": 1.0}, {"get": 2.0})]
    )
    assert found == {"get": (10.0, 5.0, [0.5, 0.9, 2.0])}


@pytest.mark.parametrize(("microseconds", "status"), [(1e9, 0), (1e-3, 1)])
def test_this_checkout_is_compared_with_another(
    microseconds: float, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "bench" / "stages" / "__main__.py"
    program.parent.mkdir(parents=True)
    program.write_text(
        "import json, sys\n"
        "with open(sys.argv[sys.argv.index('--json') + 1], 'w') as file:\n"
        f"    json.dump({{'get': {{'microseconds': {{'order': {microseconds}}}}}}}, file)\n"
    )
    assert pairs.main([str(tmp_path), *_SMALL]) == status
    assert "| get |" in capsys.readouterr().out
