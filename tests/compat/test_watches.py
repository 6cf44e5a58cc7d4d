"""Lasting watches and the requests of a session on real ZooKeeper and zketcd, by one proxy and by two."""

import pytest

from tests.compat.runner import describe, run
from tests.compat.side import Server
from tests.compat.watch_cases import WATCH_CASES

pytestmark = pytest.mark.real


def check(name: str, left: Server, right: Server) -> None:
    script = WATCH_CASES[name]
    found = run(script, left, right)
    if found is not None:
        pytest.fail(describe(found, script[: found.place + 1], left, right), pytrace=False)


@pytest.mark.parametrize("name", WATCH_CASES)
def test_no_difference(oracle: Server, subject: Server, name: str) -> None:
    check(name, oracle, subject)


@pytest.mark.parametrize("name", WATCH_CASES)
def test_no_difference_over_two_proxies(pair_oracle: Server, pair: Server, name: str) -> None:
    check(name, pair_oracle, pair)
