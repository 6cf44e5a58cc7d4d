"""Windows of directories, small and large, that change or do not."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.walks import directories
from console.walks.directories import _SMALL, Directories, Names, Window
from console.walks.listing import MOST_CHARACTERS
from console.walks.pacing import Pace
from proxy.state.node import FullNode, Node, full_node
from tests.console.test_listing import tree_of


def _directory(count: int) -> FullNode:
    tree = tree_of("/d")
    node = full_node(tree.nodes, "/d")
    node.children = dict.fromkeys(f"/d/{number:06d}" for number in range(count))
    return node


async def _names(known: Directories, node: Node, window: Window) -> Names:
    found = await known.names(node, window, Pace(asyncio.Lock(), lambda: False))
    return found._replace(names=list(found.names))


async def test_a_place_among_many_is_found_by_name_and_by_number() -> None:
    node, known = _directory(20_000), Directories()
    window = Window("/d", limit=3)
    assert await _names(known, node, window) == (["000000", "000001", "000002"], 0, 20_000)
    found = await _names(known, node, window._replace(start="012344x", lead=1))
    assert found == (["012344", "012345", "012346"], 12_344, 20_000)
    assert (await _names(known, node, window._replace(offset=19_999))).names == ["019999"]
    assert (await _names(known, node, window._replace(offset=99_999))).names == []
    assert await _names(known, node, window._replace(prefix="0123", after="012398")) == (["012399"], 99, 100)
    assert await _names(known, node, window._replace(contains="999", offset=1)) == (
        ["001999", "002999", "003999"],
        1,
        38,
    )


async def test_sorted_names_are_kept_until_a_child_comes_or_goes() -> None:
    node, known = _directory(_SMALL + 1), Directories()
    assert node.children is not None
    await _names(known, node, Window("/d"))
    kept = known._kept["/d"][1]
    await _names(known, node, Window("/d"))
    assert known._kept["/d"][1] is kept
    node.children["/d/!"] = None
    node.created += 1
    assert (await _names(known, node, Window("/d", limit=2))).names == ["!", "000000"]
    assert known._kept["/d"][1] is not kept
    del node.children["/d/000000"]
    assert (await _names(known, node, Window("/d", limit=1))).matching == _SMALL + 1


async def test_only_so_many_names_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directories, "_MOST_KEPT", 3 * _SMALL * (9 + 8))
    known = Directories()
    for place in range(5):
        await _names(known, _directory(_SMALL + 1), Window(f"/{place}", limit=1))
    assert list(known._kept) == ["/3", "/4"]


async def test_long_names_come_a_few_at_a_time_and_are_not_copied() -> None:
    node, known = _directory(0), Directories()
    node.children = dict.fromkeys(f"/d/{number:02d}{'n' * 50_000}" for number in range(30))
    found: list[str] = []
    while len(found) < 30:
        page = await _names(known, node, Window("/d", after=found[-1] if found else ""))
        assert 0 < sum(map(len, page.names)) < MOST_CHARACTERS + 50_100
        assert (page.before, page.matching) == (len(found), 30)
        found += page.names
    assert [f"/d/{name}" for name in found] == sorted(node.children)
    assert all(any(path is child for child in node.children) for path in known._kept["/d"][1])


@given(
    st.sets(st.text(st.characters(codec="utf-8", exclude_characters="/"), max_size=3), max_size=20),
    st.text(max_size=2),
    st.text(max_size=2),
    st.integers(min_value=1, max_value=30),
    st.integers(min_value=0, max_value=5),
)
async def test_a_window_is_a_part_of_the_sorted_names(
    names: set[str], prefix: str, start: str, limit: int, lead: int
) -> None:
    tree = tree_of("/d")
    full_node(tree.nodes, "/d").children = dict.fromkeys(f"/d/{name}" for name in names)
    window = Window("/d", prefix=prefix, start=start, lead=lead, limit=limit)
    found = await _names(Directories(), tree.nodes["/d"], window)
    matching = sorted(name for name in names if name.startswith(prefix))
    first = max(0, sum(name < start for name in matching) - lead)
    assert found == (matching[first : first + limit], first, len(matching))
