"""The fixed scripts on real ZooKeeper and zketcd, both with the same super user."""

import pytest

from tests.compat import watch_cases
from tests.compat.cases import CASES
from tests.compat.runner import demand_equal
from tests.compat.side import Server

pytestmark = pytest.mark.real


@pytest.mark.parametrize("name", CASES)
def test_no_difference(oracle: Server, subject: Server, name: str) -> None:
    demand_equal(CASES[name], oracle, subject)


@pytest.mark.parametrize("name", watch_cases.CASES)
def test_no_difference_over_two_proxies(pair_oracle: Server, pair: Server, name: str) -> None:
    demand_equal(CASES[name], pair_oracle, pair)
