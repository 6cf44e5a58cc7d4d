"""A server's number of znodes is asked for, and missed by nobody."""

import pytest

from lab.servers import ZooKeeperServer, free_port
from pipeline.live.node_count import node_count

pytestmark = pytest.mark.real


def test_the_first_server_that_answers(live_server: ZooKeeperServer) -> None:
    found = node_count([("127.0.0.1", free_port()), ("127.0.0.1", live_server.port)])
    assert found is not None
    assert found > 10
    assert node_count([("127.0.0.1", free_port())]) is None
