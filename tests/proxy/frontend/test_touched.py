"""Connections that are settled once a turn of the loop."""

import asyncio
from typing import cast

import pytest

from proxy.frontend.touched import Touched
from tests.proxy.frontend.paper import PaperLoop


class Connection:
    """Notes when it is settled; the settling may fail, and touch another one."""

    def __init__(self, name: str, settled: list[str]) -> None:
        self._name = name
        self._settled = settled
        self.fails = False
        self.touches: tuple[Touched, Connection] | None = None

    def settle(self) -> None:
        self._settled.append(self._name)
        if self.touches is not None:
            touched, other = self.touches
            touched.add(other)
        if self.fails:
            raise OSError("no such socket")


class World:
    def __init__(self) -> None:
        self.loop = PaperLoop()
        self.touched = Touched(cast(asyncio.AbstractEventLoop, self.loop))
        self.settled: list[str] = []

    def connection(self, name: str) -> Connection:
        return Connection(name, self.settled)


def test_all_are_settled_at_the_end_of_the_turn_in_their_order() -> None:
    world = World()
    for name in "abc":
        world.touched.add(world.connection(name))
    assert world.settled == []
    world.loop.turn()
    assert world.settled == ["a", "b", "c"]
    world.loop.run()
    world.touched.add(world.connection("d"))
    world.loop.run()
    assert world.settled == ["a", "b", "c", "d"]


def test_what_is_touched_meanwhile_comes_in_the_next_turn() -> None:
    world = World()
    first = world.connection("first")
    first.touches = world.touched, world.connection("second")
    world.touched.add(first)
    world.loop.turn()
    assert world.settled == ["first"]
    world.loop.turn()
    assert world.settled == ["first", "second"]


def test_one_that_fails_does_not_keep_the_others_from_being_settled() -> None:
    world = World()
    bad = world.connection("bad")
    bad.fails = True
    world.touched.add(bad)
    world.touched.add(world.connection("good"))
    with pytest.raises(OSError, match="no such socket"):
        world.loop.turn()
    world.loop.run()
    assert world.settled == ["bad", "good"]


def test_very_many_are_settled_in_slices() -> None:
    world = World()
    world.touched = Touched(cast(asyncio.AbstractEventLoop, world.loop), slice_seconds=0)
    names = [str(number) for number in range(200)]
    for name in names:
        world.touched.add(world.connection(name))
    turns = 0
    while len(world.settled) < len(names):
        before = len(world.settled)
        world.loop.turn()
        assert 0 < len(world.settled) - before <= 64
        turns += 1
    assert turns == 4
    assert world.settled == names
