"""What applications build on ZooKeeper, by a hundred clients over two proxies on one etcd.

On real ZooKeeper both are one server, which is started again where a test kills the first of two.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TypeVar

import pytest
from kazoo.client import KazooClient, KazooState

from lab.client.blocking import BAD_VERSION, EPHEMERAL, LONG_MS, SEQUENTIAL, Client, Refused
from lab.servers import wait_until
from lab.servers.process import ServerProcess

T = TypeVar("T")
Pair = tuple[ServerProcess, ServerProcess]

SHORT_MS = 8_000
CLIENTS = 128


@pytest.fixture
def clients(pair: Pair) -> Iterator[list[Client]]:
    """Clients of either server, in turn."""
    with ExitStack() as stack:
        yield [stack.enter_context(Client(pair[i % 2].port, LONG_MS)) for i in range(CLIENTS)]


def all_at_once(clients: list[Client], work: Callable[[Client], T]) -> list[T]:
    """Let every client do its work in a thread of its own, all starting together."""
    start = threading.Barrier(len(clients))

    def run(client: Client) -> T:
        start.wait()
        return work(client)

    with ThreadPoolExecutor(len(clients)) as threads:
        return list(threads.map(run, clients))


def test_sequential_names_are_unique_and_without_gaps(clients: list[Client]) -> None:
    each = 20
    clients[0].create("/queue")
    clients[1].sync()
    mine = all_at_once(clients, lambda c: [c.create("/queue/n-", b"", SEQUENTIAL) for _ in range(each)])
    assert sorted(name for names in mine for name in names) == [
        f"/queue/n-{number:010d}" for number in range(each * CLIENTS)
    ]
    assert all(names == sorted(names) for names in mine), "a client's own names ascend"
    for client in clients[:2]:
        client.sync()
        names, stat = client.children("/queue")
        assert {f"/queue/{name}" for name in names} == {name for names in mine for name in names}
        assert (stat.num_children, stat.cversion) == (each * CLIENTS, each * CLIENTS)


def test_a_counter_of_versioned_sets_loses_nothing(clients: list[Client]) -> None:
    each = 3
    clients[0].create("/counter", b"0")
    clients[1].sync()

    def increment(client: Client) -> list[int]:
        versions: list[int] = []
        while len(versions) < each:
            value, stat = client.read("/counter")
            try:
                versions.append(client.write("/counter", b"%d" % (int(value) + 1), stat.version).version)
            except Refused as refused:
                if refused.code != BAD_VERSION:
                    raise
                # The other server's news may not have come yet.
                client.sync()
        return versions

    versions = [version for versions in all_at_once(clients, increment) for version in versions]
    assert sorted(versions) == list(range(1, each * CLIENTS + 1)), "each version has one writer"
    for client in clients[:2]:
        client.sync()
        value, stat = client.read("/counter")
        assert (int(value), stat.version) == (each * CLIENTS, each * CLIENTS)


def test_a_lock_is_never_held_twice_even_when_a_server_dies(pair: Pair) -> None:
    each = 4
    lost: list[str] = []
    suspended: list[str] = []
    held = threading.Lock()
    taken: list[int] = []
    half, killed = threading.Event(), threading.Event()

    def listen(state: str) -> None:
        if state != KazooState.CONNECTED:
            (lost if state == KazooState.LOST else suspended).append(state)

    def work(number: int) -> None:
        # Both addresses, so that a client of the dead one goes on at the other; half of them start at each.
        first, second = (pair[(number + i) % 2].address for i in range(2))
        client = KazooClient(f"{first},{second}", timeout=LONG_MS / 1000, randomize_hosts=False)
        client.add_listener(listen)
        client.start(timeout=60)
        lock = client.Lock("/lock", str(number))
        for round_ in range(each):
            if round_ == each - 1:
                killed.wait(120)  # every client is there when the server dies
            lock.acquire(timeout=120)
            assert held.acquire(blocking=False), "another client holds the lock"
            assert not lost, "the test is void once a session has ended"
            taken.append(number)
            if len(taken) >= workers * each // 2:
                half.set()
            held.release()
            # A release whose answer was lost with the server leaves the node behind; it is this client's own.
            client.retry(lock.release)
        client.remove_listener(listen)
        client.stop()
        client.close()

    workers = 24
    with ThreadPoolExecutor(workers) as threads:
        futures = [threads.submit(work, number) for number in range(workers)]
        assert half.wait(120)
        pair[0].kill()
        killed.set()
        pair[0].start()
        for future in futures:
            future.result()
    assert suspended, "the server died while clients were using it"
    assert sorted(taken) == sorted(list(range(workers)) * each)


def test_ephemerals_of_a_killed_server_stay_for_those_who_reconnect_in_time(pair: Pair) -> None:
    first, second = pair
    with ExitStack() as stack:
        watcher = stack.enter_context(Client(second.port, LONG_MS))
        watcher.create("/alive")
        clients = [stack.enter_context(Client(first.port, SHORT_MS)) for _ in range(40)]
        clients[0].sync()
        for number, client in enumerate(clients):
            client.create(f"/alive/{number}", b"", EPHEMERAL)
        watcher.sync()
        assert watcher.children("/alive")[0] == {str(number) for number in range(40)}

        first.kill()
        if first is second:
            first.start()
            watcher.reconnect(second.port)
        staying = clients[::2]
        for client in staying:
            client.reconnect(second.port)

        def only_those_who_came_back() -> bool:
            for client in staying:
                client.ping()
            names, stat = watcher.children("/alive")
            # All came back before the first of the others could run out: none of them may ever be missing.
            assert names >= {str(number) for number in range(0, 40, 2)}
            assert stat.cversion == 80 - len(names), "each end moved the parent's counter once"
            return len(names) == len(staying)

        wait_until(only_those_who_came_back, "the ephemerals of the others go", interval=0.1)
        for client in staying:
            client.close()
        watcher.sync()
        assert watcher.children("/alive")[0] == set()


def test_kazoo_recipes_go_on_when_their_server_dies(pair: Pair) -> None:
    first, second = pair
    items = [b"item %d" % number for number in range(60)]
    leaders: queue.SimpleQueue[str] = queue.SimpleQueue()
    seen: list[list[str]] = []
    consumed: list[bytes] = []
    resign = threading.Event()
    with ExitStack() as stack:

        def client(name: str, *servers: ServerProcess) -> KazooClient:
            hosts = ",".join(server.address for server in servers)
            made = KazooClient(hosts, timeout=LONG_MS / 1000, randomize_hosts=False)
            stack.callback(made.close)
            stack.callback(made.stop)
            made.start(timeout=60)
            return made

        # Those of the dying server know the other; what they hold has to stay theirs.
        moving = client("moving", first, second)
        staying = client("staying", second)
        session = moving.client_id
        staying.ensure_path("/children")
        moving.sync("/children")
        moving.ChildrenWatch("/children")(seen.append)

        def lead(name: str) -> None:
            leaders.put(name)
            assert resign.wait(60)

        threads = stack.enter_context(ThreadPoolExecutor(4))
        threads.submit(moving.Election("/election", "moving").run, lead, "moving")
        assert leaders.get(timeout=60) == "moving"
        waiting = staying.Election("/election", "staying")
        threads.submit(waiting.run, lead, "staying")
        moving.Party("/party", "moving").join()
        staying.LockingQueue("/queue").put_all(items)
        # Each holds an item when the server dies, and nothing is on its way whose fate it could not know.
        holding, killed = threading.Barrier(3, timeout=60), threading.Event()

        def consume(consumer: KazooClient) -> None:
            locked = consumer.LockingQueue("/queue")
            taken = 0
            while len(consumed) < len(items):
                if (item := consumer.retry(locked.get, timeout=1)) is None:
                    continue
                taken += 1
                if taken == len(items) // 4:
                    holding.wait()
                    killed.wait(60)
                assert consumer.retry(locked.consume)
                consumed.append(item)

        consumers = [threads.submit(consume, consumer) for consumer in (moving, staying)]
        holding.wait()
        first.kill()
        killed.set()
        first.start()
        for consumer in consumers:
            consumer.result()
        assert sorted(consumed) == sorted(items), "each once"

        staying.create("/children/new")
        wait_until(lambda: seen[-1:] == [["new"]], "the watch has moved along")
        assert moving.retry(moving.get_children, "/party")
        assert moving.client_id == session
        assert leaders.empty(), "the leader is the same"
        resign.set()
        assert leaders.get(timeout=60) == "staying"
