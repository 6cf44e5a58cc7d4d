"""The command line."""

import pytest

from proof.simulation.__main__ import main


def test_a_world_and_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "7", "--hours", "0.005"]) == 0
    said = capsys.readouterr().out
    assert "seed 7: " in said
    assert ", 0 violations, trace " in said
    assert "simulated hours" in said


@pytest.mark.parametrize("arguments", [["--hours", "0"], ["--hours", "x"], ["--planted", "no such fault"]])
def test_bad_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
