"""kazoo's recipes over two proxies on one etcd, while one of them is killed.

On real ZooKeeper both are one server, which is started again.
"""

import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from kazoo.client import KazooClient

from lab.client.blocking import LONG_MS
from lab.servers import wait_until
from lab.servers.process import ServerProcess

Pair = tuple[ServerProcess, ServerProcess]


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
