"""The keys among a path and its ancestors: the right ones, in order, and without a look at each ancestor."""

import zlib
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from proof.fuzzing.expensive import Lines
from proxy.state import by_path
from proxy.state.by_path import ByPath
from proxy.state.pause import Lengths, Pause
from schema.paths import ROOT, parent_of
from tests.proxy.state.test_pause import Counting

_PATHS = st.lists(st.sampled_from(("a", "b", "aa", "\u00e9")), max_size=5).map(
    lambda steps: "/" + "/".join(steps)
)


def _weak(raw: bytes, crc: int = 0) -> int:
    """A checksum that very many keys share, as clients can make them."""
    return (crc + sum(raw)) % 2


@pytest.mark.parametrize("worth", [0, 3, 32])
@pytest.mark.parametrize("checksum", [zlib.crc32, _weak])
@given(st.lists(_PATHS), st.sets(_PATHS), st.lists(_PATHS, max_size=8))
def test_upwards_finds_what_a_look_at_each_ancestor_finds(
    checksum: Callable[..., int], worth: int, put: list[str], deleted: set[str], paths: list[str]
) -> None:
    with mock.patch.multiple(by_path, crc32=checksum, _WORTH_COMPARING=worth):
        _find(put, deleted, paths)


def _find(put: list[str], deleted: set[str], paths: list[str]) -> None:
    found: ByPath[int] = ByPath()
    for number, key in enumerate(put):
        found[key] = number
    _compare(found, paths)
    for key in deleted & found.keys():
        del found[key]
        _compare(found, paths)
    for key in list(found):
        del found[key]
    assert not found._by_mark
    assert not found._lengths
    assert not found._above


def _compare(found: ByPath[int], paths: list[str]) -> None:
    for path in paths:
        steps = [path]
        while steps[-1] != ROOT:
            steps.append(parent_of(steps[-1]))
        assert list(found.upwards(path)) == [step for step in steps if step in found]


def test_long_keys_cost_a_short_path_nothing() -> None:
    """Clients may watch, or give a quota to, paths of very many lengths."""
    found: ByPath[int] = ByPath()
    for length in range(1, 2000):
        found["/" + "x" * length] = length
    lines = Lines()
    with lines.running():
        assert list(found.upwards("/x/y")) == ["/x"]
    assert lines.count < 100


def test_keys_at_each_ancestor_of_a_deep_path_are_found_with_pauses_and_the_path_is_hashed_once() -> None:
    path = "/a" * 3000
    found: ByPath[int] = ByPath()
    for length in range(2, len(path) + 1, 2):
        found[path[:length]] = length
    pause = Counting(512)
    with mock.patch.object(by_path, "crc32", wraps=zlib.crc32) as checksum:
        assert len(found.upwards(path, pause)) == 3000
    assert pause.calls >= 3000 // (2 * 512)
    assert sum(len(call.args[0]) for call in checksum.call_args_list) <= len(path)


def _looked_up(found: ByPath[int], paths: list[str]) -> int:
    """How many lengths are looked up for these paths."""
    with mock.patch.object(by_path, "crc32", wraps=zlib.crc32) as checksum:
        for path in paths:
            assert len(found.upwards(path)) == len(found)
    return checksum.call_count


def test_neighbours_below_many_keys_do_not_look_for_each_of_them() -> None:
    """A session that ends, with a node below each of thousands of parents, took minutes."""
    deep = ["/a" * steps for steps in range(1, 501)]
    found: ByPath[int] = ByPath()
    for key in deep:
        found[key] = 1
    paths = [f"{deep[-1]}/{number}/x" for number in range(1000)]
    assert _looked_up(found, paths) <= 500 + 2 * 1000


def test_long_keys_are_compared_from_their_beginning_once() -> None:
    class Text(str):
        """Counts the characters with which it is compared."""

        __slots__ = ()
        compared = 0

        @override
        def startswith(self, *arguments: Any) -> bool:
            Text.compared += len(arguments[0])
            return super().startswith(*arguments)

    found: ByPath[int] = ByPath()
    for steps in range(1, 501):
        found["/a" * steps] = 1
    for number in range(3):
        Text.compared = 0
        found.from_parent(Text("/a" * 500 + "/x"), Counting(512))
        found["/y"] = 1  # forgets the search, not the comparisons
        del found["/y"]
        assert (Text.compared <= 1000) is (number > 0)


def test_the_same_parent_is_searched_once_until_a_key_comes_or_goes() -> None:
    found: ByPath[int] = ByPath()
    found["/a"] = found["/a/b/1"] = 1
    with mock.patch.object(by_path, "crc32", wraps=zlib.crc32) as checksum:
        assert [*found.upwards("/a/b/0"), *found.upwards("/a/b/1")] == ["/a", "/a/b/1", "/a"]
        assert checksum.call_count == 1
    found["/a/b"] = 1
    assert found.upwards("/a/b/2") == ["/a/b", "/a"]
    del found["/a"]
    assert found.upwards("/a/b/3") == ["/a/b"]

    class Deleting(Pause):
        @override
        def __call__(self) -> None:
            super().__call__()
            if "/a/b" in found:
                del found["/a/b"]

    found["/x"] = 1
    assert found.upwards("/a/b/4") == ["/a/b"]
    found["/y"] = 1
    found.upwards("/a/b/5", Deleting(Lengths(every=1)))
    assert found.upwards("/a/b/6") == []
