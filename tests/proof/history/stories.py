"""Histories: short ones, written down step by step, and those of simulated clients."""

from collections.abc import Callable
from functools import cache

from proof.history import Create, GetData, History, Reply, SetData, Stat
from proof.history import records as r
from proof.simulation.simulation import Simulation

_MS = 1_000_000


class Story(History):
    """A history in which each record is a millisecond after the last."""

    def __init__(self, *steps: "Step") -> None:
        super().__init__()
        self.now = 0
        self.add(*steps)

    def add(self, *steps: "Step") -> None:
        """Add steps."""
        for step in steps:
            if callable(step):
                step(self)
                continue
            call = self.invoke(self.tick(), step[0], step[1])
            if len(step) == 3:
                self.reply(self.tick(), call, step[2])
            else:
                self.lost(self.tick(), call)

    def tick(self, milliseconds: int = 1) -> int:
        self.now += milliseconds * _MS
        return self.now


# A call: session, request and reply, or no reply where none arrives. All else is a function.
Step = tuple[int, r.Request, Reply] | tuple[int, r.Request] | Callable[[Story], None]


def told(session: int, type: int, path: str, zxid: int | None = None) -> Step:
    """An event arrives."""
    return lambda story: story.event(story.tick(), session, type, path, zxid)


def opened(session: int, timeout_ms: int) -> Step:
    return lambda story: story.opened(story.tick(), session, timeout_ms)


def expired(session: int, after_ms: int = 1) -> Step:
    return lambda story: story.expired(story.tick(after_ms), session)


def reconnected(session: int) -> Step:
    def step(story: Story) -> None:
        story.disconnected(story.tick(), session)
        story.attached(story.tick(), session)

    return step


def watches_again(request: r.SetWatches, *events: Step, zxid: int = 2) -> Step:
    """Session 2 has connected again and sets its watches; events arrive before the reply."""

    def step(story: Story) -> None:
        story.add(reconnected(2))
        call = story.invoke(story.tick(), 2, request)
        story.add(*events)
        story.reply(story.tick(), call, Reply(zxid=zxid))

    return step


def created(path: str, zxid: int) -> Reply:
    return Reply(zxid=zxid, path=path)


def version(number: int) -> Stat:
    return Stat(version=number)


MAKES_A: Step = (1, Create("/a"), created("/a", 1))
SETS_A_TO_1: Step = (1, Create("/a", b"1"), created("/a", 1))
WATCHES_A: Step = (2, GetData("/a", watch=True), Reply(zxid=1, data=b"1"))
WATCHED_A_CHANGES: list[Step] = [SETS_A_TO_1, WATCHES_A, (1, SetData("/a", b"2"), Reply(zxid=2))]
WATCHED_A_AND_B: list[Step] = [
    SETS_A_TO_1,
    WATCHES_A,
    (1, Create("/b", b"1"), created("/b", 2)),
    (2, GetData("/b", watch=True), Reply(zxid=2, data=b"1")),
]


@cache
def simulated(seed: int) -> tuple[r.Record, ...]:
    """What the clients of a simulated world saw, which is right: about 1,000 calls amid a few faults."""
    world = Simulation(seed, 0.01, ("kill a proxy", "cut clients from a proxy", "client dies"))
    assert world.run().violations == []
    return tuple(world.history.records)
