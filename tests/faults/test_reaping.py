"""Containers and TTL nodes are deleted as on real ZooKeeper.

That one of several proxies does it, whichever of them dies: proof/simulation (expiring_nodes).
"""

from collections.abc import Sequence
from typing import Any

from codec import client as zk
from codec.client import Request, add_watch, create
from codec.constants import CreateMode
from lab.client.blocking import CHILDREN, CREATED, DELETED, Client, events_of
from lab.servers import EtcdServer, ZooKeeperServer
from tests.conftest import TICK_TIME_MS
from tests.faults.conftest import Start

_INTERVAL_MS = 100
_NEVER_USED_MS = 300
CONTAINER, TTL = CreateMode.CONTAINER, CreateMode.PERSISTENT_WITH_TTL


def with_child(request: Request[Any], path: str) -> Sequence[Request[Any]]:
    """A multi's parts: a node that is due once its child is gone."""
    return request, zk.create(f"{path}/x")


def story(port: int) -> list[object]:
    """What a client sees of nodes that are due one after another, and of those that are not."""
    told: list[object] = []
    with Client(port) as writer, Client(port) as watcher:
        writer.transact(with_child(create("/full", mode=CONTAINER), "/full"))
        writer.call(create("/long", mode=TTL, ttl_ms=3_600_000))
        writer.transact(with_child(create("/kept", mode=TTL, ttl_ms=1), "/kept"))
        for request in (create("/due", mode=CONTAINER), create("/due", mode=TTL, ttl_ms=1)):
            writer.transact(with_child(request, "/due"))
            watcher.stat("/due", watch=True)
            watcher.children("/due", watch=True)
            watcher.children("/", watch=True)
            watcher.events.clear()
            writer.call(zk.delete("/due/x"))
            told.append(events_of(watcher, 3))
        watcher.events.clear()
        watcher.call(add_watch("/unused", recursive=False))
        writer.call(create("/unused", mode=CONTAINER))
        told.append(events_of(watcher, 2))
        names, stat = writer.children("/")
        told.append((sorted(names), stat.version, stat.cversion, stat.num_children))
    return told


def test_as_on_real_zookeeper(start: Start, etcd_server: EtcdServer, etcd_prefix: str) -> None:
    settings = {
        "znode.container.checkIntervalMs": str(_INTERVAL_MS),
        "znode.container.maxNeverUsedIntervalMs": str(_NEVER_USED_MS),
        "zookeeper.extendedTypesEnabled": "true",
    }
    proxy = start(
        etcd_server,
        prefix=etcd_prefix,
        container_check_interval=_INTERVAL_MS,
        container_max_never_used=_NEVER_USED_MS,
    )
    with ZooKeeperServer(tick_time=TICK_TIME_MS, system_properties=settings) as zookeeper:
        expected = story(zookeeper.port)
    assert story(proxy.port) == expected
    assert expected[0] == [(CHILDREN, "/due"), (DELETED, "/due"), (CHILDREN, "/")]
    assert expected[2] == [(CREATED, "/unused"), (DELETED, "/unused")]
