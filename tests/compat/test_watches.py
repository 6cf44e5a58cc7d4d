"""Lasting watches and the requests of a session on real ZooKeeper and zketcd, by one proxy and by two."""

import pytest

from tests.compat.runner import demand_equal
from tests.compat.side import Server
from tests.compat.watch_cases import WATCH_CASES

pytestmark = pytest.mark.real


@pytest.mark.parametrize("name", WATCH_CASES)
def test_no_difference(oracle: Server, subject: Server, name: str) -> None:
    demand_equal(WATCH_CASES[name], oracle, subject)


@pytest.mark.parametrize("name", WATCH_CASES)
def test_no_difference_over_two_proxies(pair_oracle: Server, pair: Server, name: str) -> None:
    demand_equal(WATCH_CASES[name], pair_oracle, pair)
