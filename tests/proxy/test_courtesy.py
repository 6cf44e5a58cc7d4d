"""Who has won holds back, until the loser has come or some time is over."""

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

from proxy.courtesy import Courtesy, Hold
from proxy.mirror import Mirror
from proxy.tree import Node
from proxy.watches import WatchTable
from tests.proxy.test_mirror import Listening
from tests.proxy.world import KEYS


class Proxy(NamedTuple):
    courtesy: Courtesy
    locks: dict[str, Any]
    woken: list[object]
    mirror: Mirror

    def change(self, path: str, revision: int) -> None:
        """Somebody's write at `revision`."""
        node = self.mirror.tree.nodes.get(path)
        if node is None:
            node = self.mirror.tree.nodes[path] = Node()
            node.counter_mod = 0
        node.mod = revision


def proxy() -> Proxy:
    mirror = Mirror(KEYS, WatchTable(), Listening())
    locks: dict[str, Any] = {}
    woken: list[object] = []

    def wake(waiting: Iterable[object]) -> None:
        woken.extend(waiting)

    made = Proxy(Courtesy(mirror, locks, wake), locks, woken, mirror)
    made.change("/a", 5)
    made.courtesy.won(5, 0.001)
    return made


async def test_the_winner_holds_the_path_until_the_other_has_written() -> None:
    ours = proxy()
    ours.courtesy.lost(["/other", "/a"])
    hold = ours.locks["/a"]
    assert isinstance(hold, Hold)
    hold.waiting.append("session")
    ours.courtesy.applied()
    assert ours.locks, "nobody has come yet"
    ours.change("/a", 7)
    ours.courtesy.applied()
    assert ours.locks == {}
    assert ours.woken == ["session"]


async def test_nobody_comes() -> None:
    ours = proxy()
    ours.courtesy.won(5, 1e-6)
    ours.courtesy.lost(["/a"])
    ours.locks["/a"].waiting.append("session")
    async with asyncio.timeout(20):
        while not ours.woken:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)
    assert ours.locks == {}


async def test_a_path_with_a_txn_of_ours_in_flight_is_held_afterwards() -> None:
    ours = proxy()
    ours.locks["/a"] = object()
    ours.courtesy.lost(["/a"])
    del ours.locks["/a"]
    ours.change("/a", 9)
    ours.courtesy.won(9, 0.001)
    ours.courtesy.released(["/b"])
    assert ours.locks == {}
    ours.courtesy.released(["/a"])
    assert isinstance(ours.locks["/a"], Hold)
    ours.courtesy.lost(["/a"])
    ours.courtesy.released(["/a"])


@pytest.mark.parametrize("when", ["before", "in flight"])
async def test_who_has_lost_too_owes_nothing(when: str) -> None:
    ours = proxy()
    if when == "before":
        ours.change("/a", 6)
        ours.courtesy.lost(["/a"])
    else:
        ours.locks["/a"] = object()
        ours.courtesy.lost(["/a"])
        del ours.locks["/a"]
        ours.change("/a", 6)
        ours.courtesy.released(["/a"])
    assert ours.locks == {}


async def test_a_path_that_is_gone_is_not_held() -> None:
    ours = proxy()
    ours.courtesy.lost(["/gone"])
    assert ours.locks == {}
    ours.courtesy.lost(["/a"])
    del ours.mirror.tree.nodes["/a"]
    ours.courtesy.applied()
    assert ours.locks == {}
