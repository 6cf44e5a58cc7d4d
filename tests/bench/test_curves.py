"""The points of the curves."""

from bench.curves import OFFERED, cells
from bench.workloads import Cell


def test_chosen_points() -> None:
    found = cells(["create", "set"], [2], [4], quick=True)
    assert found[0] == Cell("create", 2, 4)
    assert {(cell.workload, cell.offered) for cell in found[1:]} == {
        ("create", rate) for rate in OFFERED["create"][::3]
    }
