"""Reading a snapshot's pages; damaged ones are in test_start."""

import os
from typing import Any
from unittest import mock

import pytest

from proxy.log.load import pages as module
from proxy.log.load.pages import UnusableSnapshot, read_snapshot
from tests.proxy.log.trees import Tree, pages_of


async def test_many_pages_in_several_requests() -> None:
    tree = await Tree().make("a")
    for number in range(30):
        await tree.create("a", f"/{number}", data=os.urandom(50_000))
    ref = (await tree.snapshot("a")).ref
    assert ref is not None
    assert ref.node_pages > 5
    assert ref.bytes > 30 * 50_000
    told: list[int] = []
    with mock.patch.object(module, "_TOGETHER", 2):
        machine = await read_snapshot(tree.etcd, tree.keys, ref, told.append)
    assert pages_of(machine) == pages_of(tree.ran())
    assert sum(told) == ref.nodes
    wrong: list[dict[str, Any]] = [{"nodes": 1}, {"zxid": 1}, {"digest": 1}, {"sessions": 9}, {"name": "1-x"}]
    for fields in (*wrong, {"node_pages": ref.node_pages + 1}, {"node_pages": ref.node_pages - 1}):
        with pytest.raises(UnusableSnapshot):
            await read_snapshot(tree.etcd, tree.keys, ref._replace(**fields), told.append)
