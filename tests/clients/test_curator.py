"""Curator, what most Java applications use ZooKeeper through: its recipes, by clients of both servers.

Each recipe is what Curator 5.9 makes of it, from the jars of the pyspark wheel; here is only its use.
"""

import os
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from lab.servers import EtcdServer, wait_until
from lab.servers.process import ServerProcess
from tests.clients.conftest import two_servers
from tests.clients.jvm import Callback, Jvm, java_virtual_machine

RECIPES = "org.apache.curator.framework.recipes"
SESSION_MS = 10_000
PATIENCE_S = 30

# py4j hands Java's objects over without types.
Client = Any


@pytest.fixture(scope="module")
def jvm() -> Iterator[Jvm]:
    with java_virtual_machine() as machine:
        yield machine


@pytest.fixture(scope="module")
def servers(etcd_server: EtcdServer) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    with two_servers(etcd_server, f"/test-curator-{os.getpid()}") as started:
        yield started


Connect = Callable[..., Client]


@pytest.fixture
def connect(jvm: Jvm, servers: tuple[ServerProcess, ServerProcess]) -> Iterator[Connect]:
    """Makes a started client of the servers with these indices, 0 and 1 (0 if none is given)."""
    with ExitStack() as stack:

        def new(*numbers: int) -> Client:
            addresses = ",".join(servers[number].address for number in numbers or (0,))
            policy = jvm.find("org.apache.curator.retry.RetryNTimes")(200, 100)
            factory = jvm.find("org.apache.curator.framework.CuratorFrameworkFactory")
            client = factory.newClient(addresses, SESSION_MS, PATIENCE_S * 1000, policy)
            stack.callback(client.close)
            client.start()
            assert client.blockUntilConnected(PATIENCE_S, seconds(jvm))
            return client

        yield new


@pytest.fixture
def clients(connect: Connect) -> tuple[Client, Client]:
    """One client of each server."""
    return connect(0), connect(1)


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    """A path of the test's own; nothing is there yet."""
    return f"/{request.node.name}"


def seconds(jvm: Jvm) -> Any:
    return jvm.find("java.util.concurrent.TimeUnit").SECONDS


def recipe(jvm: Jvm, name: str) -> Any:
    return jvm.find(f"{RECIPES}.{name}")


def read(client: Client, path: str) -> bytes:
    return bytes(client.getData().forPath(path))


def children(client: Client, path: str) -> list[str]:
    """The names as they are at this moment, also where another client wrote last."""
    client.sync().forPath(path)
    return sorted(client.getChildren().forPath(path))


@contextmanager
def started(*things: Any) -> Iterator[None]:
    """Starts recipes and closes them."""
    with ExitStack() as stack:
        for thing in things:
            thing.start()
            stack.callback(thing.close)
        yield


@contextmanager
def refused(error: str) -> Iterator[None]:
    """The body's call of Java ends with an exception of this class's name."""
    with pytest.raises(Py4JJavaError) as raised:
        yield
    assert raised.value.java_exception.getClass().getSimpleName() == error


# Leaders


def test_leader_latch(jvm: Jvm, connect: Connect, path: str) -> None:
    latch = recipe(jvm, "leader.LeaderLatch")
    one, two = connect(0), connect(1)
    first, second = latch(one, path, "first"), latch(two, path, "second")
    first.start()
    assert getattr(first, "await")(PATIENCE_S, seconds(jvm))
    with started(second):
        wait_until(lambda: len(first.getParticipants()) == 2, "both take part")
        assert not second.hasLeadership()
        assert second.getLeader().getId() == "first"
        one.close()  # and with its session the node
        assert getattr(second, "await")(PATIENCE_S, seconds(jvm))
        assert second.getLeader().getId() == "second"


class Leader(Callback):
    def __init__(self) -> None:
        self.taken = queue.SimpleQueue[str]()
        self.resign = threading.Event()

    def takeLeadership(self, client: Client) -> None:
        self.taken.put("leads")
        assert self.resign.wait(PATIENCE_S)
        self.resign.clear()

    def stateChanged(self, client: Client, state: Any) -> None: ...

    class Java:
        implements = [f"{RECIPES}.leader.LeaderSelectorListener"]  # noqa: RUF012 - what py4j reads


