"""Connections that are flushed once a turn of the loop."""

import asyncio
from typing import cast

import pytest

from lab.fakes.connection import PaperLoop
from proxy.frontend.flush_queue import FlushQueue


class Connection:
    """Notes when it is flushed; a flush may fail, and may add another connection."""

    def __init__(self, name: str, flushed: list[str]) -> None:
        self._name = name
        self._flushed = flushed
        self.fails = False
        self.adds: tuple[FlushQueue, Connection] | None = None

    def flush(self) -> None:
        self._flushed.append(self._name)
        if self.adds is not None:
            queue, other = self.adds
            queue.add(other)
        if self.fails:
            raise OSError("no such socket")


class World:
    def __init__(self) -> None:
        self.loop = PaperLoop()
        self.queue = FlushQueue(cast(asyncio.AbstractEventLoop, self.loop))
        self.flushed: list[str] = []

    def connection(self, name: str) -> Connection:
        return Connection(name, self.flushed)


def test_all_are_flushed_at_the_end_of_the_turn_in_their_order() -> None:
    world = World()
    for name in "abc":
        world.queue.add(world.connection(name))
    assert world.flushed == []
    world.loop.turn()
    assert world.flushed == ["a", "b", "c"]
    world.loop.run()
    world.queue.add(world.connection("d"))
    world.loop.run()
    assert world.flushed == ["a", "b", "c", "d"]


def test_what_is_added_meanwhile_comes_in_the_next_turn() -> None:
    world = World()
    first = world.connection("first")
    first.adds = world.queue, world.connection("second")
    world.queue.add(first)
    world.loop.turn()
    assert world.flushed == ["first"]
    world.loop.turn()
    assert world.flushed == ["first", "second"]


def test_one_that_fails_does_not_keep_the_others_from_being_flushed() -> None:
    world = World()
    bad = world.connection("bad")
    bad.fails = True
    world.queue.add(bad)
    world.queue.add(world.connection("good"))
    with pytest.raises(OSError, match="no such socket"):
        world.loop.turn()
    world.loop.run()
    assert world.flushed == ["bad", "good"]


def test_very_many_are_flushed_in_slices() -> None:
    world = World()
    world.queue = FlushQueue(cast(asyncio.AbstractEventLoop, world.loop), slice_seconds=0)
    names = [str(number) for number in range(200)]
    for name in names:
        world.queue.add(world.connection(name))
    turns = 0
    while len(world.flushed) < len(names):
        before = len(world.flushed)
        world.loop.turn()
        assert 0 < len(world.flushed) - before <= 64
        turns += 1
    assert turns == 4
    assert world.flushed == names
