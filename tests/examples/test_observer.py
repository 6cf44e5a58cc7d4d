"""Waiting for hosts that have something left to do."""

import time

import pytest

from examples.invariants import Violation
from examples.observer import Deadline, Observer
from examples.world import Connecting, World
from lab.client.meter import Meter
from lab.client.session import ConnectionLost


class Looking(Observer):
    def __init__(self, left: list[str], patience_s: float) -> None:
        super().__init__(World([], Meter(), Connecting(patience_s=patience_s), 0.001))
        self.left = left
        self.looks = 0

    async def unfinished(self) -> str:
        if not self.left:
            raise ConnectionLost("no server")
        return self.left.pop(0)

    def done(self) -> object:
        return len(self.left)

    async def look(self) -> None:
        self.looks += 1
        if self.looks < 3:
            raise ConnectionLost("lost")


async def test_waiting_ends_when_nothing_is_left() -> None:
    await Looking(["much", "something", ""], 60.0).wait_for_rest()


async def test_waiting_ends_when_nothing_is_done() -> None:
    with pytest.raises(Violation, match="nothing was done, and no server"):
        await Looking(["much"], 0.0).wait_for_rest()


async def test_looking_goes_on_after_a_lost_connection() -> None:
    observer = Looking([], 60.0)
    await observer.judge()
    assert observer.looks == 3
    await observer.close()


def test_a_deadline_is_for_doing_nothing() -> None:
    deadline = Deadline(0.0)
    for done in range(3):
        deadline.check(done, "more is left")
    time.sleep(0.001)
    with pytest.raises(Violation, match="rest: for 0 s nothing was done, and more is left"):
        deadline.check(2, "more is left")
