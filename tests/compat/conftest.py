"""The two servers of the differential tests."""

import os
from collections.abc import Iterator, Mapping

import pytest

from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer
from tests.compat.acl_cases import SUPER_DIGEST
from tests.compat.side import Server

TICK_TIME_MS = 200
MAX_SESSION_TIMEOUT_MS = 60000
NEVER_MS = 1_000_000_000  # until containers are looked at: neither side may be the first to reap one


def real_zookeeper(properties: Mapping[str, str] | None = None, version: str = "") -> ZooKeeperServer:
    """Return a ZooKeeper with short ticks that waits for no disk and logs no stack trace per bad request.

    `properties` are added to its system properties; `version` is another one's than the newest one's.
    """
    return ZooKeeperServer(
        tick_time=TICK_TIME_MS,
        max_session_timeout=MAX_SESSION_TIMEOUT_MS,
        max_client_connections=0,
        system_properties={
            "zookeeper.forceSync": "no",
            "org.apache.logging.log4j.level": "OFF",
            "zookeeper.DigestAuthenticationProvider.superDigest": SUPER_DIGEST,
            "zookeeper.extendedTypesEnabled": "true",  # zketcd's default
            "znode.container.checkIntervalMs": str(NEVER_MS),
            **(properties or {}),
        },
        version=version,
    )


def zketcd_proxy(etcd: EtcdServer, prefix: str, **options: object) -> ZketcdServer:
    """Return a proxy with the same ticks and limits, and other options."""
    return ZketcdServer(
        etcd.endpoint,
        prefix=f"{prefix}-{os.getpid()}",
        tick_time=TICK_TIME_MS,
        max_session_timeout=MAX_SESSION_TIMEOUT_MS,
        max_client_connections=0,
        super_digest=SUPER_DIGEST,
        container_check_interval=NEVER_MS,
        **options,  # type: ignore[arg-type]
    )


def _doubles() -> bool:
    """Whether another ZooKeeper stands in for zketcd, to test the tests: ZKETCD_DIFF_SUBJECT=zookeeper."""
    return os.environ.get("ZKETCD_DIFF_SUBJECT") == "zookeeper"


@pytest.fixture(scope="session")
def oracle() -> Iterator[Server]:
    """Real ZooKeeper."""
    with real_zookeeper() as server:
        yield Server("zookeeper", (server.port,))


@pytest.fixture(scope="session")
def subject(etcd_server: EtcdServer) -> Iterator[Server]:
    """What is held against ZooKeeper: one zketcd."""
    with real_zookeeper() if _doubles() else zketcd_proxy(etcd_server, "/compat") as server:
        yield Server(server.kind, (server.port,))


@pytest.fixture(scope="session")
def pair_oracle() -> Iterator[Server]:
    """The real ZooKeeper beside `pair`: the root node's Stat tells how much a server has been through."""
    with real_zookeeper() as server:
        yield Server("zookeeper", (server.port,))


@pytest.fixture(scope="session")
def pair(etcd_server: EtcdServer) -> Iterator[Server]:
    """Two zketcd that serve one tree."""
    if _doubles():
        with real_zookeeper() as server:
            yield Server(server.kind, (server.port, server.port))
        return
    with zketcd_proxy(etcd_server, "/pair") as first, zketcd_proxy(etcd_server, "/pair") as second:
        yield Server("zketcd pair", (first.port, second.port))
