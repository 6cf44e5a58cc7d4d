"""The keys among a path and its ancestors: the right ones, in order, and without a look at each ancestor."""

from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from proof.fuzzing.expensive import Lines
from proxy.state.by_path import ByPath
from proxy.state.pause import BYTES_PER_STEP, LENGTHS, Pause
from schema.paths import ROOT, parent_of

_PATHS = st.lists(st.sampled_from(("a", "b", "aa")), max_size=5).map(lambda steps: "/" + "/".join(steps))


@given(st.lists(_PATHS), st.sets(_PATHS), _PATHS)
def test_upwards_finds_what_a_look_at_each_ancestor_finds(
    put: list[str], deleted: set[str], path: str
) -> None:
    found: ByPath[int] = ByPath()
    for number, key in enumerate(put):
        found[key] = number
    for key in deleted & found.keys():
        del found[key]
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
    assert lines.count < 50


def test_a_key_at_each_ancestor_of_a_deep_path_is_found_with_pauses() -> None:
    """That is the square of the path's length, for each change of the node."""
    pauses: list[int] = []

    class Counted(Pause):
        @override
        def __call__(self) -> None:
            super().__call__()
            pauses.append(1)

    path = "/a" * 3000
    found: ByPath[int] = ByPath()
    for length in range(2, len(path) + 1, 2):
        found[path[:length]] = length
    assert len([*found.upwards(path, Counted())]) == 3000
    copied = sum(range(2, len(path) + 1, 2))
    assert len(pauses) >= (3000 + copied // BYTES_PER_STEP) // (2 * LENGTHS.every)


def test_any_text_is_below_the_root_alone() -> None:
    found: ByPath[int] = ByPath()
    found[ROOT] = found["/a"] = 1
    for text in ("", "a", "a/b", "//", "//a"):
        assert list(found.upwards(text)) == [ROOT]


def test_a_key_is_found_after_another_of_its_length_is_deleted() -> None:
    found: ByPath[int] = ByPath()
    for key in ("/a", "/b", "/c"):
        found[key] = 1
    del found["/a"]
    assert list(found.upwards("/b/x")) == ["/b"]
    del found["/b"]
    assert list(found.upwards("/c/x")) == ["/c"]


def test_a_deep_path_costs_as_many_lookups_as_there_are_lengths() -> None:
    lookups = 0

    class Counting(ByPath[int]):
        @override
        def __contains__(self, path: object) -> bool:
            nonlocal lookups
            lookups += 1
            return super().__contains__(path)

    found = Counting()
    for key in ("/a/a/a", "/a/a/b", "/a", "/b/b/b/b"):
        found[key] = 1
    lookups = 0
    assert list(found.upwards("/a" * 10_000)) == ["/a/a/a", "/a"]
    assert lookups == 4  # three lengths, and the root
