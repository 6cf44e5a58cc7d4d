"""Nodes, counters, transactions."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from lab.servers import wait_until
from tests.clients.curator.shared import (
    TIMEOUT_S,
    Client,
    Connect,
    children,
    read,
    recipe,
    refused,
    seconds,
    started,
)
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
