"""Reading a snapshot's pages; damaged ones are in test_start."""

import os
from unittest import mock

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.log import pages as module
from proxy.log.pages import UnusableSnapshot, read_snapshot
from tests.proxy.log.trees import Ran, Tree, pages_of


async def test_many_pages_in_several_requests() -> None:
    store = FakeEtcd()
    tree = await Tree(FakeEtcdClient(store)).make()
    await tree.come("a")
    for number in range(30):
        await tree.create("a", f"/{number}", data=os.urandom(50_000))
    ref = (await tree.snapshot("a")).ref
    assert ref is not None
    assert ref.node_pages > 5
    assert ref.bytes > 30 * 50_000
    told: list[int] = []
    with mock.patch.object(module, "_TOGETHER", 2):
        machine = await read_snapshot(tree.etcd, tree.keys, ref, told.append)
    assert pages_of(machine) == pages_of(Ran(store).follow())
    assert sum(told) == ref.nodes
    for wrong in (
        ref._replace(nodes=1),
        ref._replace(zxid=1),
        ref._replace(digest=1),
        ref._replace(sessions=9),
        ref._replace(node_pages=ref.node_pages + 1),
        ref._replace(node_pages=ref.node_pages - 1),
        ref._replace(name="1-x"),
    ):
        with pytest.raises(UnusableSnapshot):
            await read_snapshot(tree.etcd, tree.keys, wrong, told.append)
