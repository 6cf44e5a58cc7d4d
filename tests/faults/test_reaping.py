"""Containers and TTL nodes are deleted: as on real ZooKeeper, and whichever of several proxies dies."""

from collections.abc import Sequence
from typing import Any

from lab.client import blocking as zk
from lab.client.blocking import CHILDREN, CREATED, DELETED, Client, Request, add_watch, events_of
from lab.client.requests import create_container, create_ttl
from lab.servers import EtcdServer, ZooKeeperServer, wait_until
from lab.servers.operator import ctl, end_lease_of
from tests.conftest import TICK_TIME_MS
from tests.faults.conftest import Start

_INTERVAL_MS = 100
_NEVER_USED_MS = 300


def with_child(request: Request[Any], path: str) -> Sequence[Request[Any]]:
    """A multi's parts: a node that is due once its child is gone."""
    return request, zk.create(f"{path}/x")


def story(port: int) -> list[object]:
    """What a client sees of nodes that are due one after another, and of those that are not."""
    told: list[object] = []
    with Client(port) as writer, Client(port) as watcher:
        writer.transact(with_child(create_container("/full"), "/full"))
        writer.call(create_ttl("/long", 3_600_000))
        writer.transact(with_child(create_ttl("/kept", 1), "/kept"))
        for request in (create_container("/due"), create_ttl("/due", 1)):
            writer.transact(with_child(request, "/due"))
            watcher.stat("/due", watch=True)
            watcher.children("/due", watch=True)
            watcher.children("/", watch=True)
            watcher.events.clear()
            writer.call(zk.delete("/due/x"))
            told.append(events_of(watcher, 3))
        watcher.events.clear()
        watcher.call(add_watch("/unused", recursive=False))
        writer.call(create_container("/unused"))
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


def test_two_proxies_of_which_the_one_in_charge_dies(
    start: Start, etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    """Under load from both sides nothing that is due stays, nothing else goes, and the counters are right."""
    options = {"prefix": etcd_prefix, "container_check_interval": _INTERVAL_MS}
    first = start(etcd_server, **options)
    # The eldest is in charge.
    ((in_charge),) = (proxy["proxy"] for proxy in ctl(etcd_server, "proxies", prefix=etcd_prefix))
    second = start(etcd_server, **options)
    count = 150
    with Client(first.port) as doomed, Client(second.port) as survivor, Client(second.port) as observer:
        survivor.create("/d")
        doomed.sync()
        for client, kind in ((doomed, "a"), (survivor, "b")):
            client.send(
                *(
                    zk.multi(with_child(create_container(f"/d/{kind}{number}"), f"/d/{kind}{number}"))
                    for number in range(count)
                ),
                *(create_ttl(f"/d/t{kind}{number}", 1) for number in range(count)),
                *(create_container(f"/d/unused{kind}{number}") for number in range(10)),
                *(zk.delete(f"/d/{kind}{number}/x") for number in range(count)),
            )
        wait_until(lambda: (stat := observer.stat("/d")) and stat.cversion > stat.num_children, "a deletion")
        for _ in range(3 * count + 10):
            doomed.receive()
        first.kill()
        for _ in range(3 * count + 10):
            survivor.receive()
        end_lease_of(etcd_server, f"{etcd_prefix}/live/proxy/{in_charge}")
        expected = {f"unused{kind}{number}" for kind in "ab" for number in range(10)}
        wait_until(lambda: observer.children("/d")[0] == expected, "all that is due gone", interval=0.2)
        stat = observer.children("/d")[1]
        created = 2 * (2 * count + 10)
        assert (stat.cversion, stat.num_children) == (2 * created - len(expected), len(expected))
        refused = [
            message for client in (doomed, survivor) for message in client.log if getattr(message, "err", 0)
        ]
        assert refused == []
        with Client(start(etcd_server, prefix=etcd_prefix).port) as late:
            assert late.children("/d") == observer.children("/d")
