"""The fixed scripts on real ZooKeeper and zketcd."""

import pytest

from tests.compat.cases import CASES
from tests.compat.runner import describe, run
from tests.compat.side import Server

pytestmark = pytest.mark.real


@pytest.mark.parametrize("name", CASES)
def test_no_difference(oracle: Server, subject: Server, name: str) -> None:
    script = CASES[name]
    found = run(script, oracle, subject)
    if found is not None:
        pytest.fail(describe(found, script[: found.place + 1], oracle, subject), pytrace=False)