def test_leader_selector(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    leaders = [Leader(), Leader()]
    selectors = []
    for client, leader in zip(clients, leaders, strict=True):
        selector = recipe(jvm, "leader.LeaderSelector")(client, path, leader)
        selector.autoRequeue()
        selectors.append(selector)
    with started(selectors[0]):
        leaders[0].taken.get(timeout=PATIENCE_S)
        with started(selectors[1]):
            for leading, waiting in ((0, 1), (1, 0), (0, 1)):
                # Who resigns stands in line again, behind the other only if that one has come meanwhile.
                wait_until(lambda: len(children(clients[0], path)) == 2, "the other waits in line")
                assert leaders[waiting].taken.empty()
                leaders[leading].resign.set()
                leaders[waiting].taken.get(timeout=PATIENCE_S)
            leaders[1].resign.set()


# Locks


def test_mutex(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    one, two = (recipe(jvm, "locks.InterProcessMutex")(client, path) for client in clients)
    assert one.acquire(PATIENCE_S, seconds(jvm))
    assert one.acquire(PATIENCE_S, seconds(jvm)), "its thread may take it again"
    assert not two.acquire(0, seconds(jvm))
    one.release()
    assert not two.acquire(0, seconds(jvm))
    with ThreadPoolExecutor(1) as threads:

        def wait_in_line() -> bool:
            got: bool = two.acquire(PATIENCE_S, seconds(jvm))
            two.release()
            return got

        waiting = threads.submit(wait_in_line)
        wait_until(lambda: len(children(clients[0], path)) == 2, "the other waits in line")
        one.release()
        assert waiting.result()


class Asked(Callback):
    def __init__(self) -> None:
        self.event = threading.Event()

    def revocationRequested(self, lock: Any) -> None:
        self.event.set()

    class Java:
        implements = [f"{RECIPES}.locks.RevocationListener"]  # noqa: RUF012 - what py4j reads


def test_mutex_is_asked_to_yield(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    asked = Asked()
    one = recipe(jvm, "locks.InterProcessMutex")(clients[0], path)
    one.makeRevocable(asked)
    assert one.acquire(PATIENCE_S, seconds(jvm))
    [holder] = children(clients[1], path)
    recipe(jvm, "locks.Revoker").attemptRevoke(clients[1], f"{path}/{holder}")
    assert asked.event.wait(PATIENCE_S)
    one.release()


def test_read_write_lock(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    one, two = (recipe(jvm, "locks.InterProcessReadWriteLock")(client, path) for client in clients)
    assert one.readLock().acquire(0, seconds(jvm))
    assert two.readLock().acquire(PATIENCE_S, seconds(jvm)), "readers share it"
    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(one.writeLock().acquire, 0, seconds(jvm))
        assert not writing.result()
    one.readLock().release()
    two.readLock().release()
    assert two.writeLock().acquire(PATIENCE_S, seconds(jvm))
    assert not one.readLock().acquire(0, seconds(jvm))
    two.writeLock().release()


def test_several_locks_as_one(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    paths = [f"{path}/a", f"{path}/b"]
    both = recipe(jvm, "locks.InterProcessMultiLock")(clients[0], paths)
    single = recipe(jvm, "locks.InterProcessSemaphoreMutex")(clients[1], f"{path}/other")
    assert both.acquire(PATIENCE_S, seconds(jvm))
    assert single.acquire(PATIENCE_S, seconds(jvm))
    other = recipe(jvm, "locks.InterProcessMutex")(clients[1], paths[1])
    assert not other.acquire(0, seconds(jvm))
    both.release()
    assert other.acquire(PATIENCE_S, seconds(jvm))
    other.release()
    single.release()


def test_semaphore(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    one, two = (recipe(jvm, "locks.InterProcessSemaphoreV2")(client, path, 3) for client in clients)
    leases = one.acquire(2, PATIENCE_S, seconds(jvm))
    last = two.acquire(PATIENCE_S, seconds(jvm))
    assert last is not None
    assert two.acquire(1, seconds(jvm)) is None, "all three are taken"
    one.returnAll(leases)
    more = two.acquire(2, PATIENCE_S, seconds(jvm))
    assert len(one.getParticipantNodes()) == 3
    two.returnAll(more)
    two.returnLease(last)


# Barriers


def test_barrier(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    one, two = (recipe(jvm, "barriers.DistributedBarrier")(client, path) for client in clients)
    one.setBarrier()
    clients[1].sync().forPath(path)
    assert not two.waitOnBarrier(0, seconds(jvm))
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(two.waitOnBarrier, PATIENCE_S, seconds(jvm))
        one.removeBarrier()
        assert waiting.result()


def test_double_barrier(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    members = 6
    entered: list[int] = []
    left: list[int] = []

    def work(number: int) -> bool:
        barrier = recipe(jvm, "barriers.DistributedDoubleBarrier")(clients[number % 2], path, members)
        assert barrier.enter(PATIENCE_S, seconds(jvm))
        assert not left
        entered.append(number)
        assert barrier.leave(PATIENCE_S, seconds(jvm))
        left.append(number)
        return len(entered) == members

    with ThreadPoolExecutor(members) as threads:
        assert all(threads.map(work, range(members)))


# Queues


class Text(Callback):
    """A serializer of strings."""

    def serialize(self, item: str) -> bytes:
        return item.encode()

    def deserialize(self, data: bytes) -> str:
        return bytes(data).decode()

    class Java:
        implements = [f"{RECIPES}.queue.QueueSerializer"]  # noqa: RUF012 - what py4j reads


class Consumer(Callback):
    def __init__(self) -> None:
        self.items = queue.SimpleQueue[str]()

    def consumeMessage(self, item: str) -> None:
        self.items.put(item)

    def stateChanged(self, client: Client, state: Any) -> None: ...

    class Java:
        implements = [f"{RECIPES}.queue.QueueConsumer"]  # noqa: RUF012 - what py4j reads


def _builder(jvm: Jvm, client: Client, consumer: Consumer | None, path: str) -> Any:
    builder = recipe(jvm, "queue.QueueBuilder").builder(client, consumer, Text(), path)
    return builder if consumer is None else builder.lockPath(f"{path}-locks")


def test_queue(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    consumer = Consumer()
    producing = _builder(jvm, clients[0], None, path).buildQueue()
    consuming = _builder(jvm, clients[1], consumer, path).buildQueue()
    with started(producing, consuming):
        items = [f"item {number}" for number in range(20)]
        for item in items:
            producing.put(item)
        assert sorted(consumer.items.get(timeout=PATIENCE_S) for _ in items) == sorted(items)
        wait_until(lambda: children(clients[0], path) == [], "what was consumed is gone")


def test_queue_by_priority(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    producing = _builder(jvm, clients[0], None, path).buildPriorityQueue(0)
    with started(producing):
        for priority in (3, 1, 2):
            producing.put(str(priority), priority)
        wait_until(lambda: len(children(clients[1], path)) == 3, "all are there")
    names = children(clients[1], path)
    # The recipe puts its own header before an item and one byte after it.
    assert [read(clients[1], f"{path}/{name}")[-2:-1] for name in names] == [b"1", b"2", b"3"]


def test_simple_queue(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    one, two = (recipe(jvm, "queue.SimpleDistributedQueue")(client, path) for client in clients)
    with ThreadPoolExecutor(1) as threads:
        taking = threads.submit(two.take)
        for item in (b"first", b"second", b"third"):
            assert one.offer(item)
        assert bytes(taking.result()) == b"first"
    assert bytes(one.peek()) == b"second"
    assert [bytes(one.poll()), bytes(two.poll(PATIENCE_S, seconds(jvm))), one.poll()] == [
        b"second",
        b"third",
        None,
    ]


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
        return [self.told.get(timeout=PATIENCE_S) for _ in range(number)]

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
        return self.told.get(timeout=PATIENCE_S)

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


# Nodes


def _persistent_node(jvm: Jvm, client: Client, path: str) -> Any:
    ephemeral = jvm.find("org.apache.zookeeper.CreateMode").EPHEMERAL
    return recipe(jvm, "nodes.PersistentNode")(client, ephemeral, False, path, b"mine")


def test_ephemeral_node_comes_back(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    node = _persistent_node(jvm, clients[0], path)
    with started(node):
        assert node.waitForInitialCreate(PATIENCE_S, seconds(jvm))
        clients[1].sync().forPath(path)
        made = clients[1].checkExists().forPath(path)
        clients[1].delete().forPath(path)

        def made_again() -> bool:
            stat = clients[1].checkExists().forPath(path)
            return stat is not None and stat.getCzxid() > made.getCzxid()

        wait_until(made_again, "the node is there again")
    clients[1].sync().forPath(path)
    assert clients[1].checkExists().forPath(path) is None, "closed, it is gone"


def test_group(jvm: Jvm, connect: Connect, path: str) -> None:
    clients = [connect(number % 2) for number in range(4)]
    members = [
        recipe(jvm, "nodes.GroupMember")(client, path, f"member-{number}", b"%d" % number)
        for number, client in enumerate(clients)
    ]

    def all_see(names: set[str]) -> bool:
        return all(set(member.getCurrentMembers()) == names for member in members)

    with started(*members):
        wait_until(lambda: all_see({f"member-{number}" for number in range(4)}), "all see all")
        clients[0].close()
        members = members[1:]
        wait_until(lambda: all_see({f"member-{number}" for number in range(1, 4)}), "one has gone")


def test_container_goes_with_its_last_child(clients: tuple[Client, Client], path: str) -> None:
    writer, reader = clients
    writer.create().forPath(path)
    writer.create().creatingParentContainersIfNeeded().forPath(f"{path}/group/member")
    writer.create().creatingParentsIfNeeded().forPath(f"{path}/kept/member")
    for parent in ("group", "kept"):
        writer.delete().forPath(f"{path}/{parent}/member")
    wait_until(lambda: children(reader, path) == ["kept"], "the container is reaped")


def test_nodes_with_a_time_to_live(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    writer, reader = clients
    writer.create().forPath(path)
    mode = jvm.find("org.apache.zookeeper.CreateMode").PERSISTENT_SEQUENTIAL_WITH_TTL
    for milliseconds in (1, 600_000):
        writer.create().withTtl(milliseconds).withMode(mode).forPath(f"{path}/lives-{milliseconds}-", b"x")
    left = ["lives-600000-0000000001"]
    wait_until(lambda: children(reader, path) == left, "the other's time is up")

    # This recipe is a container with a child whose time is short, and which it touches again and again.
    node = recipe(jvm, "nodes.PersistentTtlNode")(writer, f"{path}/touched", 1000, b"x")
    with started(node):
        assert node.waitForInitialCreate(PATIENCE_S, seconds(jvm))

        def touched() -> bool:
            stat = reader.checkExists().forPath(f"{path}/touched/touch")
            return stat is not None and stat.getVersion() >= 2

        wait_until(touched, "the child is touched")
    wait_until(lambda: children(reader, path) == left, "closed, it goes")


# Values


def test_shared_count(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    one, two = (recipe(jvm, "shared.SharedCount")(client, path, 7) for client in clients)
    with started(one, two):
        assert (one.getCount(), two.getCount()) == (7, 7)
        one.setCount(8)
        wait_until(lambda: two.getCount() == 8, "the other sees it")
        seen = two.getVersionedValue()
        assert two.trySetCount(seen, 9)
        assert not one.trySetCount(seen, 10), "that version is past"
        wait_until(lambda: one.getCount() == 9, "the other sees it")


def test_atomic_counter(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    each, workers = 10, 4
    policy = jvm.find("org.apache.curator.retry.RetryNTimes")(1000, 1)

    def add(number: int) -> list[int]:
        counter = recipe(jvm, "atomic.DistributedAtomicLong")(clients[number % 2], path, policy)
        results = [counter.increment() for _ in range(each)]
        assert all(result.succeeded() for result in results)
        return [result.postValue() for result in results]

    with ThreadPoolExecutor(workers) as threads:
        values = [value for values in threads.map(add, range(workers)) for value in values]
    assert sorted(values) == list(range(1, each * workers + 1))


# The framework's own


def test_transaction(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    client, other = clients
    operation = client.transactionOp()

    def commit(*operations: Any) -> list[Any]:
        return list(
            client.transaction().forOperations(
                jvm.array("org.apache.curator.framework.api.transaction.CuratorOp", *operations)
            )
        )

    results = commit(
        operation.create().forPath(path, b"1"),
        operation.check().withVersion(0).forPath(path),
        operation.create().forPath(f"{path}/a"),
        operation.setData().withVersion(0).forPath(path, b"2"),
        operation.create().forPath(f"{path}/b"),
        operation.delete().forPath(f"{path}/a"),
    )
    assert [result.getType().toString() for result in results] == [
        *("CREATE", "CHECK", "CREATE", "SET_DATA", "CREATE", "DELETE")
    ]
    assert [results[0].getResultPath(), results[2].getResultPath()] == [path, f"{path}/a"]
    assert results[3].getResultStat().getVersion() == 1
    assert children(other, path) == ["b"]

    with pytest.raises(Py4JJavaError) as raised:
        commit(
            operation.setData().forPath(path, b"3"),
            operation.check().withVersion(9).forPath(path),
            operation.delete().forPath(f"{path}/b"),
        )
    failure = raised.value.java_exception
    assert failure.getClass().getSimpleName() == "BadVersionException"
    codes = [result.getErr() for result in failure.getResults()]
    assert codes == [0, -103, -2], "what came before was rolled back, what comes after was not tried"
    assert read(client, path) == b"2"


def test_creates_and_deletes_of_every_kind(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    client, other = clients
    modes = jvm.find("org.apache.zookeeper.CreateMode")
    protected = client.create().creatingParentsIfNeeded().withProtection()
    made = protected.withMode(modes.EPHEMERAL_SEQUENTIAL).forPath(f"{path}/p-", b"")
    assert made.startswith(f"{path}/_c_")
    stat = jvm.find("org.apache.zookeeper.data.Stat")()
    client.create().storingStatIn(stat).forPath(f"{path}/stat", b"12")
    assert (stat.getDataLength(), stat.getVersion()) == (2, 0)
    client.create().compressed().forPath(f"{path}/compressed", b"x" * 1000)
    assert bytes(client.getData().decompressed().forPath(f"{path}/compressed")) == b"x" * 1000
    assert len(read(client, f"{path}/compressed")) < 100
    with refused("NodeExistsException"):
        client.create().forPath(f"{path}/stat")
    with refused("BadVersionException"):
        client.delete().withVersion(4).forPath(f"{path}/stat")
    client.create().idempotent().forPath(f"{path}/again", b"x")
    client.create().idempotent().forPath(f"{path}/again", b"x")
    client.delete().guaranteed().forPath(f"{path}/stat")
    client.delete().quietly().forPath(f"{path}/stat")
    assert children(other, path) == ["_c_" + made.rpartition("/_c_")[2], "again", "compressed"]
    client.delete().deletingChildrenIfNeeded().forPath(path)
    other.sync().forPath(path)
    assert other.checkExists().forPath(path) is None


def test_namespace_and_permissions(jvm: Jvm, connect: Connect, path: str) -> None:
    client = connect(0)
    inside = client.usingNamespace(path[1:])
    inside.create().forPath("/node", b"x")
    assert read(client, f"{path}/node") == b"x"
    client.getZookeeperClient().getZooKeeper().addAuthInfo("digest", b"user:test")
    owner = jvm.find("org.apache.zookeeper.ZooDefs$Ids").CREATOR_ALL_ACL
    client.create().withACL(owner).forPath(f"{path}/mine", b"x")
    [entry] = client.getACL().forPath(f"{path}/mine")
    assert entry.getId().getScheme() == "digest"
    assert entry.getId().getId() == "user:tl+z3z0vO6PfPfEENfLF96E6pM0="
    other = connect(1)
    other.sync().forPath(path)
    with refused("NoAuthException"):
        other.getData().forPath(f"{path}/mine")
    readable = jvm.find("org.apache.zookeeper.ZooDefs$Ids").READ_ACL_UNSAFE
    client.setACL().withVersion(0).withACL(readable).forPath(f"{path}/mine")
    other.sync().forPath(path)
    assert read(other, f"{path}/mine") == b"x"
    with refused("NoAuthException"):
        other.setData().forPath(f"{path}/mine")


# Servers that die, last: whoever reaped containers is missed for a while


def test_mutex_outlives_its_server(
    jvm: Jvm, connect: Connect, servers: tuple[ServerProcess, ServerProcess], path: str
) -> None:
    holder, other = connect(0, 1), connect(1, 0)
    one, two = (recipe(jvm, "locks.InterProcessMutex")(client, path) for client in (holder, other))
    assert one.acquire(PATIENCE_S, seconds(jvm))
    session = holder.getZookeeperClient().getZooKeeper().getSessionId()
    with ThreadPoolExecutor(1) as threads:

        def wait_in_line() -> bool:
            got: bool = two.acquire(2 * PATIENCE_S, seconds(jvm))
            two.release()
            return got

        waiting = threads.submit(wait_in_line)
        wait_until(lambda: len(children(other, path)) == 2, "the other waits in line")
        for server in dict.fromkeys(servers):
            server.kill()
            server.start()
        assert len(children(holder, path)) == 2
        assert holder.getZookeeperClient().getZooKeeper().getSessionId() == session
        assert not waiting.done()
        one.release()
        assert waiting.result()


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
            # One that reconnects may be told more than once.
            while events.told.get(timeout=PATIENCE_S) != ("NODE_CHANGED", path, b"%d" % number):
                pass
