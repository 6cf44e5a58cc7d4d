"""ACLs and authentication on real ZooKeeper and zketcd, both with the same super user."""

import pytest

from tests.compat.acl_cases import ACL_CASES
from tests.compat.runner import demand_equal
from tests.compat.side import Server

pytestmark = pytest.mark.real


@pytest.mark.parametrize("name", ACL_CASES)
def test_no_difference(oracle: Server, subject: Server, name: str) -> None:
    demand_equal(ACL_CASES[name], oracle, subject)
