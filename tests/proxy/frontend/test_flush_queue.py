"""Connections that are flushed once a turn of the loop."""

import asyncio
from typing import Any, cast

import pytest

from lab.fakes.connection import PaperLoop
from proxy.frontend.turns import FlushQueue


class Connection:
    """Notes when it is flushed; a flush may fail, or add another connection."""

    def __init__(self, world: "World", name: str) -> None:
        self._world = world
        self._name = name

    def flush(self) -> None:
        self._world.flushed.append(self._name)
        if self._name == "first":
            self._world.add("second")
        if self._name == "bad":
            raise OSError("no such socket")


class World:
    def __init__(self, slice_seconds: float = 1.0) -> None:
        self.loop = PaperLoop()
        self.queue = FlushQueue(cast(asyncio.AbstractEventLoop, self.loop), slice_seconds=slice_seconds)
        self.flushed: list[str] = []

    def add(self, *names: str) -> None:
        for name in names:
            self.queue.add(cast(Any, Connection(self, name)))


def test_all_are_flushed_at_the_end_of_the_turn_in_their_order() -> None:
    world = World()
    world.add("a", "b", "c")
    assert world.flushed == []
    world.loop.turn()
    assert world.flushed == ["a", "b", "c"]
    world.loop.run()
    world.add("d")
    world.loop.run()
    assert world.flushed == ["a", "b", "c", "d"]


def test_what_is_added_meanwhile_comes_in_the_next_turn() -> None:
    world = World()
    world.add("first")
    world.loop.turn()
    assert world.flushed == ["first"]
    world.loop.turn()
    assert world.flushed == ["first", "second"]


def test_one_that_fails_does_not_keep_the_others_from_being_flushed() -> None:
    world = World()
    world.add("bad", "good")
    with pytest.raises(OSError, match="no such socket"):
        world.loop.turn()
    world.loop.run()
    assert world.flushed == ["bad", "good"]


def test_very_many_are_flushed_in_slices() -> None:
    world = World(slice_seconds=0)
    names = [str(number) for number in range(200)]
    world.add(*names)
    for turn in range(4):
        before = len(world.flushed)
        assert before < len(names), turn
        world.loop.turn()
        assert 0 < len(world.flushed) - before <= 64
    assert world.flushed == names
