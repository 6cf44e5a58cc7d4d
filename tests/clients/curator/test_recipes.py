"""Leaders, locks, barriers and queues."""

import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lab.servers import wait_until
from lab.servers.process import ServerProcess
from tests.clients.curator.shared import (
    RECIPES,
    TIMEOUT_S,
    Client,
    Connect,
    children,
    read,
    recipe,
    seconds,
    started,
)
from tests.clients.jvm import Callback, Jvm

# Leaders


def test_leader_latch(jvm: Jvm, connect: Connect, path: str) -> None:
    latch = recipe(jvm, "leader.LeaderLatch")
    one, two = connect(0), connect(1)
    first, second = latch(one, path, "first"), latch(two, path, "second")
    first.start()
    assert getattr(first, "await")(TIMEOUT_S, seconds(jvm))
    with started(second):
        wait_until(lambda: len(first.getParticipants()) == 2, "both take part")
        assert not second.hasLeadership()
        two.sync().forPath(path)
        assert second.getLeader().getId() == "first"
        one.close()  # and with its session the node
        assert getattr(second, "await")(TIMEOUT_S, seconds(jvm))
        assert second.getLeader().getId() == "second"


class Leader(Callback):
    def __init__(self) -> None:
        self.taken = queue.SimpleQueue[str]()
        self.resign = threading.Event()

    def takeLeadership(self, client: Client) -> None:
        self.taken.put("leads")
        assert self.resign.wait(TIMEOUT_S)
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
        leaders[0].taken.get(timeout=TIMEOUT_S)
        with started(selectors[1]):
            for leading, waiting in ((0, 1), (1, 0), (0, 1)):
                # Who resigns stands in line again, behind the other only if that one has come meanwhile.
                wait_until(lambda: len(children(clients[0], path)) == 2, "the other waits in line")
                assert leaders[waiting].taken.empty()
                leaders[leading].resign.set()
                leaders[waiting].taken.get(timeout=TIMEOUT_S)
            leaders[1].resign.set()


# Locks


def test_mutex(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    one, two = (recipe(jvm, "locks.InterProcessMutex")(client, path) for client in clients)
    assert one.acquire(TIMEOUT_S, seconds(jvm))
    assert one.acquire(TIMEOUT_S, seconds(jvm)), "its thread may take it again"
    assert not two.acquire(0, seconds(jvm))
    one.release()
    assert not two.acquire(0, seconds(jvm))
    with ThreadPoolExecutor(1) as threads:

        def wait_in_line() -> bool:
            got: bool = two.acquire(TIMEOUT_S, seconds(jvm))
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
    assert one.acquire(TIMEOUT_S, seconds(jvm))
    [holder] = children(clients[1], path)
    recipe(jvm, "locks.Revoker").attemptRevoke(clients[1], f"{path}/{holder}")
    assert asked.event.wait(TIMEOUT_S)
    one.release()


def test_read_write_lock(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    one, two = (recipe(jvm, "locks.InterProcessReadWriteLock")(client, path) for client in clients)
    assert one.readLock().acquire(0, seconds(jvm))
    assert two.readLock().acquire(TIMEOUT_S, seconds(jvm)), "readers share it"
    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(one.writeLock().acquire, 0, seconds(jvm))
        assert not writing.result()
    one.readLock().release()
    two.readLock().release()
    assert two.writeLock().acquire(TIMEOUT_S, seconds(jvm))
    assert not one.readLock().acquire(0, seconds(jvm))
    two.writeLock().release()


def test_several_locks_as_one(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    paths = [f"{path}/a", f"{path}/b"]
    both = recipe(jvm, "locks.InterProcessMultiLock")(clients[0], paths)
    single = recipe(jvm, "locks.InterProcessSemaphoreMutex")(clients[1], f"{path}/other")
    assert both.acquire(TIMEOUT_S, seconds(jvm))
    assert single.acquire(TIMEOUT_S, seconds(jvm))
    other = recipe(jvm, "locks.InterProcessMutex")(clients[1], paths[1])
    assert not other.acquire(0, seconds(jvm))
    both.release()
    assert other.acquire(TIMEOUT_S, seconds(jvm))
    other.release()
    single.release()


def test_semaphore(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    one, two = (recipe(jvm, "locks.InterProcessSemaphoreV2")(client, path, 3) for client in clients)
    leases = one.acquire(2, TIMEOUT_S, seconds(jvm))
    last = two.acquire(TIMEOUT_S, seconds(jvm))
    assert last is not None
    assert two.acquire(1, seconds(jvm)) is None, "all three are taken"
    one.returnAll(leases)
    more = two.acquire(2, TIMEOUT_S, seconds(jvm))
    clients[0].sync().forPath(path)
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
        waiting = threads.submit(two.waitOnBarrier, TIMEOUT_S, seconds(jvm))
        one.removeBarrier()
        assert waiting.result()


def test_double_barrier(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    members = 6
    entered: list[int] = []
    left: list[int] = []

    def work(number: int) -> bool:
        barrier = recipe(jvm, "barriers.DistributedDoubleBarrier")(clients[number % 2], path, members)
        assert barrier.enter(TIMEOUT_S, seconds(jvm))
        assert not left
        entered.append(number)
        assert barrier.leave(TIMEOUT_S, seconds(jvm))
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
        assert sorted(consumer.items.get(timeout=TIMEOUT_S) for _ in items) == sorted(items)
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
    clients[0].sync().forPath(path)
    assert bytes(one.peek()) == b"second"
    assert [bytes(one.poll()), bytes(two.poll(TIMEOUT_S, seconds(jvm))), one.poll()] == [
        b"second",
        b"third",
        None,
    ]


def test_mutex_outlives_its_server(
    jvm: Jvm, connect: Connect, servers: tuple[ServerProcess, ServerProcess], path: str
) -> None:
    holder, other = connect(0, 1), connect(1, 0)
    one, two = (recipe(jvm, "locks.InterProcessMutex")(client, path) for client in (holder, other))
    assert one.acquire(TIMEOUT_S, seconds(jvm))
    session = holder.getZookeeperClient().getZooKeeper().getSessionId()
    with ThreadPoolExecutor(1) as threads:

        def wait_in_line() -> bool:
            got: bool = two.acquire(2 * TIMEOUT_S, seconds(jvm))
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
