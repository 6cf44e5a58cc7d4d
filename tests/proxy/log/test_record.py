"""The record and what can be served; most cases are in test_start."""

import pytest

from proxy.etcd.model import Delete, Put
from proxy.log.record import TreeNotServable, create, incarnation_of, look, servable, unknown_level
from tests.proxy.log.trees import Tree


async def test_one_look_is_one_revision() -> None:
    tree = Tree()
    nothing = await look(tree.etcd, tree.keys)
    assert (nothing.record, nothing.pair, nothing.proxies) == (None, None, [])
    await tree.make("a", "b")
    found = await look(tree.etcd, tree.keys)
    assert found.revision == tree.store.revision
    assert [incarnation_of(tree.keys, proxy) for proxy in found.proxies] == ["a", "b"]
    assert servable(found, tree.keys, (1, 2)) == found.record


async def test_a_record_is_made_once_and_never_over_leftovers() -> None:
    tree = await Tree().make()
    before = await tree.pair()
    await create(tree.etcd, tree.keys, 7)
    assert await tree.pair() == before
    await tree.come("a")
    tree.change(Delete(tree.keys.tree))
    with pytest.raises(TreeNotServable, match="log entries or snapshot pages are there"):
        await create(tree.etcd, tree.keys, 1)


@pytest.mark.parametrize("stray", ["live/log/note", "snapshot/note"])
async def test_a_key_of_another_program_where_a_new_tree_would_lie_is_named(stray: str) -> None:
    tree = Tree()
    tree.change(Put(tree.keys.prefix + b"/" + stray.encode(), b""))
    with pytest.raises(TreeNotServable, match=f"keys of another program, such as b'/t/{stray}': delete"):
        await create(tree.etcd, tree.keys, 1)


def test_words_for_levels() -> None:
    assert "Start a newer release, one that applies level 9" in unknown_level("/t", 9, (2, 3))
    assert "Start an older release" in unknown_level("/t", 1, (2, 3))
