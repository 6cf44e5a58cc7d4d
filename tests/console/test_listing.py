"""Order and pauses, of names that change meanwhile; walks, by what ACLs let be listed."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.jute import OPEN_ACL, Acl
from console.walks.listing import _CHUNK, _LONG, MOST_CHARACTERS, first_of, ordered, walk
from proxy.state.auth.digest import digest_identity
from proxy.state.node import Node, make_node
from proxy.state.tree import Tree

_AMY = digest_identity(b"amy:secret")
_HERS = (Acl(31, "digest", _AMY.id),)


def _node(acl: tuple[Acl, ...] = OPEN_ACL) -> Node:
    return make_node(b"", acl, 0, 1, 1, 1, 1, 1, 0, 0, 0)


def tree_of(*paths: str, hers: frozenset[str] = frozenset()) -> Tree:
    tree = Tree()
    for path in ("/", *paths):
        tree.attach(path, _node(_HERS if path in hers else OPEN_ACL))
    return tree


def _names(found: Iterator[str | None]) -> list[str]:
    return [name for name in found if name is not None]


@given(st.sets(st.text(max_size=3)))
def test_names_come_in_order(names: set[str]) -> None:
    assert _names(ordered(lambda: names)) == sorted(names)


def test_a_large_directory_is_sorted_in_small_pieces() -> None:
    names = {f"{number:06d}" for number in range(100_000)}
    found = ordered(lambda: names)
    pauses = 0
    for name in found:
        if name is not None:
            break
        pauses += 1
    assert pauses == 100_000 // _CHUNK
    assert len(_names(found)) == 99_999


def test_long_names_are_sorted_a_few_at_a_time() -> None:
    names = {f"{number:03d}{'n' * 20_000}" for number in range(100)}
    pauses = sum(name is None for name in ordered(lambda: names))
    assert pauses >= 2_000_000 // _LONG


def test_an_answer_has_so_many_characters_of_names() -> None:
    names = [f"{number:03d}{'n' * 20_000}" for number in range(100)]
    some = first_of(names)
    assert some == names[: len(some)]
    assert MOST_CHARACTERS <= sum(map(len, some)) < MOST_CHARACTERS + 20_100
    assert first_of(["n" * (2 * MOST_CHARACTERS), "m"]) == ["n" * (2 * MOST_CHARACTERS)]


def test_names_that_come_twice_are_told_once() -> None:
    assert _names(ordered(lambda: iter(["b", "a", "b"]))) == ["a", "b"]


@pytest.mark.parametrize("times", [1, 2, 100])
def test_a_directory_that_changes_in_pauses_keeps_what_stays(times: int) -> None:
    names = {f"{number:06d}" for number in range(3 * _CHUNK)}
    stay = frozenset(names)
    found = []
    for name in ordered(lambda: names):
        if name is not None:
            found.append(name)
        elif times:
            times -= 1
            names.add(f"new {times}")
    assert stay <= set(found)
    assert found == sorted(set(found))


def test_a_walk_goes_in_order_parents_first() -> None:
    tree = tree_of("/b", "/a", "/a/y", "/a/x", "/a/x/1", "/a-b")
    assert _names(walk(tree.nodes, (), "/")) == ["/", "/a", "/a/x", "/a/x/1", "/a/y", "/a-b", "/b"]
    assert _names(walk(tree.nodes, (), "/a")) == ["/a", "/a/x", "/a/x/1", "/a/y"]
    assert _names(walk(tree.nodes, (), "/none")) == []


def test_a_walk_goes_on_behind_any_path() -> None:
    tree = tree_of("/b", "/a", "/a/y", "/a/x", "/a/x/1", "/a-b")
    whole = _names(walk(tree.nodes, (), "/"))
    for place, path in enumerate(whole):
        assert _names(walk(tree.nodes, (), "/", path)) == whole[place + 1 :]
    assert _names(walk(tree.nodes, (), "/", "/a/x/0/gone")) == ["/a/x/1", "/a/y", "/a-b", "/b"]
    assert _names(walk(tree.nodes, (), "/a", "/b")) == ["/a/x", "/a/x/1", "/a/y"]


def test_a_walk_lists_only_what_may_be_listed() -> None:
    tree = tree_of("/a", "/a/x", "/b", "/b/y", hers=frozenset(("/a", "/b/y")))
    hidden: list[str] = []
    assert _names(walk(tree.nodes, (), "/", hidden=hidden.append)) == ["/", "/a", "/b", "/b/y"]
    assert hidden == ["/a"]
    assert "/a/x" in _names(walk(tree.nodes, (_AMY,), "/"))
    assert _names(walk(tree.nodes, (), "/", "/a/x")) == ["/b", "/b/y"]
