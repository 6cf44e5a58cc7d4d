"""Sessions that end at once."""

import pytest

from bench.scenarios import endings
from lab.servers import ZketcdServer, ZooKeeperServer


@pytest.mark.parametrize("way", endings.WAYS)
def test_others_wait_while_sessions_end(
    way: str, zketcd_server: ZketcdServer, zookeeper_server: ZooKeeperServer
) -> None:
    for server in (zketcd_server, zookeeper_server):
        waits = endings.measure(server.port, 20, way, timeout_ms=2000)
        assert min(waits) > 0
