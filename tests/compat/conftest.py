"""The two servers of the differential tests."""

import os
from collections.abc import Iterator

import pytest

from tests.compat.side import Server
from tests.harness import EtcdServer, ZketcdServer, ZooKeeperServer

TICK_TIME_MS = 200
MAX_SESSION_TIMEOUT_MS = 60000


def real_zookeeper() -> ZooKeeperServer:
    """Return a ZooKeeper with short ticks that waits for no disk and logs no stack trace per bad request."""
    return ZooKeeperServer(
        tick_time=TICK_TIME_MS,
        max_session_timeout=MAX_SESSION_TIMEOUT_MS,
        max_client_connections=0,
        system_properties={"zookeeper.forceSync": "no", "org.apache.logging.log4j.level": "OFF"},
    )


@pytest.fixture(scope="package")
def oracle() -> Iterator[Server]:
    """Real ZooKeeper."""
    with real_zookeeper() as server:
        yield Server("zookeeper", server.port)


@pytest.fixture(scope="package")
def subject(etcd_server: EtcdServer) -> Iterator[Server]:
    """What is held against ZooKeeper: zketcd, or a second ZooKeeper if ZKETCD_DIFF_SUBJECT=zookeeper."""
    if os.environ.get("ZKETCD_DIFF_SUBJECT") == "zookeeper":
        with real_zookeeper() as double:
            yield Server("zookeeper-2", double.port)
        return
    with ZketcdServer(
        etcd_server.endpoint,
        prefix=f"/compat-{os.getpid()}",
        tick_time=TICK_TIME_MS,
        max_session_timeout=MAX_SESSION_TIMEOUT_MS,
        max_client_connections=0,
    ) as server:
        yield Server("zketcd", server.port)
