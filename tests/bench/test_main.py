"""The command line and the plan made from it."""

import pytest

from bench.__main__ import parser, plan_of


def test_quick_plan_is_short() -> None:
    plan = plan_of(parser().parse_args(["--quick"]))
    assert {(cell.connections, cell.depth) for cell in plan.cells} == {(1, 1), (64, 32)}
    servers = 3
    timed = len(plan.cells) * (plan.rounds * plan.seconds + plan.warm_up_seconds)
    assert timed * servers < 25


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--workloads", "get,put"], "'put' is none of"),
        (["--servers", "consul"], "'consul' is none of"),
        (["--rounds", "0"], "'0' is not a whole number"),
    ],
)
def test_wrong_options_say_which_and_why(
    options: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(options)
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert reason in printed
    assert options[0] in printed
