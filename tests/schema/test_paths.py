"""Path rules against a reference that reads like ZooKeeper's own PathUtils, character by character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schema.paths import SPECIAL_PATHS, is_valid, join, parent_of, prefix_of, split


def _java_units(path: str) -> list[int]:
    """The UTF-16 units that Java's String.toCharArray gives."""
    raw = path.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(raw[place : place + 2]) for place in range(0, len(raw), 2)]


def _java_accepts(path: str) -> bool:
    """The rules of PathUtils.validatePath, each at its place."""
    units = _java_units(path)
    slash, dot = ord("/"), ord(".")
    if not units or units[0] != slash:
        return False
    if len(units) == 1:
        return True
    if units[-1] == slash:
        return False
    for place in range(1, len(units)):
        unit, last = units[place], units[place - 1]
        ends_step = place + 1 == len(units) or units[place + 1] == slash
        if unit == slash:
            if last == slash:
                return False
        elif unit == dot:
            if last == dot:
                if units[place - 2] == slash and ends_step:
                    return False
            elif last == slash and ends_step:
                return False
        elif unit <= 0x1F or 0x7F <= unit <= 0x9F or 0xD800 <= unit <= 0xF8FF or unit >= 0xFFF0:
            return False
    return True


@pytest.mark.long
def test_the_reference_and_the_rule_agree_on_every_character() -> None:
    differing = [
        hex(point)
        for point in (*range(0x10000), *range(0x10000, 0x110000, 0xFF), 0x10FFFF)
        if is_valid(f"/a{chr(point)}b") is not _java_accepts(f"/a{chr(point)}b")
    ]
    assert differing == []
    assert all(map(is_valid, SPECIAL_PATHS))


_EDGES = ("", "/", "//", "/.", "/..", "/...", "/a/../b", "/a/./b", "/a..", "/..a/.b", "/a/", "a/b", "/\n")
_TEXTS = st.text(st.sampled_from("/.a\0\x1f \x7f\x9f\ud800\ufff0\uffef\U00010000-é"), max_size=12)


@given(_TEXTS)
def test_the_reference_and_the_rule_agree_on_every_arrangement(text: str) -> None:
    for path in (text, "/" + text, *_EDGES):
        assert is_valid(path) is _java_accepts(path), path


@given(st.lists(st.text(st.characters(exclude_characters="/"), min_size=1), min_size=1))
def test_split_join_and_parent_are_one_thing(steps: list[str]) -> None:
    path = "/" + "/".join(steps)
    parent, name = split(path)
    assert (parent, name) == ("/" + "/".join(steps[:-1]), steps[-1])
    assert parent_of(path) == parent
    assert join(parent, name) == path


def test_a_prefix_has_no_number_of_a_sequential_node() -> None:
    paths = ("/", "/a", "/a/b", "/a/b/c", "/a/n-0000000001", "/a/n-0000000001/b", "/a/b/n-0000000001")
    assert [prefix_of(path, 2) for path in paths] == ["/", "/a", "/a/b", "/a/b", "/a/n-", "/a/n-", "/a/b"]
