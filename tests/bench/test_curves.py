"""The points of the curves."""

from bench.curves import CONNECTIONS, OFFERED, cells
from bench.run import Cell
from bench.workloads import WORKLOADS


def test_all_points() -> None:
    found = cells(list(WORKLOADS), None, None, quick=False)
    closed = [cell for cell in found if not cell.offered]
    assert len(closed) == 3 * len(CONNECTIONS) * 2
    assert Cell("mixed", 1000, 1) in closed
    assert len(found) - len(closed) == sum(map(len, OFFERED.values()))
    assert Cell("create", 64, 256, 10_000) in found


def test_chosen_points() -> None:
    found = cells(["create", "set"], [2], [4], quick=True)
    assert found[0] == Cell("create", 2, 4)
    assert {(cell.workload, cell.offered) for cell in found[1:]} == {
        ("create", rate) for rate in OFFERED["create"][::3]
    }
