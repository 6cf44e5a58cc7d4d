"""Nodes and counters."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lab.servers import wait_until
from tests.clients.curator.shared import TIMEOUT_S, Client, Connect, children, recipe, seconds, started
from tests.clients.jvm import Jvm

# Nodes


def _persistent_node(jvm: Jvm, client: Client, path: str) -> Any:
    ephemeral = jvm.find("org.apache.zookeeper.CreateMode").EPHEMERAL
    return recipe(jvm, "nodes.PersistentNode")(client, ephemeral, False, path, b"mine")


def test_ephemeral_node_comes_back(jvm: Jvm, clients: tuple[Client, Client], path: str) -> None:
    node = _persistent_node(jvm, clients[0], path)
    with started(node):
        assert node.waitForInitialCreate(TIMEOUT_S, seconds(jvm))
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
        assert node.waitForInitialCreate(TIMEOUT_S, seconds(jvm))

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
