"""Caches and watches."""

import queue
from functools import partial
from typing import Any

from lab.servers import wait_until
from lab.servers.process import ServerProcess
from tests.clients.curator.shared import RECIPES, TIMEOUT_S, Client, Connect, read, recipe, refused, started
from tests.clients.jvm import Callback, Jvm

# Caches


class Events(Callback):
    """What a CuratorCache tells, as (type, path, data)."""

    def __init__(self) -> None:
        self.told = queue.SimpleQueue[tuple[str, str, bytes]]()

    def event(self, kind: Any, before: Any, after: Any) -> None:
        node = after or before
        self.told.put((kind.toString(), node.getPath(), bytes(node.getData())))

    def initialized(self) -> None:
        self.told.put(("INITIALIZED", "", b""))

    def next(self, number: int) -> list[tuple[str, str, bytes]]:
        return [self.told.get(timeout=TIMEOUT_S) for _ in range(number)]

    class Java:
        implements = [f"{RECIPES}.cache.CuratorCacheListener"]  # noqa: RUF012 - what py4j reads


def _cache(jvm: Jvm, client: Client, path: str, events: Events) -> Any:
    options = jvm.array(f"{RECIPES}.cache.CuratorCache$Options")
    cache = recipe(jvm, "cache.CuratorCache").build(client, path, options)
    cache.listenable().addListener(events)
    return cache


def test_cache_by_a_persistent_recursive_watch(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    writer, reader = clients
    writer.create().creatingParentsIfNeeded().forPath(f"{path}/old/leaf", b"0")
    reader.sync().forPath(path)
    events = Events()
    cache = _cache(jvm, reader, path, events)
    with started(cache):
        *found, last = events.next(4)
        assert {kind for kind, *_ in found} == {"NODE_CREATED"}
        assert {at for _, at, _ in found} == {path, f"{path}/old", f"{path}/old/leaf"}
        assert last[0] == "INITIALIZED"

        writer.setData().forPath(f"{path}/old/leaf", b"1")
        assert events.next(1) == [("NODE_CHANGED", f"{path}/old/leaf", b"1")]
        writer.create().forPath(f"{path}/new", b"2")
        assert events.next(1) == [("NODE_CREATED", f"{path}/new", b"2")]
        writer.setData().forPath(f"{path}/new", b"3")
        assert events.next(1) == [("NODE_CHANGED", f"{path}/new", b"3")], "the watch stays"
        writer.delete().deletingChildrenIfNeeded().forPath(f"{path}/old")
        assert events.next(2) == [
            ("NODE_DELETED", f"{path}/old/leaf", b"1"),
            ("NODE_DELETED", f"{path}/old", b""),
        ]
        assert cache.size() == 2
        assert bytes(cache.get(f"{path}/new").get().getData()) == b"3"


def test_caches_by_watches_that_fire_once(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    writer, reader = clients
    writer.create().forPath(path, b"0")
    reader.sync().forPath(path)
    node = recipe(jvm, "cache.NodeCache")(reader, path)
    below = recipe(jvm, "cache.PathChildrenCache")(reader, path, True)
    tree = recipe(jvm, "cache.TreeCache")(reader, path)

    def see(number: int) -> bool:
        return (
            bytes(node.getCurrentData().getData()) == b"%d" % number
            and len(below.getCurrentData()) == number
            and tree.getCurrentData(f"{path}/{number}/leaf") is not None
        )

    with started(node, below, tree):
        wait_until(lambda: node.getCurrentData() is not None, "the node's cache has begun")
        for number in range(1, 6):
            writer.setData().forPath(path, b"%d" % number)
            writer.create().forPath(f"{path}/{number}")
            writer.create().forPath(f"{path}/{number}/leaf")
            wait_until(partial(see, number), f"all see change {number}")
        writer.delete().deletingChildrenIfNeeded().forPath(f"{path}/3")
        wait_until(lambda: len(below.getCurrentData()) == 4, "the children's cache")
        wait_until(lambda: tree.getCurrentData(f"{path}/3") is None, "the tree's cache")


class Watcher(Callback):
    def __init__(self) -> None:
        self.told = queue.SimpleQueue[tuple[str, str]]()

    def process(self, event: Any) -> None:
        self.told.put((event.getType().toString(), event.getPath()))

    def next(self) -> tuple[str, str]:
        return self.told.get(timeout=TIMEOUT_S)

    class Java:
        implements = ["org.apache.curator.framework.api.CuratorWatcher"]  # noqa: RUF012 - what py4j reads


def test_watches_added_and_removed(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    writer, reader = clients
    modes = jvm.find("org.apache.zookeeper.AddWatchMode")
    node, tree, once = Watcher(), Watcher(), Watcher()
    reader.watchers().add().withMode(modes.PERSISTENT).usingWatcher(node).forPath(path)
    reader.watchers().add().withMode(modes.PERSISTENT_RECURSIVE).usingWatcher(tree).forPath(path)
    for data in (b"1", b"2"):
        writer.create().orSetData().forPath(path, data)
        kind = "NodeCreated" if data == b"1" else "NodeDataChanged"
        assert (node.next(), tree.next()) == ((kind, path), (kind, path))
    writer.create().forPath(f"{path}/child")
    assert (node.next(), tree.next()) == (("NodeChildrenChanged", path), ("NodeCreated", f"{path}/child"))

    reader.watchers().remove(node).forPath(path)
    assert node.next() == ("PersistentWatchRemoved", path)
    reader.getData().usingWatcher(once).forPath(path)
    reader.watchers().removeAll().forPath(path)
    assert once.next() == ("DataWatchRemoved", path)
    assert tree.next() == ("PersistentWatchRemoved", path)
    with refused("NoWatcherException"):
        reader.watchers().removeAll().forPath(path)
    writer.setData().forPath(path, b"3")
    reader.sync().forPath(path)
    assert read(reader, path) == b"3"
    assert node.told.empty()
    assert tree.told.empty()


def test_cache_outlives_its_server(
    jvm: Jvm, connect: Connect, servers: tuple[ServerProcess, ServerProcess], path: str
) -> None:
    writer, reader = connect(1), connect(0, 1)
    writer.create().forPath(path, b"0")
    reader.sync().forPath(path)
    events = Events()
    with started(_cache(jvm, reader, path, events)):
        assert [kind for kind, *_ in events.next(2)] == ["NODE_CREATED", "INITIALIZED"]
        # The reader may be connected to either.
        for number, server in enumerate(dict.fromkeys(servers), start=1):
            server.kill()
            server.start()
            writer.setData().forPath(path, b"%d" % number)
            # One that reconnects may get an event more than once.
            while events.told.get(timeout=TIMEOUT_S) != ("NODE_CHANGED", path, b"%d" % number):
                pass
