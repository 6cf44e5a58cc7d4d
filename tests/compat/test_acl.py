"""ACLs and authentication on real ZooKeeper and zketcd, both with the same super user."""

import pytest

from tests.compat.acl_cases import ACL_CASES
from tests.compat.runner import describe, run
from tests.compat.side import Server

pytestmark = pytest.mark.real


@pytest.mark.parametrize("name", ACL_CASES)
def test_no_difference(oracle: Server, subject: Server, name: str) -> None:
    script = ACL_CASES[name]
    found = run(script, oracle, subject)
    if found is not None:
        pytest.fail(describe(found, script[: found.place + 1], oracle, subject), pytrace=False)
