"""The fixed scripts on real ZooKeeper and zketcd."""

import pytest

from tests.compat.cases import CASES
from tests.compat.runner import demand_equal
from tests.compat.side import Server

pytestmark = pytest.mark.real


@pytest.mark.parametrize("name", CASES)
def test_no_difference(oracle: Server, subject: Server, name: str) -> None:
    demand_equal(CASES[name], oracle, subject)
