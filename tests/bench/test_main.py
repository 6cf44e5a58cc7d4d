"""The plan made from the command line."""

from bench.__main__ import parser, plan_of


def test_quick_plan_is_short() -> None:
    plan = plan_of(parser().parse_args(["--quick"]))
    assert {(cell.connections, cell.depth) for cell in plan.cells} == {(1, 1), (64, 32)}
    servers = 3
    timed = len(plan.cells) * (plan.rounds * plan.seconds + plan.warm_up_seconds)
    assert timed * servers < 25
