"""The tree: links between nodes, and all nodes of a subtree, by way of their parents or of all paths."""

from sys import getsizeof

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.jute import OPEN_ACL
from proxy.state.capture import new_machine
from proxy.state.node import Node, make_node
from proxy.state.pause import NO_PAUSE, Lengths, Pause
from proxy.state.rights import OPEN
from proxy.state.subtree import subtree
from proxy.state.transaction import Transaction
from proxy.state.tree import Tree
from schema.paths import ROOT, parent_of


def _node() -> Node:
    return make_node(None, OPEN_ACL, *[0] * 9)


def test_a_node_needs_a_parent_to_be_linked_to() -> None:
    tree = Tree()
    tree.enter("/p/c", _node())
    with pytest.raises(KeyError):
        tree.link("/p/c")
    tree.enter("/p", _node())
    tree.link("/p/c")
    assert list(tree.nodes["/p"].children or ()) == ["/p/c"]


_names = st.sampled_from(["a", "ab", "b"])
_paths = st.lists(_names, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))


def _tree(paths: list[str]) -> Tree:
    tree = Tree()
    wanted = {ROOT}
    for path in paths:
        while path != ROOT:
            wanted.add(path)
            path = parent_of(path)
    for path in sorted(wanted):
        tree.attach(path, _node())
    return tree


@pytest.mark.parametrize("every", [1, 1000])
@given(st.lists(_paths, max_size=12), _paths)
def test_all_that_is_below_a_node(every: int, paths: list[str], top: str) -> None:
    nodes = _tree(paths).nodes
    for path in (ROOT, top):
        found = [item for some in subtree(nodes, path, Pause(Lengths(every))) for item in some]
        prefix = path if path == ROOT else f"{path}/"
        expected = {below for below in nodes if below == path or below.startswith(prefix)}
        assert sorted(below for below, _ in found) == sorted(expected)
        assert all(nodes[below] is node for below, node in found)


@pytest.mark.long
def test_a_large_directory_comes_in_pieces() -> None:
    nodes = _tree(
        [f"/a/{number}" for number in range(5000)] + [f"/b/{number}" for number in range(50_000)]
    ).nodes
    for path, count in (("/a", 5001), ("/b", 50_001)):
        sizes = [len(some) for some in subtree(nodes, path, NO_PAUSE)]
        assert sum(sizes) == count
        assert max(sizes) <= 8192
        assert len(sizes) >= 5


@pytest.mark.parametrize("owner", [0, 5])
def test_what_was_large_once_does_not_keep_its_room(owner: int) -> None:
    """To go over a directory, or what a session owns, takes as long as there is room in it."""
    machine = new_machine(1)
    tx = Transaction(machine.tree, machine.sessions, machine.digest)
    tx.enter("home", 1000, 0)
    paths = [f"/p/{number}" for number in range(30_000)]
    tx.create("/p", ROOT, tx.nodes[ROOT], b"", OPEN, 0)
    for path in paths:
        tx.create(path, "/p", tx.nodes["/p"], b"", OPEN, owner)
    tx.commit()
    *deleted, left = paths
    for path in deleted:
        tx.delete(path, "/p", tx.nodes["/p"], tx.nodes[path])
    tx.commit()
    children = tx.nodes["/p"].children
    assert list(children or ()) == [left]
    assert getsizeof(children) < 1 << 19
    assert not owner or list(machine.tree.ephemerals[owner]) == [left]
    assert getsizeof(machine.tree.ephemerals.get(owner)) < 1 << 19
