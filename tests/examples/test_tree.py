"""Subtrees on real ZooKeeper."""

from examples.tree import delete_tree, make_parents, paths_below
from lab.client.requests import create, exists
from lab.client.session import Address, Session
from lab.servers import ZooKeeperServer


async def test_a_subtree_is_listed_and_deleted(zookeeper_server: ZooKeeperServer) -> None:
    session = await Session.open(Address("127.0.0.1", zookeeper_server.port))
    await make_parents(session, "/tree/a/b/c")
    await make_parents(session, "/tree/a/b/c")  # they are there
    await session.call(create("/tree/z"))
    await session.call(create("/tree-stays"))
    assert await paths_below(session, "/tree") == ["/tree", "/tree/a", "/tree/z", "/tree/a/b"]
    await delete_tree(session, "/tree")
    assert await paths_below(session, "/tree") == []
    await delete_tree(session, "/tree")
    assert await session.call(exists("/tree-stays")) is not None
    await session.close()
